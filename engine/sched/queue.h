/* queue.h - the sentences that wait for one model, by caller, by turn, by length and by deadline.
 *
 * Callers share: what waits of one caller is a flow, a source row is the unit of service, and the
 * flow with the earliest start is served next. A flow's start is where the clock stands when its
 * caller begins to wait, and moves on by the rows of each sentence that is taken. The clock is
 * where the sentence ends that was taken last. So a caller of whom nothing waited is passed by each
 * other caller for at most as many rows as the longest sentence taken so far has, and then by one
 * sentence; and no caller starves.
 *
 * What a sentence took beyond its rows is known when it has been decoded, and its caller charged
 * with it then: the flow's start moves on, but not the clock. Who owes that is remembered while
 * nothing of his waits, until the clock has come as far, so that he cannot leave it behind by
 * coming anew.
 *
 * Within a caller the order is start-time fair queueing (Goyal, Vin and Cheng, 1996) of its texts:
 * a turn is a sentence's virtual start time. The first sentence of a text gets the time of the
 * flow's own clock. Each further sentence starts later by the rows of those before it. The clock
 * then moves on by the first sentence's rows, and never stands behind the turn that is being
 * served. So texts of one sentence are served first come first served, a short text passes the rest
 * of a long one, and several long ones share. Nothing starves: no sentence of a later text has an
 * earlier turn than the first of a text. Take a sentence that has r rows of its own text before it:
 * of each later text, only sentences with fewer than r rows before them can pass it.
 *
 * A caller's sentences of like length stand in one list. queue_take() begins with the earliest turn
 * of the caller who is next. Whenever that caller is next again, what it takes is of like length,
 * nearest lists first, the earliest turn of each list first. It ends at the first that does not
 * fit: thereby, of each caller, all lists that it took from are empty but the last one, and a
 * sentence that later turns pass because of its length is passed so at most once for each other
 * list (plan.h has the bound).
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
    QUEUE_FLOWS = 256,      /* so many callers are told apart while they wait; more share flows,
                             * and the least debts are forgotten for them */
};

/* What waits of one caller. */
struct flow {
    uint64_t caller;
    uint64_t start;                        /* on the queue's clock */
    uint64_t clock, end;                   /* of its texts; where the last of them ends */
    struct sentence *lists[QUEUE_CLASSES]; /* pairing heaps, the earliest turn on top */
    struct sentence *first;                /* the earliest turn; NULL: nothing waits */
    uint64_t n_takes;                      /* the queue's, when it was last taken from: */
    size_t class;                          /* that of the sentence that was taken first then */
    size_t n_sentences, n_tokens;
    uint64_t n_rows, work; /* of all of them; sentence.work */
};

struct queue {
    struct flow flows[QUEUE_FLOWS]; /* the first n_flows are in use, or were */
    size_t n_flows;
    struct sentence *deadlines; /* of those with a deadline, the next one on top */
    uint64_t clock, n_takes;
    uint64_t next_order; /* among equal turns and starts the sentence put first is first */
    size_t n_sentences;
    size_t n_tokens; /* of all waiting sentences */
    uint64_t work;   /* likewise: sentence.work */
};

/* How much may be taken. */
struct queue_room {
    size_t sentences;
    size_t source_rows;
    size_t load; /* sentence_load() */
};

/* The sentences of one text that are not cached. */
void queue_put(struct queue *queue, struct sentence *sentences, size_t n);

/* The earliest turn of the caller who is next; stays in the queue. NULL if none waits. */
struct sentence *queue_first(const struct queue *queue);

/* Takes what fits into `out`, at least the first if room->sentences > 0, even if it alone is too
 * large. Returns how many. */
size_t queue_take(struct queue *queue, const struct queue_room *room, struct sentence **out);

/* Takes this one out, which waits. */
void queue_remove(struct sentence *sentence);

/* Takes out one whose deadline is not after now_ns; NULL if there is none. */
struct sentence *queue_take_expired(struct queue *queue, uint64_t now_ns);

/* What was taken of the caller took so many rows more than it was taken for. */
void queue_charge(struct queue *queue, uint64_t caller, uint64_t n_rows);

/* What waits of a caller; NULL: nothing. */
const struct flow *queue_flow(const struct queue *queue, uint64_t caller);

/* The work of what waits and comes before a sentence that the caller put now, with `n_rows` source
 * rows of its text before it, if nobody came after. */
uint64_t queue_work_before(const struct queue *queue, uint64_t caller, uint64_t n_rows);

#endif
