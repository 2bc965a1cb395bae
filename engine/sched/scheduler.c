/* The happy path of a worker: ready, told by the plan what to do, drop and admit, one step, ready
 * again with those that have finished. With nothing to do it sleeps until the plan wakes it. While
 * it steps a model, that has a sentence which was not handed back: nobody closes the model.
 *
 * What can go wrong: a text is refused, which its caller is told; memory for a sentence's results
 * is missing, which its status says; a device is lost. Then the plan is told, by the worker or by
 * whoever saw it, and the device's workers stop. Is it the last device, everybody ends with
 * ACRE_EDEVICE, and later texts are refused with what it said. */
#include "sched/scheduler.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "sched/plan.h"

struct served_model {
    struct plan_model plan; /* first: what the plan calls a model is one of these */
    struct batch **batches; /* owned, [n_workers]; each is touched by its worker only; NULL: its
                             * device was lost before */
};

struct worker {
    struct scheduler *scheduler;
    size_t index;
    pthread_t thread;
    pthread_cond_t woken;
    bool is_asleep; /* guarded by the scheduler's lock */
};

struct scheduler {
    struct scheduler_options options;
    pthread_mutex_t lock;
    struct plan plan;     /* guarded by the lock, all that is in it */
    struct acre_err lost; /* likewise; code 0: a device is well */
    struct worker *workers;
    size_t n_started;
};

uint64_t scheduler_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t n_workers(const struct scheduler *scheduler)
{
    return (size_t)scheduler->options.n_workers;
}

struct loss {
    bool is_news;
    size_t n_well;
};

/* Tells the plan and wakes whom it wants awake. Lock held. */
static struct plan_actions tell(struct scheduler *scheduler, const struct plan_event *event)
{
    struct plan_actions actions = plan_step(&scheduler->plan, event, scheduler_now_ns());
    for (size_t i = 0; i < actions.n_wakes; i++) {
        struct worker *worker = &scheduler->workers[actions.wakes[i]];
        worker->is_asleep = false;
        pthread_cond_signal(&worker->woken);
    }
    return actions;
}

/* tell() of what may be the loss of a device, for the reason that `why` gives then: whether it was,
 * and how many are well. Lock held. */
static struct plan_actions tell_loss(struct scheduler *scheduler, const struct plan_event *event,
                                     const struct acre_err *why, struct loss *loss)
{
    size_t n_well = scheduler->plan.n_well;
    struct plan_actions actions = tell(scheduler, event);
    *loss = (struct loss){scheduler->plan.n_well < n_well, scheduler->plan.n_well};
    if (loss->is_news && loss->n_well == 0)
        scheduler->lost = *why;
    return actions;
}

static void say_loss(const struct scheduler *scheduler, const struct acre_err *why,
                     const struct loss *loss)
{
    if (loss->is_news && scheduler->options.lost)
        scheduler->options.lost(scheduler->options.lost_user, why, loss->n_well);
}

/* ---- The round of a worker ------------------------------------------------------------------- */

static void hand_over(const struct scheduler *scheduler, struct sentence *list)
{
    for (struct sentence *sentence = list, *next; sentence; sentence = next) {
        next = sentence->next; /* the sentence may go with its job */
        scheduler->options.finished(sentence);
    }
}

/* Fills in what the plan is told when the worker is ready again. */
static void run_step(struct batch *batch, const struct plan_actions *actions,
                     struct plan_event *ready, struct acre_err *err)
{
    struct batch_step step;
    for (const struct sentence *each = actions->leaving; each; each = each->next)
        batch_drop(batch, each);
    batch_admit(batch, actions->newcomers, actions->n_newcomers);
    ready->status = batch_step(batch, &step, err);
    ready->finished = step.finished;
    ready->n = step.n_finished;
    ready->n_steps = step.n_steps;
    ready->n_rows = step.n_rows;
}

/* What a worker does now. If its device is lost, and nobody has known that, it is told to `lost`.
 */
static struct plan_actions next_work(struct worker *worker, const struct plan_event *ready,
                                     const struct acre_err *err)
{
    struct scheduler *scheduler = worker->scheduler;
    struct loss loss;
    pthread_mutex_lock(&scheduler->lock);
    struct plan_actions actions = tell_loss(scheduler, ready, err, &loss);
    worker->is_asleep = actions.work == PLAN_SLEEP;
    pthread_mutex_unlock(&scheduler->lock);
    say_loss(scheduler, err, &loss);
    return actions;
}

static void sleep_until_woken(struct worker *worker)
{
    pthread_mutex_lock(&worker->scheduler->lock);
    while (worker->is_asleep)
        pthread_cond_wait(&worker->woken, &worker->scheduler->lock);
    pthread_mutex_unlock(&worker->scheduler->lock);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct scheduler *scheduler = worker->scheduler;
    struct plan_event ready = {.kind = PLAN_READY, .worker = worker->index};
    struct plan_actions actions = {.status = 0};
    struct acre_err err;
    for (;;) {
        /* Only after the step: with its last sentence a model may be closed. */
        struct sentence *left = actions.leaving;
        actions = next_work(worker, &ready, &err);
        ready = (struct plan_event){.kind = PLAN_READY, .worker = worker->index};
        hand_over(scheduler, left);
        hand_over(scheduler, actions.ended);
        if (actions.work == PLAN_STOP)
            return NULL;
        if (actions.work == PLAN_SLEEP) {
            sleep_until_woken(worker);
            continue;
        }
        struct served_model *served = (struct served_model *)actions.model;
        run_step(served->batches[worker->index], &actions, &ready, &err);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Signals are the program's, which may block one in its own threads to wait for it. But faults and
 * SIGPROF are for whoever runs: a fault that is blocked ends the process without its handler. */
static int start_thread(struct worker *worker)
{
    static const int own[] = {SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int error = pthread_create(&worker->thread, NULL, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static bool start_worker(struct scheduler *scheduler, size_t index)
{
    struct worker *worker = &scheduler->workers[index];
    *worker = (struct worker){.scheduler = scheduler, .index = index};
    pthread_cond_init(&worker->woken, NULL);
    if (start_thread(worker) == 0)
        return true;
    pthread_cond_destroy(&worker->woken);
    return false;
}

int scheduler_open(const struct scheduler_options *options, struct scheduler **out,
                   struct acre_err *err)
{
    struct scheduler *scheduler = mem_calloc(1, sizeof(*scheduler));
    if (!scheduler)
        return err_set(err, ACRE_ENOMEM, "no memory for the scheduler");
    scheduler->options = *options;
    pthread_mutex_init(&scheduler->lock, NULL);
    int status = plan_init(&scheduler->plan, options->n_devices, n_workers(scheduler),
                           options->max_queued_tokens);
    scheduler->workers = mem_calloc(n_workers(scheduler), sizeof(*scheduler->workers));
    if (!scheduler->workers)
        status = ACRE_ENOMEM;
    while (status == 0 && scheduler->n_started < n_workers(scheduler) &&
           start_worker(scheduler, scheduler->n_started))
        scheduler->n_started++;
    if (scheduler->n_started < n_workers(scheduler)) {
        scheduler_stop(scheduler);
        scheduler_close(scheduler);
        return err_set(err, ACRE_ENOMEM, "threads: %d workers cannot be started",
                       options->n_workers);
    }
    *out = scheduler;
    return 0;
}

static void close_model(const struct scheduler *scheduler, struct served_model *served)
{
    for (size_t i = 0; served->batches && i < n_workers(scheduler); i++)
        batch_close(served->batches[i]);
    mem_free(served->batches);
    plan_model_fini(&served->plan, n_workers(scheduler));
    mem_free(served);
}

void scheduler_stop(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    pthread_mutex_lock(&scheduler->lock);
    tell(scheduler, &(struct plan_event){.kind = PLAN_CLOSE});
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t i = 0; i < scheduler->n_started; i++)
        pthread_join(scheduler->workers[i].thread, NULL);
}

void scheduler_close(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    for (size_t i = 0; i < scheduler->n_started; i++)
        pthread_cond_destroy(&scheduler->workers[i].woken);
    for (struct plan_model *model = scheduler->plan.models, *next; model; model = next) {
        next = model->next;
        close_model(scheduler, (struct served_model *)model);
    }
    plan_fini(&scheduler->plan);
    mem_free(scheduler->workers);
    pthread_mutex_destroy(&scheduler->lock);
    mem_free(scheduler);
}

/* A worker whose device is lost has none. */
static int open_batches(struct scheduler *scheduler, struct served_model *served,
                        struct network *const *networks, const struct search_model *model,
                        const struct batch_limits *limits, struct acre_err *err)
{
    served->batches = mem_calloc(n_workers(scheduler), sizeof(struct batch *));
    for (size_t i = 0; served->batches && i < n_workers(scheduler); i++) {
        size_t device = scheduler->plan.workers[i].device;
        const struct network *network = networks[device];
        int status = network ? batch_open(network, model, limits, &served->batches[i], err) : 0;
        if (status == ACRE_EDEVICE)
            scheduler_lose_device(scheduler, device, err);
        else if (status != 0)
            return status;
    }
    return served->batches ? 0 : err_set(err, ACRE_ENOMEM, "no memory for the batches of a model");
}

/* Any batch, for all are alike; without one, NULL, no text is taken. */
static const struct batch *any_batch(const struct scheduler *scheduler,
                                     const struct served_model *served)
{
    const struct batch *batch = NULL;
    for (size_t i = 0; i < n_workers(scheduler) && !batch; i++)
        batch = served->batches[i];
    return batch;
}

static int open_plan(const struct scheduler *scheduler, struct served_model *served,
                     const struct batch_limits *limits, size_t usual_beam, struct acre_err *err)
{
    const struct batch *batch = any_batch(scheduler, served);
    size_t most = limits->max_sentences * PLAN_LOAD_PER_SENTENCE;
    size_t best = batch ? batch_max_load(batch, usual_beam) : most;
    struct plan_limits plan_limits = {
        .max_sentences = limits->max_sentences,
        .max_load = best < most ? best : most,
        .max_admit_rows = batch ? batch_admit_rows(batch) : 0,
        .usual_beam = usual_beam,
    };
    if (plan_model_init(&served->plan, n_workers(scheduler), &plan_limits) == 0)
        return 0;
    return err_set(err, ACRE_ENOMEM, "no memory for the batches of a model");
}

int scheduler_add_model(struct scheduler *scheduler, struct network *const *networks,
                        const struct search_model *model, const struct batch_limits *limits,
                        size_t usual_beam, struct served_model **out, struct acre_err *err)
{
    struct served_model *served = mem_calloc(1, sizeof(*served));
    if (!served)
        return err_set(err, ACRE_ENOMEM, "no memory for a model");
    int status = open_batches(scheduler, served, networks, model, limits, err);
    if (status == 0)
        status = open_plan(scheduler, served, limits, usual_beam, err);
    if (status != 0) {
        close_model(scheduler, served);
        return status;
    }
    pthread_mutex_lock(&scheduler->lock);
    plan_add_model(&scheduler->plan, &served->plan);
    pthread_mutex_unlock(&scheduler->lock);
    *out = served;
    return 0;
}

void scheduler_remove_model(struct scheduler *scheduler, struct served_model *served)
{
    pthread_mutex_lock(&scheduler->lock);
    plan_remove_model(&scheduler->plan, &served->plan);
    pthread_mutex_unlock(&scheduler->lock);
    close_model(scheduler, served);
}

/* ---- Events of the callers ------------------------------------------------------------------- */

/* Lock held. */
static uint64_t left_ns(const struct plan_text *text)
{
    uint64_t deadline_ns = text->sentences[0].deadline_ns, now_ns = scheduler_now_ns();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

/* Its like would be done in time when so much less waits. */
static int refuse_late(uint64_t time_ns, uint64_t left, struct acre_err *err)
{
    enum { MOST_S = 3600 };
    double wait_s = time_ns > left ? 1e-9 * (double)(time_ns - left) : 0;
    err_set(err, ACRE_ELATE,
            "it would take up to %.1f s with what waits before it; %.1f s are left",
            1e-9 * (double)time_ns, 1e-9 * (double)left);
    if (err)
        err->retry_after_s = wait_s < MOST_S ? (int)wait_s + 1 : MOST_S;
    return ACRE_ELATE;
}

static int refuse(const struct scheduler *scheduler, const struct plan_actions *actions,
                  const struct plan_text *texts, size_t n, struct acre_err *err)
{
    int status = actions->status;
    if (status == ACRE_ELATE)
        return refuse_late(actions->time_ns, left_ns(&texts[0]), err);
    if (status == ACRE_EDEVICE)
        return err_set(err, status, "%s", scheduler->lost.text);
    size_t n_tokens = plan_tokens(texts, n);
    if (status == ACRE_EBUSY)
        return err_set(
            err, status, "%zu tokens are waiting and %zu more do not fit the limit of %zu",
            plan_queued_tokens(&scheduler->plan), n_tokens, scheduler->options.max_queued_tokens);
    if (status == ACRE_ETOOLARGE)
        return err_set(
            err, status,
            "%zu texts of %zu tokens are more than is queued at once (%zu); send them in "
            "several requests",
            n, n_tokens, scheduler->options.max_queued_tokens);
    return err_set(err, status, "%s", acre_status_text(status));
}

int scheduler_submit(struct scheduler *scheduler, struct served_model *served,
                     const struct plan_text *texts, size_t n, struct acre_err *err)
{
    struct plan_event event = {.kind = PLAN_SUBMIT, .model = &served->plan, .texts = texts, .n = n};
    pthread_mutex_lock(&scheduler->lock);
    struct plan_actions actions = tell(scheduler, &event);
    if (actions.status != 0)
        refuse(scheduler, &actions, texts, n, err);
    pthread_mutex_unlock(&scheduler->lock);
    return actions.status;
}

void scheduler_cancel(struct scheduler *scheduler, struct sentence *sentences, size_t n)
{
    struct plan_event event = {.kind = PLAN_CANCEL, .sentences = sentences, .n = n};
    pthread_mutex_lock(&scheduler->lock);
    tell(scheduler, &event);
    pthread_mutex_unlock(&scheduler->lock);
}

int scheduler_health(struct scheduler *scheduler, struct acre_err *err)
{
    pthread_mutex_lock(&scheduler->lock);
    int status = scheduler->lost.code;
    if (status != 0)
        err_set(err, status, "%s", scheduler->lost.text);
    pthread_mutex_unlock(&scheduler->lock);
    return status;
}

void scheduler_lose_device(struct scheduler *scheduler, size_t device, const struct acre_err *why)
{
    const struct plan_event event = {.kind = PLAN_LOSE, .device = device};
    struct loss loss;
    pthread_mutex_lock(&scheduler->lock);
    tell_loss(scheduler, &event, why, &loss);
    pthread_mutex_unlock(&scheduler->lock);
    say_loss(scheduler, why, &loss);
}

bool scheduler_device_is_well(struct scheduler *scheduler, size_t device)
{
    pthread_mutex_lock(&scheduler->lock);
    bool is_well = !scheduler->plan.is_lost[device];
    pthread_mutex_unlock(&scheduler->lock);
    return is_well;
}

struct acre_statistics scheduler_statistics(struct scheduler *scheduler,
                                            const struct served_model *served)
{
    pthread_mutex_lock(&scheduler->lock);
    struct acre_statistics statistics = plan_statistics(&scheduler->plan, &served->plan);
    pthread_mutex_unlock(&scheduler->lock);
    return statistics;
}

size_t scheduler_queued_tokens(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    size_t n = plan_queued_tokens(&scheduler->plan);
    pthread_mutex_unlock(&scheduler->lock);
    return n;
}
