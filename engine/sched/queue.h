/* queue.h - the sentences that wait for one model, by turn and by length.
 *
 * Turns count source rows. A text gets the clock's turn for its first sentence, and each further
 * sentence a turn later by the rows of those before it; the clock then moves on by the first
 * sentence's rows, and never stands behind the turn that is being served. So texts of one sentence
 * are served first come first served, a short text passes the rest of a long one, several long
 * ones share, and nothing starves: a sentence at row r of its text is passed by at most r rows of
 * texts that came later, give or take one sentence.
 *
 * Sentences of like length stand in one list. queue_take() begins with the earliest turn of all;
 * the rest of what is taken is of like length, nearest lists first. Pure bookkeeping: no clock but
 * its own, no thread; the caller holds the scheduler's lock. Start from zeros.
 */
#ifndef SCHED_QUEUE_H
#define SCHED_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "decode/sentence.h"

enum {
    QUEUE_CLASSES = 64,
    QUEUE_CLASS_TOKENS = 8, /* lengths of one list; the last list has all longer ones */
};

struct queue {
    struct sentence *lists[QUEUE_CLASSES]; /* pairing heaps, the earliest turn on top */
    uint64_t clock;
    uint64_t next_order; /* among equal turns the sentence put first is first */
    size_t n_sentences;
    size_t n_tokens; /* of all waiting sentences */
};

/* The sentences of one text. */
void queue_put(struct queue *queue, struct sentence *sentences, size_t n);

/* Takes at most max_sentences with at most max_rows source rows (end tokens included) into `out`;
 * at least one if any waits and max_sentences > 0. Returns how many. */
size_t queue_take(struct queue *queue, size_t max_sentences, size_t max_rows,
                  struct sentence **out);

#endif
