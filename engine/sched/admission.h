/* admission.h - how long a request would take, before it is queued.
 *
 * What is certain to come before it (queue_work_before()) at the pace of its model, and at most as
 * long for the work of other models, who take turns; then the steps of its last sentence, of which
 * a batch is full. What comes later of other callers, how long each translation gets, and how fast
 * the machine will be, cannot be known: by how much such estimates were wrong is measured
 * (pace_caution()), and who is accepted shall be in time even so. Part of the plan: no clock, the
 * caller holds the scheduler's lock.
 */
#ifndef SCHED_ADMISSION_H
#define SCHED_ADMISSION_H

#include "sched/plan.h"

/* What a request asks for: of its sentences those that are not cached. */
struct demand {
    uint64_t caller;
    struct sentence *last; /* NULL: there is none */
    size_t n_sentences, n_tokens;
    uint64_t n_rows, work;
    uint64_t deadline_ns; /* 0: none */
    bool is_retried;      /* a device accepted it before that is lost */
};

/* Sets the work of each sentence, by the pace of the model as it is now. */
struct demand admission_demand(const struct plan_model *model, const struct plan_text *texts,
                               size_t n);

/* Whether the caller's share of the plan's room leaves place for it, or it was accepted before,
 * or asks for nothing.
 * Where something waits of him, that room is max_queued_tokens; else there is an eighth more, so
 * that nobody can fill the queue for all others. The other caller of whom most waits counts with
 * at most half of it, however much that is. */
bool admission_has_room(const struct plan *plan, const struct demand *demand);

/* In how many ns it should be done, counting from now; 0: at once, or not known. */
uint64_t admission_estimate(const struct plan *plan, const struct plan_model *model,
                            const struct demand *demand);

/* In how many ns it is done all but surely, by such an estimate. */
uint64_t admission_time(const struct plan_model *model, uint64_t estimate_ns);

/* Whether what takes so long is late; what was accepted before is not. */
bool admission_is_late(const struct demand *demand, uint64_t time_ns, uint64_t now_ns);

#endif
