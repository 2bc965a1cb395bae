/* An event first ends who is past a deadline, then does what its kind says, then wakes workers for
 * what waits. A ready worker gets the next model that has something for it: who has to leave its
 * batch, who enters, one step.
 *
 * What can go wrong: too much waits (ACRE_EBUSY, nothing is queued), or more than leaves time until
 * the deadline (ACRE_ELATE, likewise); the plan is closing, which ends everybody: who waits at
 * once, who runs when the worker comes round; a device is lost, whose workers stop when they are
 * ready next, and what they ran goes to other devices or ends. */
#include "sched/plan.h"

#include <stddef.h>

#include "base/mem.h"
#include "sched/admission.h"
#include "sched/counts.h"

/* ---- Opening and closing --------------------------------------------------------------------- */

int plan_init(struct plan *plan, size_t n_devices, size_t n_workers, size_t max_queued_tokens)
{
    *plan = (struct plan){
        .max_queued_tokens = max_queued_tokens,
        .workers = mem_calloc(n_workers, sizeof(*plan->workers)),
        .n_workers = n_workers,
        .n_woken = n_workers,
        .sleepers = mem_calloc(n_workers, sizeof(*plan->sleepers)),
        .is_lost = mem_calloc(n_devices, sizeof(*plan->is_lost)),
        .n_devices = n_devices,
        .n_well = n_devices,
    };
    for (size_t i = 0; plan->workers && i < n_workers; i++)
        plan->workers[i] =
            (struct plan_worker){.device = i / (n_workers / n_devices), .is_woken = true};
    return plan->workers && plan->sleepers && plan->is_lost ? 0 : ACRE_ENOMEM;
}

void plan_fini(struct plan *plan)
{
    mem_free(plan->workers);
    mem_free(plan->sleepers);
    mem_free(plan->is_lost);
}

int plan_model_init(struct plan_model *model, size_t n_workers, const struct plan_limits *limits)
{
    *model = (struct plan_model){.limits = *limits};
    model->batches = mem_calloc(n_workers, sizeof(*model->batches));
    for (size_t i = 0; model->batches && i < n_workers; i++) {
        model->batches[i].running = mem_calloc(limits->max_sentences, sizeof(struct sentence *));
        if (!model->batches[i].running)
            return ACRE_ENOMEM;
    }
    return model->batches ? 0 : ACRE_ENOMEM;
}

void plan_model_fini(struct plan_model *model, size_t n_workers)
{
    for (size_t i = 0; model->batches && i < n_workers; i++)
        mem_free(model->batches[i].running);
    mem_free(model->batches);
}

void plan_add_model(struct plan *plan, struct plan_model *model)
{
    model->next = plan->models;
    plan->models = model;
}

/* A worker that stepped it last goes on with the one after it. */
void plan_remove_model(struct plan *plan, struct plan_model *model)
{
    struct plan_model **link = &plan->models, *before = NULL;
    while (*link != model) {
        before = *link;
        link = &before->next;
    }
    *link = model->next;
    for (size_t i = 0; i < plan->n_workers; i++)
        if (plan->workers[i].model == model)
            plan->workers[i].model = before;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void push(struct sentence **list, struct sentence *sentence)
{
    sentence->next = *list;
    *list = sentence;
}

/* In the order in which they end: what a lost device leaves is queued again as it comes. */
static void hand_back(struct plan *plan, struct sentence *sentence)
{
    sentence->next = NULL;
    if (plan->ended)
        plan->last_ended->next = sentence;
    else
        plan->ended = sentence;
    plan->last_ended = sentence;
}

/* A sentence that waited; it is in no queue any more. */
static void end(struct plan *plan, struct plan_model *model, struct sentence *sentence, int status)
{
    sentence->status = status;
    counts_end(&model->counts, sentence);
    hand_back(plan, sentence);
}

/* How true was what it was told when it was accepted. One that ends at its deadline would have
 * taken longer still; one that leaves before it tells nothing. */
static void note_estimate(struct plan_model *model, const struct sentence *sentence,
                          uint64_t now_ns)
{
    bool is_late = sentence->deadline_ns != 0 && sentence->deadline_ns <= now_ns;
    if (sentence->estimate_ns > 0 && (sentence->status == 0 || is_late))
        pace_count_estimate(&model->pace, sentence->estimate_ns, now_ns - sentence->queued_ns);
}

static void end_expired(struct plan *plan, uint64_t now_ns)
{
    for (struct plan_model *model = plan->models; model; model = model->next) {
        struct sentence *sentence;
        while ((sentence = queue_take_expired(&model->queue, now_ns))) {
            end(plan, model, sentence, ACRE_ETIMEOUT);
            note_estimate(model, sentence, now_ns);
        }
    }
}

size_t plan_queued_tokens(const struct plan *plan)
{
    size_t n = 0;
    for (const struct plan_model *model = plan->models; model; model = model->next)
        n += model->queue.n_tokens;
    return n;
}

struct acre_statistics plan_statistics(const struct plan *plan, const struct plan_model *model)
{
    struct acre_statistics statistics = model->counts;
    statistics.queued_sentences = model->queue.n_sentences;
    statistics.queued_tokens = model->queue.n_tokens;
    for (size_t i = 0; i < plan->n_workers; i++)
        statistics.running_sentences += model->batches[i].n_running;
    return statistics;
}

size_t plan_tokens(const struct plan_text *texts, size_t n)
{
    size_t n_tokens = 0;
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < texts[t].n; i++)
            n_tokens += texts[t].sentences[i].is_cached ? 0 : texts[t].sentences[i].n_source;
    return n_tokens;
}

static size_t n_cached(const struct plan_text *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->sentences[i].is_cached;
    return n;
}

/* Why it cannot be queued; 0: it can, and its last sentence knows what is expected. */
static int why_refused(const struct plan *plan, const struct plan_event *event,
                       const struct demand *demand, uint64_t now_ns, struct plan_actions *actions)
{
    uint64_t estimate_ns;
    if (plan->is_closing)
        return ACRE_ECLOSED;
    if (plan->lost != 0)
        return plan->lost;
    if (event->n > 1 && demand->n_tokens > plan->max_queued_tokens)
        return ACRE_ETOOLARGE;
    if (!admission_has_room(plan, demand))
        return ACRE_EBUSY;
    estimate_ns = admission_estimate(plan, event->model, demand);
    actions->time_ns = admission_time(event->model, estimate_ns);
    if (admission_is_late(demand, actions->time_ns, now_ns))
        return ACRE_ELATE;
    if (demand->last)
        demand->last->estimate_ns = estimate_ns;
    return 0;
}

/* All texts or none, so that requests which fit one after the other do not keep each other out. A
 * text larger than the limit is accepted when nothing waits; several can be sent one by one. */
static void submit(struct plan *plan, const struct plan_event *event, uint64_t now_ns,
                   struct plan_actions *actions)
{
    struct acre_statistics *counts = &event->model->counts;
    struct demand demand = admission_demand(event->model, event->texts, event->n);
    actions->status = why_refused(plan, event, &demand, now_ns, actions);
    if (actions->status == ACRE_EBUSY)
        counts->refused_texts += event->n;
    if (actions->status == ACRE_ELATE)
        counts->late_texts += event->n;
    for (size_t t = 0; actions->status == 0 && t < event->n; t++) {
        counts->cached_sentences += n_cached(&event->texts[t]);
        for (size_t i = 0; i < event->texts[t].n; i++)
            event->texts[t].sentences[i].queued_ns = now_ns;
        queue_put(&event->model->queue, event->texts[t].sentences, event->texts[t].n);
    }
}

static struct plan_model *model_of(struct queue *queue)
{
    return (struct plan_model *)((char *)queue - offsetof(struct plan_model, queue));
}

/* Where all devices are lost, nothing waits, what runs ends when its worker is ready, and what has
 * ended may be somebody else's by now. */
static void cancel(struct plan *plan, const struct plan_event *event, uint64_t now_ns)
{
    if (plan->lost != 0)
        return;
    for (size_t i = 0; i < event->n; i++) {
        struct sentence *sentence = &event->sentences[i];
        sentence->cancelled = true;
        if (sentence->queue) {
            struct plan_model *model = model_of(sentence->queue);
            queue_remove(sentence);
            end(plan, model, sentence, ACRE_ECANCELLED);
            note_estimate(model, sentence, now_ns);
        }
    }
}

static void end_waiting(struct plan *plan, int status)
{
    for (struct plan_model *model = plan->models; model; model = model->next) {
        struct sentence *sentence;
        while ((sentence = queue_first(&model->queue))) {
            queue_remove(sentence);
            end(plan, model, sentence, status);
        }
    }
}

/* ---- The step of a worker -------------------------------------------------------------------- */

static void take_out(struct plan_batch *batch, size_t index)
{
    batch->load -= sentence_load(batch->running[index]);
    batch->n_beams -= (size_t)batch->running[index]->decoding.beam_size;
    batch->running[index] = batch->running[--batch->n_running];
}

/* A step with the usual beam is worth a source row; what the sentence has was paid for when it was
 * taken. */
static void charge(struct plan_model *model, const struct plan_batch *batch,
                   const struct sentence *sentence)
{
    uint64_t beams =
        (batch->n_steps - sentence->first_step) * (uint64_t)sentence->decoding.beam_size;
    uint64_t took = beams / model->limits.usual_beam, rows = sentence_source_rows(sentence);
    if (took > rows)
        queue_charge(&model->queue, sentence->caller, took - rows);
}

static void count_step(struct plan_model *model, const struct plan_worker *worker,
                       const struct plan_event *event, uint64_t now_ns)
{
    struct plan_batch *batch = &model->batches[event->worker];
    counts_steps(&model->counts, event->n_steps, event->n_rows, batch->n_running);
    batch->n_steps += event->n_steps;
    if (worker->is_full)
        pace_count_full(&model->pace, event->n_steps, batch->n_beams, now_ns - worker->began_ns);
}

/* What the last step has finished. */
static void end_finished(struct plan *plan, const struct plan_event *event, uint64_t now_ns)
{
    const struct plan_worker *worker = &plan->workers[event->worker];
    struct plan_model *model = worker->model;
    if (model)
        count_step(model, worker, event, now_ns);
    for (size_t i = 0; i < event->n; i++) {
        struct plan_batch *batch = &model->batches[event->worker];
        struct sentence *sentence = event->finished[i];
        size_t index = 0;
        while (batch->running[index] != sentence)
            index++;
        take_out(batch, index);
        charge(model, batch, sentence);
        counts_end(&model->counts, sentence);
        note_estimate(model, sentence, now_ns);
        if (sentence->status == 0)
            pace_count_ended(&model->pace, sentence, batch->n_steps - sentence->first_step);
        hand_back(plan, sentence);
    }
}

/* Why a running sentence may not go on; 0: it may. */
static int end_of(const struct plan *plan, const struct sentence *sentence, uint64_t now_ns)
{
    if (plan->is_closing)
        return ACRE_ECLOSED;
    if (sentence->cancelled)
        return ACRE_ECANCELLED;
    return sentence->deadline_ns != 0 && sentence->deadline_ns <= now_ns ? ACRE_ETIMEOUT : 0;
}

static struct sentence *drop_ended(const struct plan *plan, struct plan_model *model,
                                   struct plan_batch *batch, uint64_t now_ns)
{
    struct sentence *leaving = NULL;
    for (size_t i = batch->n_running; i-- > 0;) {
        struct sentence *sentence = batch->running[i];
        int status = end_of(plan, sentence, now_ns);
        if (status == 0)
            continue;
        sentence->status = status;
        counts_end(&model->counts, sentence);
        note_estimate(model, sentence, now_ns);
        take_out(batch, i);
        charge(model, batch, sentence);
        push(&leaving, sentence);
    }
    return leaving;
}

/* With other workers idle a worker leaves them their share. */
static size_t fair_share(const struct plan *plan, const struct plan_model *model)
{
    size_t takers = plan->n_sleepers + plan->n_woken + 1;
    return (model->queue.n_sentences + takers - 1) / takers;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Whether it is the first of a text that is read as it is translated, and no other text waits
 * behind it or before it. */
static bool leads_alone(const struct plan_model *model, const struct sentence *sentence)
{
    const struct queue *queue = &model->queue;
    const struct flow *own = queue_flow(queue, sentence->caller);
    return sentence->n_behind > 0 &&
           queue->next_order == sentence->order + sentence->n_behind + 1 &&
           queue->n_sentences == (own ? own->n_sentences : 0) &&
           (!own || own->first->order >= sentence->order);
}

/* Such a first sentence is decoded by itself: the reader waits for it, and for nothing else yet. */
static size_t room_beside_leader(const struct plan_model *model, const struct plan_batch *batch,
                                 const struct sentence *first, size_t room)
{
    if (batch->n_running == 1 && leads_alone(model, batch->running[0]))
        return 0;
    return batch->n_running == 0 && room > 1 && leads_alone(model, first) ? 1 : room;
}

/* Newcomers come behind those that run; returns how many. */
static size_t admit(const struct plan *plan, struct plan_model *model, struct plan_batch *batch)
{
    const struct plan_limits *limits = &model->limits;
    const struct sentence *first = queue_first(&model->queue);
    struct queue_room room = {
        .sentences = smaller(limits->max_sentences - batch->n_running, fair_share(plan, model)),
        .source_rows = limits->max_admit_rows,
        .load = limits->max_load - smaller(batch->load, limits->max_load),
    };
    if (!first || (batch->n_running > 0 && sentence_load(first) > room.load))
        return 0;
    room.sentences = room_beside_leader(model, batch, first, room.sentences);
    struct sentence **newcomers = batch->running + batch->n_running;
    size_t n = queue_take(&model->queue, &room, newcomers);
    for (size_t i = 0; i < n; i++) {
        batch->load += sentence_load(newcomers[i]);
        batch->n_beams += (size_t)newcomers[i]->decoding.beam_size;
    }
    batch->n_running += n;
    return n;
}

/* Whether somebody waits for whom there is no room. */
static bool is_full(const struct plan_model *model, const struct plan_batch *batch)
{
    const struct sentence *first = queue_first(&model->queue);
    return first && (batch->n_running == model->limits.max_sentences ||
                     batch->load + sentence_load(first) > model->limits.max_load);
}

/* The next model that has something to step for the worker, the one stepped last at the very end;
 * NULL: none has. */
static struct plan_model *next_model(const struct plan *plan, size_t worker)
{
    struct plan_model *last = plan->workers[worker].model, *model = last;
    for (const struct plan_model *each = plan->models; each; each = each->next) {
        model = model && model->next ? model->next : plan->models;
        if (model->batches[worker].n_running > 0 || model->queue.n_sentences > 0)
            return model;
    }
    return NULL;
}

static void give_work(struct plan *plan, size_t index, uint64_t now_ns,
                      struct plan_actions *actions)
{
    struct plan_model *model = next_model(plan, index);
    if (!model) {
        actions->work = plan->is_closing ? PLAN_STOP : PLAN_SLEEP;
        if (!plan->is_closing)
            plan->sleepers[plan->n_sleepers++] = index;
        return;
    }
    struct plan_batch *batch = &model->batches[index];
    plan->workers[index].model = model;
    actions->work = PLAN_STEP;
    actions->model = model;
    actions->leaving = drop_ended(plan, model, batch, now_ns);
    actions->newcomers = batch->running + batch->n_running;
    actions->n_newcomers = admit(plan, model, batch);
    for (size_t i = 0; i < actions->n_newcomers; i++) {
        actions->newcomers[i]->first_step = batch->n_steps;
        counts_wait(&model->counts, now_ns - actions->newcomers[i]->queued_ns);
    }
    plan->workers[index].is_full = is_full(model, batch);
    plan->workers[index].began_ns = now_ns;
}

/* ---- Losing a device ------------------------------------------------------------------------- */

static void lose(struct plan *plan, size_t device, int status)
{
    if (plan->is_lost[device])
        return;
    plan->is_lost[device] = true;
    if (--plan->n_well > 0)
        return;
    plan->lost = status;
    end_waiting(plan, status);
}

/* Another device may have it, unless it has lost one before. */
static void move(struct plan *plan, struct plan_model *model, struct sentence *sentence,
                 uint64_t now_ns)
{
    int status = end_of(plan, sentence, now_ns);
    if (status == 0 && (plan->lost != 0 || sentence->is_moved))
        status = ACRE_EDEVICE;
    if (status != 0) {
        end(plan, model, sentence, status);
        return;
    }
    sentence->is_moved = true;
    queue_put(&model->queue, sentence, 1);
}

/* Its device has no more of what the worker ran. */
static void move_all(struct plan *plan, size_t worker, uint64_t now_ns)
{
    for (struct plan_model *model = plan->models; model; model = model->next) {
        struct plan_batch *batch = &model->batches[worker];
        while (batch->n_running > 0) {
            struct sentence *sentence = batch->running[batch->n_running - 1];
            take_out(batch, batch->n_running - 1);
            move(plan, model, sentence, now_ns);
        }
    }
}

/* ---- A worker is ready ----------------------------------------------------------------------- */

static void ready(struct plan *plan, const struct plan_event *event, uint64_t now_ns,
                  struct plan_actions *actions)
{
    struct plan_worker *worker = &plan->workers[event->worker];
    plan->n_woken -= worker->is_woken;
    worker->is_woken = false;
    end_finished(plan, event, now_ns);
    worker->is_full = false;
    if (event->status != 0)
        lose(plan, worker->device, event->status);
    bool is_lost = plan->is_lost[worker->device];
    if (is_lost)
        move_all(plan, event->worker, now_ns);
    actions->ended = plan->ended;
    plan->ended = NULL;
    if (is_lost)
        actions->work = PLAN_STOP;
    else
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
    for (const struct plan_model *model = plan->models; model; model = model->next)
        n += model->queue.n_sentences;
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
        submit(plan, event, now_ns, &actions);
        break;
    case PLAN_CANCEL:
        cancel(plan, event, now_ns);
        break;
    case PLAN_READY:
        ready(plan, event, now_ns, &actions);
        break;
    case PLAN_LOSE:
        lose(plan, event->device, ACRE_EDEVICE);
        break;
    case PLAN_CLOSE:
        plan->is_closing = true;
        end_waiting(plan, ACRE_ECLOSED);
        break;
    }
    wake(plan, &actions);
    return actions;
}
