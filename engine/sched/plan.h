/* plan.h - the scheduler as a pure state machine: step(state, event, now) -> actions.
 *
 * The state is models (each with its queue and, for every worker, the batch that runs there) and
 * workers.
 * No clock, thread, lock or I/O inside, and no memory but what the init functions take. The
 * owner of a plan brings it one event after the other and carries the actions out: scheduler.c with
 * threads and a mutex, tests under virtual time. What the actions point to is theirs until the next
 * event, what a ready worker is given until it is ready again. An event costs O(log n) per sentence
 * it moves, besides going through models and one batch.
 *
 * What holds after every event, and tests/unit/test_plan.c checks:
 * - Whole: a sentence that was accepted comes back exactly once, in one list of actions.
 * - Limits: a batch holds at most max_sentences with at most max_load, newcomers of one step have
 *   at most max_admit_rows source rows; a sentence beyond them is admitted alone.
 * - Callers share: queue.h says whose turn it is. Each is charged with what his sentences took when
 *   they leave a batch: their source rows, or more if their steps were more. One of whom nothing
 *   waited, and who owes nothing, is delayed by a sentence or two of each other, however much these
 *   had queued before; nor does that refuse him, as long as an eighth more than the limit is not
 *   reached. The other caller of whom most waits counts with at most half the limit, however large
 *   a text he was accepted with when nothing waited.
 * - The oldest first: the earliest turn of the caller who is next is among the next newcomers, at
 *   whichever worker. Where it does not fit beside what runs, that batch admits nobody until it
 *   does, at the latest when all that runs there has ended. A caller's other newcomers are those of
 *   most like length.
 * - Bounded passing: later turns of his own may pass a waiting sentence only because their length
 *   is more like that of an earlier one. They do so in at most as many admissions as there are
 *   other length classes with earlier turns when it comes, fewer than QUEUE_CLASSES, and one more
 *   for each earlier turn that comes after it (queue.h says which can). An admission is of at most
 *   max_sentences.
 * - No work for nothing: a request that cannot be done by its deadline, as far as can be told from
 *   what waits before it and how fast the model is (admission.h), is refused at once. While a
 *   model was not seen busy yet, nothing can be told.
 * - Round robin of models: a worker goes round its models. From when a model has something to step
 * for a worker until it is stepped there, every other model is stepped there at most once.
 * - A reader waits for one sentence: the first of a text that is read as it is translated
 *   (n_behind) is decoded by itself, unless another text came after it or waits before it; the rest
 *   of its text waits for that, or for another worker.
 * - No idle hands: with w workers woken and not yet here, at most w sentences wait while another
 *   worker sleeps. A worker leaves those that have nothing to do their share of what waits.
 * - Ends: a waiting sentence leaves the queue, and its limit, with the event that cancels it or
 *   the first event at or after its deadline, and is handed back by the next worker that is ready:
 *   all are busy with a step, or one is on its way. A running one begins no step after that; it
 *   leaves when its worker comes round to its model. Closing ends everybody likewise.
 * - Losing a device: its workers stop when they are ready next, idle ones when they are woken. What
 * they ran waits anew, once, while another device is well; else it ends, and with the last device
 * whatever waits ends and nothing more is accepted.
 *
 * Cancelling takes sentences out eagerly because a queue can be long and its workers busy: a sweep
 * would have to look at all that wait, and the queue's heaps give up any sentence in O(log n).
 * Deadlines have a heap per queue, so that a look at its top tells that nothing has expired.
 */
#ifndef SCHED_PLAN_H
#define SCHED_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/sentence.h"
#include "sched/pace.h"
#include "sched/queue.h"

/* The usual max_load, per sentence of a batch, unless batch_max_load() is less. Batches of
 * sentences of ordinary length are full before they reach it. Sentences four times as long run
 * together in a quarter of the number: so a step does not get longer with the length of the
 * sentences in it, and a few rows are enough to keep products at full speed. */
enum { PLAN_LOAD_PER_SENTENCE = 128 };

struct plan_limits {
    size_t max_sentences; /* of a batch; times the largest beam they are its most decoder rows */
    size_t max_load;      /* likewise: the sum of sentence_load() */
    size_t max_admit_rows;
    size_t usual_beam; /* the model's own */
};

/* What a worker's batch for one model holds. */
struct plan_batch {
    struct sentence **running; /* owned, [max_sentences]; the first n_running, in any order */
    size_t n_running;
    size_t load;
    size_t n_beams;   /* the sum of their beam sizes */
    uint64_t n_steps; /* ever */
};

struct plan_model {
    struct plan_model *next;
    struct plan_limits limits;
    struct queue queue;
    struct pace pace;
    struct acre_statistics counts; /* of what is over; see plan_statistics() */
    struct plan_batch *batches;    /* owned, [n_workers] */
};

struct plan_worker {
    size_t device;
    struct plan_model *model; /* stepped last; NULL: none yet */
    bool is_woken;            /* and not ready since */
    bool is_full;             /* that step is of a batch with room for nobody who waits */
    uint64_t began_ns;        /* likewise: when */
};

struct plan {
    struct plan_model *models;
    size_t max_queued_tokens;
    struct plan_worker *workers; /* owned, [n_workers] */
    size_t n_workers;
    size_t n_woken;
    size_t *sleepers; /* owned; the first n_sleepers sleep, the last one since last */
    size_t n_sleepers;
    struct sentence *ended;      /* to be handed back by the next worker that is ready, */
    struct sentence *last_ended; /* and the last of them */
    bool is_closing;
    bool *is_lost; /* owned, [n_devices] */
    size_t n_devices, n_well;
    int lost; /* 0, or ACRE_EDEVICE: no device is well */
};

enum plan_event_kind {
    PLAN_SUBMIT, /* texts [n] are a request to `model`; cached sentences of theirs stay out */
    PLAN_CANCEL, /* sentences [n] are a text's, submitted before; wherever they are now */
    PLAN_READY,  /* `worker` may be given work; its last step finished finished[n], or failed */
    PLAN_LOSE,   /* `device` is lost, which somebody else than its workers has seen */
    PLAN_CLOSE,
};

struct plan_text {
    struct sentence *sentences; /* [n] */
    size_t n;
};

struct plan_event {
    enum plan_event_kind kind;
    struct plan_model *model;
    const struct plan_text *texts;
    struct sentence *sentences;
    size_t worker;
    struct sentence *const *finished;
    size_t n;
    size_t n_steps, n_rows; /* PLAN_READY: of the device, since it was ready last */
    size_t device;          /* PLAN_LOSE */
    int status;             /* PLAN_READY: 0, or ACRE_EDEVICE: the worker's device is lost */
};

/* What a ready worker is to do: */
enum plan_work {
    PLAN_STEP,  /* one step of `model` */
    PLAN_SLEEP, /* until it is woken; then it is ready again */
    PLAN_STOP,  /* for ever: it is closing, or the worker's device is lost */
};

/* Lists of sentences are linked by `next` and their status is set. */
struct plan_actions {
    int status;          /* PLAN_SUBMIT: 0; or ACRE_EBUSY, ACRE_ETOOLARGE, ACRE_ELATE, ACRE_ECLOSED,
                          * ACRE_EDEVICE: then nothing was queued */
    uint64_t time_ns;    /* PLAN_SUBMIT: of ACRE_ELATE: how long it would take at least */
    const size_t *wakes; /* [n_wakes] workers that sleep */
    size_t n_wakes;
    /* PLAN_READY: */
    struct sentence *ended; /* to hand back */
    enum plan_work work;
    struct plan_model *model;
    struct sentence *leaving;          /* to drop from the model's batch, to hand back when the
                                        * worker is ready again */
    struct sentence *const *newcomers; /* [n_newcomers] to admit to the model's batch, afterwards */
    size_t n_newcomers;
};

/* Each device has as many workers as any other, in order. All workers count as woken. 0 or
 * ACRE_ENOMEM; needs plan_fini() either way. */
int plan_init(struct plan *plan, size_t n_devices, size_t n_workers, size_t max_queued_tokens);
void plan_fini(struct plan *plan); /* not the models */

/* 0 or ACRE_ENOMEM; needs plan_model_fini() either way. */
int plan_model_init(struct plan_model *model, size_t n_workers, const struct plan_limits *limits);
void plan_model_fini(struct plan_model *model, size_t n_workers);

/* The model is borrowed until it is removed. */
void plan_add_model(struct plan *plan, struct plan_model *model);

/* Nobody waits or runs there, and no worker steps it. */
void plan_remove_model(struct plan *plan, struct plan_model *model);

/* now_ns never goes back. */
struct plan_actions plan_step(struct plan *plan, const struct plan_event *event, uint64_t now_ns);

/* Of one model, and what waits and runs there now. */
struct acre_statistics plan_statistics(const struct plan *plan, const struct plan_model *model);

/* Source tokens that wait in all models; those of texts. */
size_t plan_queued_tokens(const struct plan *plan);
size_t plan_tokens(const struct plan_text *texts, size_t n);

#endif
