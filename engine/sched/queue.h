/* queue.h - the sentences that wait for one model, by turn, by length and by deadline.
 *
 * The order is start-time fair queueing (Goyal, Vin and Cheng, 1996): a text is a flow, a source
 * row is the unit of service, and a turn is a sentence's virtual start time. The first sentence of
 * a text gets the virtual clock's time. Each further sentence starts later by the rows of those
 * before it. The clock then moves on by the first sentence's rows, and never stands behind the turn
 * that is being served. So texts of one sentence are served first come first served, a short text
 * passes the rest of a long one, and several long ones share. Nothing starves: no sentence of a
 * later text has an earlier turn than the first of a text. Take a sentence that has r rows of its
 * own text before it: of each later text, only sentences with fewer than r rows before them can
 * pass it.
 *
 * Sentences of like length stand in one list. queue_take() begins with the earliest turn of all;
 * the rest of what is taken is of like length, nearest lists first, the earliest turn of each list
 * first. It ends at the first that does not fit: thereby all lists that it took from are empty but
 * the last one, and whoever is passed by later turns because of his length is passed so at most
 * once for each other list (plan.h has the bound).
 *
 * Any sentence can be taken out at any time, in O(log n). Pure bookkeeping: no clock but its own,
 * no thread, no allocation; the caller holds the scheduler's lock. Start from zeros.
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
    struct sentence *deadlines;            /* of those with a deadline, the next one on top */
    uint64_t clock;
    uint64_t next_order; /* among equal turns the sentence put first is first */
    size_t n_sentences;
    size_t n_tokens; /* of all waiting sentences */
};

/* How much may be taken. */
struct queue_room {
    size_t sentences;
    size_t source_rows;
    size_t load; /* sentence_load() */
};

/* The sentences of one text, but for those that are known. */
void queue_put(struct queue *queue, struct sentence *sentences, size_t n);

/* The earliest turn; stays in the queue. NULL if none waits. */
struct sentence *queue_first(const struct queue *queue);

/* Takes what fits into `out`, at least the earliest turn if room->sentences > 0, even if it alone
 * is too large. Returns how many. */
size_t queue_take(struct queue *queue, const struct queue_room *room, struct sentence **out);

/* Takes this one out, which waits. */
void queue_remove(struct sentence *sentence);

/* Takes out one whose deadline is not after now_ns; NULL if there is none. */
struct sentence *queue_take_expired(struct queue *queue, uint64_t now_ns);

#endif
