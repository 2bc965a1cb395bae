/* scheduler.h - worker threads that take waiting sentences into their batches and decode them.
 *
 * Every model that is served has a queue and one batch per worker. A worker goes round: drop from a
 * model's batch who shall not go on, admit newcomers, run one step, hand sentences that have ended
 * to `finished`, which is called on the worker's thread without the lock. Newcomers join a running
 * batch between steps, so a short sentence does not wait for a long one.
 *
 * The plan (plan.h) decides which sentences run where, and knows no threads; here are the threads,
 * and the one mutex, which guards the plan. Batches belong to their worker alone.
 */
#ifndef SCHED_SCHEDULER_H
#define SCHED_SCHEDULER_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "decode/batch.h"
#include "decode/sentence.h"
#include "sched/plan.h" /* struct plan_text */

struct scheduler;
struct served_model;

typedef void sentence_finished_fn(struct sentence *sentence);
/* A device is lost, as it says; so many are well. Called without the lock, by a worker or by who
 * has told it. */
typedef void device_lost_fn(void *user, const struct acre_err *why, size_t n_well);

struct scheduler_options {
    size_t n_devices;
    int n_workers;            /* the same number for each device, in order */
    size_t max_queued_tokens; /* of all models together */
    sentence_finished_fn *finished;
    device_lost_fn *lost;
    void *lost_user;
};

/* Starts the workers. *scheduler is owned by the caller. */
int scheduler_open(const struct scheduler_options *options, struct scheduler **scheduler,
                   struct acre_err *err);

/* Stops and joins the workers after their current step; every sentence still inside is finished
 * with ACRE_ECLOSED, and none is accepted any more. NULL is allowed. */
void scheduler_stop(struct scheduler *scheduler);
/* Frees one that is stopped, and its models. NULL is allowed. */
void scheduler_close(struct scheduler *scheduler);

/* Adds a model, which has a network on every device, or NULL for one that is lost; opens its
 * batches, but where the device is lost meanwhile. usual_beam is the one of its own config.
 * *served lives until it is removed. */
int scheduler_add_model(struct scheduler *scheduler, struct network *const *networks,
                        const struct search_model *model, const struct batch_limits *limits,
                        size_t usual_beam, struct served_model **served, struct acre_err *err);

/* Frees a model all of whose sentences were handed back. */
void scheduler_remove_model(struct scheduler *scheduler, struct served_model *served);

/* Queues all texts or none: ACRE_EBUSY when too many tokens wait already, ACRE_ETOOLARGE, see
 * plan.h, ACRE_ELATE, ACRE_ECLOSED, ACRE_EDEVICE. */
int scheduler_submit(struct scheduler *scheduler, struct served_model *served,
                     const struct plan_text *texts, size_t n, struct acre_err *err);

/* Ends those of the text's sentences that have not ended yet with ACRE_ECANCELLED, soon. */
void scheduler_cancel(struct scheduler *scheduler, struct sentence *sentences, size_t n);

/* 0, or ACRE_EDEVICE and what the last device said when it was lost. */
int scheduler_health(struct scheduler *scheduler, struct acre_err *err);
/* Somebody else than its workers has seen that a device is lost, for that reason. */
void scheduler_lose_device(struct scheduler *scheduler, size_t device, const struct acre_err *why);
bool scheduler_device_is_well(struct scheduler *scheduler, size_t device);

struct acre_statistics scheduler_statistics(struct scheduler *scheduler,
                                            const struct served_model *served);

/* Source tokens that wait in all queues. */
size_t scheduler_queued_tokens(struct scheduler *scheduler);

/* The clock of deadlines; it never goes back. */
uint64_t scheduler_now_ns(void);

#endif
