#include "sched/plan.h"

#include <stddef.h>

#include "base/mem.h"

/* ---- Opening and closing --------------------------------------------------------------------- */

int plan_init(struct plan *plan, size_t n_workers, size_t max_queued_tokens)
{
    *plan = (struct plan){
        .max_queued_tokens = max_queued_tokens,
        .workers = mem_calloc(n_workers, sizeof(*plan->workers)),
        .n_workers = n_workers,
        .n_woken = n_workers,
        .sleepers = mem_calloc(n_workers, sizeof(*plan->sleepers)),
    };
    for (size_t i = 0; plan->workers && i < n_workers; i++)
        plan->workers[i].is_woken = true;
    return plan->workers && plan->sleepers ? 0 : ACRE_ENOMEM;
}

void plan_fini(struct plan *plan)
{
    mem_free(plan->workers);
    mem_free(plan->sleepers);
}

int plan_lane_init(struct plan_lane *lane, size_t n_workers, const struct plan_limits *limits)
{
    *lane = (struct plan_lane){.limits = *limits};
    lane->seats = mem_calloc(n_workers, sizeof(*lane->seats));
    for (size_t i = 0; lane->seats && i < n_workers; i++) {
        lane->seats[i].running = mem_calloc(limits->max_sentences, sizeof(struct sentence *));
        if (!lane->seats[i].running)
            return ACRE_ENOMEM;
    }
    return lane->seats ? 0 : ACRE_ENOMEM;
}

void plan_lane_fini(struct plan_lane *lane, size_t n_workers)
{
    for (size_t i = 0; lane->seats && i < n_workers; i++)
        mem_free(lane->seats[i].running);
    mem_free(lane->seats);
}

void plan_add_lane(struct plan *plan, struct plan_lane *lane)
{
    lane->next = plan->lanes;
    plan->lanes = lane;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void push(struct sentence **list, struct sentence *sentence)
{
    sentence->next = *list;
    *list = sentence;
}

static void count_end(struct plan_lane *lane, const struct sentence *sentence)
{
    struct acre_statistics *counts = &lane->counts;
    if (sentence->status == ACRE_ECANCELLED) {
        counts->cancelled_sentences++;
    } else if (sentence->status == ACRE_ETIMEOUT) {
        counts->expired_sentences++;
    } else if (sentence->status != 0) {
        counts->failed_sentences += sentence->status != ACRE_ECLOSED;
    } else {
        counts->done_sentences++;
        counts->done_source_tokens += sentence->n_source;
        if (sentence->n_hypotheses > 0)
            counts->done_target_tokens += sentence->hypotheses[0].n_tokens;
    }
}

/* A sentence that waited; it is in no queue any more. */
static void end(struct plan *plan, struct plan_lane *lane, struct sentence *sentence, int status)
{
    sentence->status = status;
    count_end(lane, sentence);
    push(&plan->ended, sentence);
}

static void end_expired(struct plan *plan, uint64_t now_ns)
{
    for (struct plan_lane *lane = plan->lanes; lane; lane = lane->next) {
        struct sentence *sentence;
        while ((sentence = queue_take_expired(&lane->queue, now_ns)))
            end(plan, lane, sentence, ACRE_ETIMEOUT);
    }
}

size_t plan_queued_tokens(const struct plan *plan)
{
    size_t n = 0;
    for (const struct plan_lane *lane = plan->lanes; lane; lane = lane->next)
        n += lane->queue.n_tokens;
    return n;
}

struct acre_statistics plan_statistics(const struct plan *plan, const struct plan_lane *lane)
{
    struct acre_statistics statistics = lane->counts;
    statistics.queued_sentences = lane->queue.n_sentences;
    statistics.queued_tokens = lane->queue.n_tokens;
    for (size_t i = 0; i < plan->n_workers; i++)
        statistics.running_sentences += lane->seats[i].n_running;
    return statistics;
}

/* A text larger than the limit is accepted when nothing waits. */
static int submit(struct plan *plan, const struct plan_event *event)
{
    size_t queued = plan_queued_tokens(plan), n_tokens = 0;
    for (size_t i = 0; i < event->n; i++)
        n_tokens += event->sentences[i].n_source;
    if (plan->is_closing)
        return ACRE_ECLOSED;
    if (plan->lost != 0)
        return plan->lost;
    if (queued > 0 && queued + n_tokens > plan->max_queued_tokens) {
        event->lane->counts.refused_texts++;
        return ACRE_EBUSY;
    }
    queue_put(&event->lane->queue, event->sentences, event->n);
    return 0;
}

static struct plan_lane *lane_of(struct queue *queue)
{
    return (struct plan_lane *)((char *)queue - offsetof(struct plan_lane, queue));
}

static void cancel(struct plan *plan, const struct plan_event *event)
{
    for (size_t i = 0; i < event->n; i++) {
        struct sentence *sentence = &event->sentences[i];
        sentence->cancelled = true;
        if (sentence->queue) {
            struct plan_lane *lane = lane_of(sentence->queue);
            queue_remove(sentence);
            end(plan, lane, sentence, ACRE_ECANCELLED);
        }
    }
}

static void end_waiting(struct plan *plan, int status)
{
    for (struct plan_lane *lane = plan->lanes; lane; lane = lane->next) {
        struct sentence *sentence;
        while ((sentence = queue_first(&lane->queue))) {
            queue_remove(sentence);
            end(plan, lane, sentence, status);
        }
    }
}

/* ---- The step of a worker -------------------------------------------------------------------- */

static void stand_up(struct plan_seat *seat, size_t index)
{
    seat->load -= sentence_load(seat->running[index]);
    seat->running[index] = seat->running[--seat->n_running];
}

/* What the last step has finished. */
static void end_finished(struct plan *plan, const struct plan_event *event)
{
    struct plan_lane *lane = plan->workers[event->worker].lane;
    if (lane) {
        lane->counts.steps += event->n_steps;
        lane->counts.rows += event->n_rows;
    }
    for (size_t i = 0; i < event->n; i++) {
        struct plan_seat *seat = &lane->seats[event->worker];
        size_t index = 0;
        while (seat->running[index] != event->finished[i])
            index++;
        stand_up(seat, index);
        count_end(lane, event->finished[i]);
        push(&plan->ended, event->finished[i]);
    }
}

/* Why a running sentence may not go on; 0: it may. */
static int end_of(const struct plan *plan, const struct sentence *sentence, uint64_t now_ns)
{
    if (plan->is_closing)
        return ACRE_ECLOSED;
    if (plan->lost != 0)
        return plan->lost;
    if (sentence->cancelled)
        return ACRE_ECANCELLED;
    return sentence->deadline_ns != 0 && sentence->deadline_ns <= now_ns ? ACRE_ETIMEOUT : 0;
}

static struct sentence *drop_ended(const struct plan *plan, struct plan_lane *lane,
                                   struct plan_seat *seat, uint64_t now_ns)
{
    struct sentence *leaving = NULL;
    for (size_t i = seat->n_running; i-- > 0;) {
        struct sentence *sentence = seat->running[i];
        int status = end_of(plan, sentence, now_ns);
        if (status == 0)
            continue;
        sentence->status = status;
        count_end(lane, sentence);
        stand_up(seat, i);
        push(&leaving, sentence);
    }
    return leaving;
}

/* With other workers idle a worker leaves them their share. */
static size_t fair_share(const struct plan *plan, const struct plan_lane *lane)
{
    size_t takers = plan->n_sleepers + plan->n_woken + 1;
    return (lane->queue.n_sentences + takers - 1) / takers;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Newcomers sit down behind those that run; returns how many. */
static size_t admit(const struct plan *plan, struct plan_lane *lane, struct plan_seat *seat)
{
    const struct plan_limits *limits = &lane->limits;
    const struct sentence *first = queue_first(&lane->queue);
    struct queue_room room = {
        .sentences = smaller(limits->max_sentences - seat->n_running, fair_share(plan, lane)),
        .source_rows = limits->max_admit_rows,
        .load = limits->max_load - smaller(seat->load, limits->max_load),
    };
    if (!first || (seat->n_running > 0 && sentence_load(first) > room.load))
        return 0;
    struct sentence **newcomers = seat->running + seat->n_running;
    size_t n = queue_take(&lane->queue, &room, newcomers);
    for (size_t i = 0; i < n; i++)
        seat->load += sentence_load(newcomers[i]);
    seat->n_running += n;
    return n;
}

/* The next lane that has something to step for the worker, the one stepped last at the very end;
 * NULL: none has. */
static struct plan_lane *next_lane(const struct plan *plan, size_t worker)
{
    struct plan_lane *last = plan->workers[worker].lane, *lane = last;
    for (const struct plan_lane *each = plan->lanes; each; each = each->next) {
        lane = lane && lane->next ? lane->next : plan->lanes;
        if (lane->seats[worker].n_running > 0 || lane->queue.n_sentences > 0)
            return lane;
    }
    return NULL;
}

static void give_work(struct plan *plan, size_t index, uint64_t now_ns,
                      struct plan_actions *actions)
{
    struct plan_lane *lane = next_lane(plan, index);
    if (!lane) {
        actions->work = plan->is_closing ? PLAN_STOP : PLAN_SLEEP;
        if (!plan->is_closing)
            plan->sleepers[plan->n_sleepers++] = index;
        return;
    }
    struct plan_seat *seat = &lane->seats[index];
    plan->workers[index].lane = lane;
    actions->work = PLAN_STEP;
    actions->lane = lane;
    actions->leaving = drop_ended(plan, lane, seat, now_ns);
    actions->newcomers = seat->running + seat->n_running;
    actions->n_newcomers = admit(plan, lane, seat);
}

static void ready(struct plan *plan, const struct plan_event *event, uint64_t now_ns,
                  struct plan_actions *actions)
{
    struct plan_worker *worker = &plan->workers[event->worker];
    plan->n_woken -= worker->is_woken;
    worker->is_woken = false;
    end_finished(plan, event);
    if (event->status != 0) {
        plan->lost = event->status;
        end_waiting(plan, plan->lost);
    }
    actions->ended = plan->ended;
    plan->ended = NULL;
    give_work(plan, event->worker, now_ns, actions);
}

/* ---- All events ------------------------------------------------------------------------------ */

/* How many idle workers have something to do: one for each sentence that waits; all, to stop. Those
 * that have ended while waiting need no more: who was woken for them is coming. */
static size_t useful_workers(const struct plan *plan)
{
    size_t n = 0;
    if (plan->is_closing)
        return plan->n_workers;
    for (const struct plan_lane *lane = plan->lanes; lane; lane = lane->next)
        n += lane->queue.n_sentences;
    return n;
}

/* Those that sleep the shortest first. Their numbers stay where they are in `sleepers`. */
static void wake(struct plan *plan, struct plan_actions *actions)
{
    size_t useful = useful_workers(plan);
    while (plan->n_sleepers > 0 && plan->n_woken < useful) {
        plan->workers[plan->sleepers[--plan->n_sleepers]].is_woken = true;
        plan->n_woken++;
        actions->wakes = &plan->sleepers[plan->n_sleepers];
        actions->n_wakes++;
    }
}

struct plan_actions plan_step(struct plan *plan, const struct plan_event *event, uint64_t now_ns)
{
    struct plan_actions actions = {.status = 0};
    end_expired(plan, now_ns);
    switch (event->kind) {
    case PLAN_SUBMIT:
        actions.status = submit(plan, event);
        break;
    case PLAN_CANCEL:
        cancel(plan, event);
        break;
    case PLAN_READY:
        ready(plan, event, now_ns, &actions);
        break;
    case PLAN_CLOSE:
        plan->is_closing = true;
        end_waiting(plan, ACRE_ECLOSED);
        break;
    }
    wake(plan, &actions);
    return actions;
}
