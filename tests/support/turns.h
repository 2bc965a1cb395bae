/* turns.h - who is next among waiting sentences, by the rules of sched/queue.h and the slow way.
 *
 * Tests tell it who begins to wait and who is gone, and ask it whom the queue has to take.
 */
#ifndef TESTS_TURNS_H
#define TESTS_TURNS_H

#include "sched/queue.h"

enum { TURNS_MOST = 3000, TURNS_CALLERS = 8 };

struct turns {
    const struct sentence *waiting[TURNS_MOST]; /* [n], in the order they came */
    size_t n;
    uint64_t clock, starts[TURNS_CALLERS];
    const struct sentence *firsts[TURNS_CALLERS]; /* taken first since turns_begin(), or NULL */
};

/* One of a text that is put; its turn is set. Callers are less than TURNS_CALLERS. */
void turns_put(struct turns *turns, const struct sentence *sentence);
void turns_remove(struct turns *turns, const struct sentence *sentence);

/* What was taken of the caller took so many rows more. */
void turns_charge(struct turns *turns, uint64_t caller, uint64_t n_rows);

/* A take begins; the next of it, NULL if nobody waits; it is taken. */
void turns_begin(struct turns *turns);
const struct sentence *turns_next(const struct turns *turns);
void turns_take(struct turns *turns, const struct sentence *sentence);

size_t turns_class(const struct sentence *sentence);
size_t turns_distance(const struct sentence *a, const struct sentence *b);
size_t turns_rows(const struct sentence *sentence);

#endif
