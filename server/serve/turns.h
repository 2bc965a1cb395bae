/* turns.h - work that takes long, in threads of the pool: a piece or a few at a time, of callers in
 * turn.
 *
 * Next is the first piece of the caller who has waited longest, since he came or a piece of his was
 * done. So a caller with many pieces waits for himself: a piece waits for those of its own caller,
 * and before each of them, and itself, for no more than one of each other. Callers who come later
 * are behind. A caller is a number (access.h). Loop thread, except the work itself.
 */
#ifndef SERVER_SERVE_TURNS_H
#define SERVER_SERVE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { TURNS_HALF = 2 }; /* of the pool's threads */

/* Part of whatever is worked on. All 0 before; may wait again when it is done. */
struct turn {
    uv_work_t uv;
    void (*begin)(void *user); /* on the loop, when it has its turn; or NULL */
    void (*work)(void *user);  /* in a thread of the pool; again and again while it sets goes_on */
    void (*done)(void *user);  /* then, on the loop: it may free the turn */
    void *user;
    bool goes_on;        /* what is done is a part, and others' work comes before the next */
    bool is_waiting;     /* in turns->waiting */
    bool is_working;     /* it has its turn: from there until done(), nothing can stop it */
    struct turns *turns; /* where it waited last, or NULL */
    uint64_t caller;
    uint64_t since; /* n_done when it came, or when a piece of its caller was done */
    struct turn *next;
};

struct turns {
    uv_loop_t *loop;
    size_t *n_working; /* is counted up while one works */
    size_t n_at_work, most_at_work;
    struct turn *waiting; /* as they came */
    uint64_t n_done;
};

void turns_init(struct turns *turns, uv_loop_t *loop, size_t most_at_work, size_t *n_working);

/* `begin`, `work`, `done` and `user` are set; begin() may be called before this returns. */
void turns_wait(struct turns *turns, struct turn *turn, uint64_t caller);

/* Waits no more. False: it did not, or it works, and is left alone. */
bool turn_leave(struct turn *turn);

#endif
