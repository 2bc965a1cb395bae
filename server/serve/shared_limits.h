/* shared_limits.h - what replicas know of each other's counting, through Redis or Valkey.
 *
 * One script, run there, takes a token of a bucket and tells what others have used of a quota. Each
 * replica writes what it has counted itself, as a whole: what was lost, or counted while nobody
 * could be asked, is right again with the next request. An answer comes within SHARED_WAIT_MS;
 * while the server is away, slow or hangs, it is at once that this replica is alone. Loop thread
 * only.
 */
#ifndef SERVER_SERVE_SHARED_LIMITS_H
#define SERVER_SERVE_SHARED_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "acre.h"

#define SHARED_EXPECTED "redis://[[USER]:PASSWORD@]HOST:PORT[/NUMBER] or unix:/PATH"

enum { SHARED_WAIT_MS = 50, SHARED_NAME_BYTES = 96 };

struct shared;
struct shared_ask;
typedef void shared_done_fn(struct shared_ask *ask);

/* Part of whatever asks, until `done`. */
struct shared_ask {
    char bucket[SHARED_NAME_BYTES]; /* "": none, and no rate */
    int64_t per_minute;
    char usage[SHARED_NAME_BYTES]; /* "": none */
    int64_t own;                   /* what this replica has counted there */
    shared_done_fn *done;

    bool is_answered;
    uint64_t wait_ns; /* until there is a token; 0: one was taken */
    int64_t others;   /* what the others have counted */
};

bool shared_valid(const char *url); /* "" is none */

/* `replica` is what this one is called there. Tries to connect for ever; the log says how it goes.
 */
int shared_open(uv_loop_t *loop, const char *url, const char *replica, struct shared **shared,
                struct acre_err *err);
/* Then run the loop once: those that wait are answered. NULL: does nothing. */
void shared_stop(struct shared *shared);
void shared_close(struct shared *shared);

/* False: nobody can be asked, and done() is not called. */
bool shared_ask(struct shared *shared, struct shared_ask *ask);

/* Tells `own` of `usage` to whom it may concern. */
void shared_tell(struct shared *shared, const char *usage, int64_t own);

/* It is there, and its last answer was one. */
bool shared_is_up(const struct shared *shared);

/* Since the start: asks that were answered; not in time; by what is no answer, such as an error;
 * and those that had nobody to go to. */
struct shared_counts {
    uint64_t answered, late, wrong, away;
};
struct shared_counts shared_counts(const struct shared *shared);

#endif
