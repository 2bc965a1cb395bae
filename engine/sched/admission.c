/* Nothing here changes anything but the work of the sentences that are asked about. */
#include "sched/admission.h"

#include <stddef.h>

struct demand admission_demand(const struct plan_model *model, const struct plan_text *texts,
                               size_t n)
{
    struct demand demand = {.n_tokens = 0};
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < texts[t].n; i++) {
            struct sentence *sentence = &texts[t].sentences[i];
            if (sentence->is_cached)
                continue;
            sentence->work = pace_work(&model->pace, sentence);
            demand.caller = sentence->caller;
            demand.deadline_ns = sentence->deadline_ns;
            demand.is_retried = sentence->is_retried;
            demand.last = sentence;
            demand.n_sentences++;
            demand.n_tokens += sentence->n_source;
            demand.n_rows += sentence_source_rows(sentence);
            demand.work += sentence->work;
        }
    return demand;
}

static bool is_waiting(const struct plan *plan, uint64_t caller)
{
    for (const struct plan_model *model = plan->models; model; model = model->next)
        if (queue_flow(&model->queue, caller))
            return true;
    return false;
}

static size_t waiting_tokens(const struct plan *plan, uint64_t caller)
{
    size_t n = 0;
    for (const struct plan_model *model = plan->models; model; model = model->next) {
        const struct flow *flow = queue_flow(&model->queue, caller);
        n += flow ? flow->n_tokens : 0;
    }
    return n;
}

/* What waits, beyond half the room, of the other caller of whom most does. Who has more than that
 * has more than its part for each model at one of them. */
static size_t beyond_half(const struct plan *plan, uint64_t caller)
{
    size_t n_models = 0, half = plan->max_queued_tokens / 2, most = half;
    for (const struct plan_model *model = plan->models; model; model = model->next)
        n_models++;
    for (const struct plan_model *model = plan->models; model; model = model->next)
        for (size_t i = 0; i < model->queue.n_flows; i++) {
            const struct flow *flow = &model->queue.flows[i];
            if (flow->caller == caller || flow->n_tokens <= most / n_models)
                continue;
            size_t n = waiting_tokens(plan, flow->caller);
            most = n > most ? n : most;
        }
    return most - half;
}

bool admission_has_room(const struct plan *plan, const struct demand *demand)
{
    size_t queued = plan_queued_tokens(plan), room = plan->max_queued_tokens;
    if (demand->is_retried || demand->n_sentences == 0)
        return true;
    if (queued == 0 || queued + demand->n_tokens <= room)
        return true;
    queued -= beyond_half(plan, demand->caller);
    if (queued + demand->n_tokens <= room)
        return true;
    return !is_waiting(plan, demand->caller) && queued + demand->n_tokens <= room + room / 8;
}

/* Of devices that are not lost. */
static double n_working(const struct plan *plan)
{
    return (double)(plan->n_workers / plan->n_devices * plan->n_well);
}

/* The work that places in batches are free for: it waits for nobody. */
static double free_work(const struct plan *plan, const struct plan_model *model,
                        const struct demand *demand)
{
    const struct plan_limits *limits = &model->limits;
    size_t n = 0;
    for (size_t i = 0; i < plan->n_workers; i++) {
        const struct plan_batch *batch = &model->batches[i];
        size_t places = limits->max_sentences - batch->n_running;
        size_t left = batch->load < limits->max_load ? limits->max_load - batch->load : 0;
        size_t fit = left / sentence_load(demand->last);
        if (!plan->is_lost[plan->workers[i].device])
            n += fit < places ? fit : places;
    }
    return (double)n * (double)demand->work / (double)demand->n_sentences;
}

/* Of `ns` of the model's own work each other model may need as much, by its steps. */
static double with_others(const struct plan *plan, const struct plan_model *model, double ns)
{
    double sum = ns, step_ns = pace_steps_ns(&model->pace, 1);
    for (const struct plan_model *other = plan->models; other; other = other->next) {
        if (other == model || other->queue.work == 0 || !pace_is_known(&other->pace))
            continue;
        double all = pace_work_ns(&other->pace, (double)other->queue.work / n_working(plan));
        double share = ns * pace_steps_ns(&other->pace, 1) / step_ns;
        sum += all < share ? all : share;
    }
    return sum;
}

uint64_t admission_estimate(const struct plan *plan, const struct plan_model *model,
                            const struct demand *demand)
{
    if (!demand->last || !pace_is_known(&model->pace))
        return 0;
    uint64_t n_rows = demand->n_rows - sentence_source_rows(demand->last);
    uint64_t others = queue_work_before(&model->queue, demand->caller, n_rows);
    double before = (double)others + (double)(demand->work - demand->last->work) -
                    free_work(plan, model, demand);
    if (before <= 0)
        return 0;
    double ns = with_others(plan, model, pace_work_ns(&model->pace, before) / n_working(plan));
    return (uint64_t)(ns + pace_steps_ns(&model->pace, pace_steps(&model->pace, demand->last)));
}

uint64_t admission_time(const struct plan_model *model, uint64_t estimate_ns)
{
    return (uint64_t)(pace_caution(&model->pace) * (double)estimate_ns);
}

bool admission_is_late(const struct demand *demand, uint64_t time_ns, uint64_t now_ns)
{
    if (demand->is_retried || demand->deadline_ns == 0)
        return false;
    uint64_t left_ns = demand->deadline_ns > now_ns ? demand->deadline_ns - now_ns : 0;
    return time_ns > left_ns;
}
