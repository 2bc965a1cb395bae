#include "sched/scheduler.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/mem.h"
#include "sched/queue.h"

/* A worker's place in a lane; only that worker touches it. */
struct seat {
    struct batch *batch;
    struct sentence **sentences; /* owned, a batch full: taken or finished in this round */
};

struct lane {
    struct lane *next;
    struct queue queue;
    struct seat *seats; /* [n_workers] */
};

struct worker {
    struct scheduler *scheduler;
    size_t index;
    pthread_t thread;
};

struct scheduler {
    struct scheduler_options options;
    pthread_mutex_t lock;
    pthread_cond_t work; /* a queue has grown, or closing */
    struct lane *lanes;
    size_t n_queued_tokens;
    size_t n_idle; /* workers that wait */
    bool closing;
    struct worker *workers;
    size_t n_started;
};

/* ---- The round of a worker ------------------------------------------------------------------- */

static size_t n_workers(const struct scheduler *scheduler)
{
    return (size_t)scheduler->options.n_workers;
}

/* With other workers idle a worker leaves them their share. Lock held. */
static size_t fair_share(const struct scheduler *scheduler, const struct lane *lane)
{
    size_t takers = scheduler->n_idle + 1;
    return (lane->queue.n_sentences + takers - 1) / takers;
}

/* Newcomers for one lane. Lock held. */
static size_t take_newcomers(struct scheduler *scheduler, struct lane *lane, struct seat *seat)
{
    size_t room = batch_free_slots(seat->batch), share = fair_share(scheduler, lane);
    size_t before = lane->queue.n_tokens;
    size_t n = queue_take(&lane->queue, room < share ? room : share, batch_admit_rows(seat->batch),
                          seat->sentences);
    scheduler->n_queued_tokens -= before - lane->queue.n_tokens;
    return n;
}

static void hand_over(struct scheduler *scheduler, struct sentence **sentences, size_t n)
{
    for (size_t i = 0; i < n; i++)
        scheduler->options.finished(sentences[i]);
}

/* Newcomers that nobody wants any more end here; returns how many remain. */
static size_t drop_cancelled(struct scheduler *scheduler, struct sentence **sentences, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!atomic_load(sentences[i]->cancelled)) {
            sentences[kept++] = sentences[i];
            continue;
        }
        sentences[i]->status = ACRE_ECANCELLED;
        scheduler->options.finished(sentences[i]);
    }
    return kept;
}

/* Admits newcomers and runs one step. Lock held on entry and exit, released while computing. */
static void serve_lane(struct scheduler *scheduler, struct lane *lane, struct seat *seat)
{
    size_t n = take_newcomers(scheduler, lane, seat);
    if (n == 0 && batch_running(seat->batch) == 0)
        return;
    pthread_mutex_unlock(&scheduler->lock);
    n = drop_cancelled(scheduler, seat->sentences, n);
    batch_admit(seat->batch, seat->sentences, n);
    n = batch_step(seat->batch, seat->sentences);
    hand_over(scheduler, seat->sentences, n);
    pthread_mutex_lock(&scheduler->lock);
}

/* Lock held. */
static bool has_work(const struct worker *worker)
{
    for (const struct lane *lane = worker->scheduler->lanes; lane; lane = lane->next)
        if (lane->queue.n_sentences > 0 || batch_running(lane->seats[worker->index].batch) > 0)
            return true;
    return false;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct scheduler *scheduler = worker->scheduler;
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->closing) {
        if (!has_work(worker)) {
            scheduler->n_idle++;
            pthread_cond_wait(&scheduler->work, &scheduler->lock);
            scheduler->n_idle--;
            continue;
        }
        for (struct lane *lane = scheduler->lanes; lane && !scheduler->closing; lane = lane->next)
            serve_lane(scheduler, lane, &lane->seats[worker->index]);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int scheduler_open(const struct scheduler_options *options, struct scheduler **out,
                   struct acre_err *err)
{
    struct scheduler *scheduler = mem_calloc(1, sizeof(*scheduler));
    if (!scheduler)
        return err_set(err, ACRE_ENOMEM, "no memory for the scheduler");
    scheduler->options = *options;
    pthread_mutex_init(&scheduler->lock, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    scheduler->workers = mem_calloc(n_workers(scheduler), sizeof(*scheduler->workers));
    for (size_t i = 0; scheduler->workers && i < n_workers(scheduler); i++) {
        struct worker *worker = &scheduler->workers[i];
        *worker = (struct worker){.scheduler = scheduler, .index = i};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
        scheduler->n_started++;
    }
    if (scheduler->n_started < n_workers(scheduler)) {
        scheduler_close(scheduler);
        return err_set(err, ACRE_ENOMEM, "threads: %d workers cannot be started",
                       options->n_workers);
    }
    *out = scheduler;
    return 0;
}

static void close_lane(struct scheduler *scheduler, struct lane *lane)
{
    for (size_t i = 0; lane->seats && i < n_workers(scheduler); i++) {
        batch_close(lane->seats[i].batch);
        mem_free(lane->seats[i].sentences);
    }
    mem_free(lane->seats);
    mem_free(lane);
}

/* Workers are gone: every sentence in queue or batch ends here. */
static void drop_sentences(struct scheduler *scheduler, struct lane *lane)
{
    struct sentence *one;
    while (queue_take(&lane->queue, 1, 0, &one) == 1) {
        one->status = ACRE_ECLOSED;
        scheduler->options.finished(one);
    }
    for (size_t i = 0; i < n_workers(scheduler); i++) {
        struct seat *seat = &lane->seats[i];
        size_t n = batch_drop(seat->batch, ACRE_ECLOSED, seat->sentences);
        hand_over(scheduler, seat->sentences, n);
    }
}

void scheduler_close(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    pthread_mutex_lock(&scheduler->lock);
    scheduler->closing = true;
    pthread_cond_broadcast(&scheduler->work);
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t i = 0; i < scheduler->n_started; i++)
        pthread_join(scheduler->workers[i].thread, NULL);
    for (struct lane *lane = scheduler->lanes, *next; lane; lane = next) {
        next = lane->next;
        drop_sentences(scheduler, lane);
        close_lane(scheduler, lane);
    }
    mem_free(scheduler->workers);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->lock);
    mem_free(scheduler);
}

static int open_seats(struct scheduler *scheduler, struct lane *lane,
                      const struct batch_model *model, const struct batch_limits *limits,
                      struct acre_err *err)
{
    lane->seats = mem_calloc(n_workers(scheduler), sizeof(*lane->seats));
    for (size_t i = 0; lane->seats && i < n_workers(scheduler); i++) {
        struct seat *seat = &lane->seats[i];
        int status = batch_open(model, limits, &seat->batch, err);
        if (status != 0)
            return status;
        seat->sentences = mem_alloc(limits->max_sentences * sizeof(struct sentence *));
        if (!seat->sentences)
            return err_set(err, ACRE_ENOMEM, "no memory for the batches of a model");
    }
    return lane->seats ? 0 : err_set(err, ACRE_ENOMEM, "no memory for the batches of a model");
}

int scheduler_add_lane(struct scheduler *scheduler, const struct batch_model *model,
                       const struct batch_limits *limits, struct lane **out, struct acre_err *err)
{
    struct lane *lane = mem_calloc(1, sizeof(*lane));
    if (!lane)
        return err_set(err, ACRE_ENOMEM, "no memory for a model");
    int status = open_seats(scheduler, lane, model, limits, err);
    if (status != 0) {
        close_lane(scheduler, lane);
        return status;
    }
    pthread_mutex_lock(&scheduler->lock);
    lane->next = scheduler->lanes;
    scheduler->lanes = lane;
    pthread_mutex_unlock(&scheduler->lock);
    *out = lane;
    return 0;
}

int scheduler_submit(struct scheduler *scheduler, struct lane *lane, struct sentence *sentences,
                     size_t n, struct acre_err *err)
{
    int status = 0;
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += sentences[i].n_source;
    pthread_mutex_lock(&scheduler->lock);
    size_t queued = scheduler->n_queued_tokens;
    if (scheduler->closing) {
        status = err_set(err, ACRE_ECLOSED, "the engine is shutting down");
    } else if (queued > 0 && queued + n_tokens > scheduler->options.max_queued_tokens) {
        status = err_set(err, ACRE_EBUSY,
                         "%zu tokens are waiting and %zu more do not fit the limit of %zu", queued,
                         n_tokens, scheduler->options.max_queued_tokens);
    } else {
        scheduler->n_queued_tokens += n_tokens;
        queue_put(&lane->queue, sentences, n);
        pthread_cond_broadcast(&scheduler->work);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return status;
}

size_t scheduler_queued_tokens(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    size_t n = scheduler->n_queued_tokens;
    pthread_mutex_unlock(&scheduler->lock);
    return n;
}
