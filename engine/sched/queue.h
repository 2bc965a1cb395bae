/* queue.h - the sentences that wait for one model, by length.
 *
 * Sentences of like length stand in one list, first come first served. queue_take() begins with
 * the oldest sentence of all, so none starves: a sentence waits at most until those before it are
 * taken. The rest of what is taken is of like length, nearest lists first. Pure bookkeeping: no
 * clock, no thread; the caller holds the scheduler's lock.
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
    struct sentence *head[QUEUE_CLASSES], *tail[QUEUE_CLASSES];
    uint64_t next_order;
    size_t n_sentences;
    size_t n_tokens; /* of all waiting sentences */
};

void queue_put(struct queue *queue, struct sentence *sentence);

/* Takes at most max_sentences with at most max_rows source rows (end tokens included) into `out`;
 * at least one if any waits and max_sentences > 0. Returns how many. */
size_t queue_take(struct queue *queue, size_t max_sentences, size_t max_rows,
                  struct sentence **out);

#endif
