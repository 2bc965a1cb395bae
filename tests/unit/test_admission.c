/* Admission by work, simulated under virtual time: requests come at random to workers whose steps
 * take as long as a device's, faster than they can be served or slower. What is asked: is anybody
 * accepted who is not done in time? And is anybody refused who would have been, with time to spare?
 * Of those refused some go on without a deadline, and tell. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "sched/admission.h"

enum {
    N_SEEDS = 6,
    MAX_REQUESTS = 20000,
    MAX_SENTENCES = 400000,
    MAX_WORKERS = 4,
    BATCH = 32,
    BEAM = 4
};

static const double MS = 1e6, TIMEOUTS = 10;       /* so many of them a run lasts */
static const double STEP_NS = 2e6, ROW_NS = 0.1e6; /* a step, and each row of it */
static const double STEPS_PER_ROW = 1.2;           /* of a sentence, on average */

struct kind {
    const char *name;
    double load; /* 1: as much as can be served */
    size_t bulk; /* sentences of every tenth request; of others 1 */
    size_t n_callers;
    double timeout_ms;
    size_t n_workers;
    double sway; /* of the machine's speed, from second to second, because others use it, too */
};

struct request {
    size_t first, n, n_left;
    uint64_t deadline_ns;
    bool is_probe;                          /* was refused, and goes on without a deadline */
    bool is_refused, is_in_time, has_spare; /* with a fifth of its time to spare */
    uint64_t begun_ns;
};

struct sim {
    const struct kind *kind;
    struct plan plan;
    struct plan_model model;
    struct sentence sentences[MAX_SENTENCES];
    int steps_left[MAX_SENTENCES];
    size_t owners[MAX_SENTENCES];
    struct request requests[MAX_REQUESTS];
    size_t n_sentences, n_requests;
    double now_ns, arrival_ns, ready_ns[MAX_WORKERS]; /* INFINITY: sleeps */
    bool is_stepping[MAX_WORKERS];
    uint64_t work_in_time;
};

static uint64_t now_of(const struct sim *s)
{
    return (uint64_t)s->now_ns + 1;
}

static double uniform(void)
{
    return ((double)random_pick(0, 1000000) + 0.5) / 1000001;
}

/* Most are short, some very long. */
static size_t random_length(void)
{
    double n = exp(2.9 + 0.6 * sqrt(-2 * log(uniform())) * cos(6.283185307 * uniform()));
    return n > 200 ? 200 : (size_t)n + 1;
}

/* ---- The workers ----------------------------------------------------------------------------- */

static void finish(struct sim *s, const struct sentence *sentence)
{
    struct request *request = &s->requests[s->owners[sentence - s->sentences]];
    if (sentence->status != 0)
        request->is_in_time = false;
    if (--request->n_left > 0)
        return;
    request->is_in_time &= now_of(s) <= request->deadline_ns;
    request->has_spare =
        request->is_in_time &&
        now_of(s) - request->begun_ns <= (request->deadline_ns - request->begun_ns) * 4 / 5;
    bool counts = s->now_ns < TIMEOUTS * s->kind->timeout_ms * MS;
    for (size_t i = 0; counts && request->is_in_time && i < request->n; i++)
        s->work_in_time += s->sentences[request->first + i].n_source + 1;
}

static void finish_all(struct sim *s, const struct sentence *list)
{
    for (const struct sentence *each = list; each; each = each->next)
        finish(s, each);
}

static void wake(struct sim *s, const struct plan_actions *actions)
{
    for (size_t i = 0; i < actions->n_wakes; i++)
        s->ready_ns[actions->wakes[i]] = s->now_ns;
}

/* By what a step takes longer at this time. */
static double slowness(const struct sim *s)
{
    uint64_t second = (uint64_t)(s->now_ns / 1e9);
    double pick = (double)(second * 2654435761u % 1000) / 999;
    return (0.8 + 0.4 * uniform()) * (1 + s->kind->sway * (2 * pick - 1));
}

/* The step is over, the next begins. */
static void be_ready(struct sim *s, size_t worker)
{
    struct plan_batch *batch = &s->model.batches[worker];
    struct sentence *finished[BATCH];
    struct plan_event event = {.kind = PLAN_READY, .worker = worker, .finished = finished};
    if (s->is_stepping[worker]) {
        event.n_steps = 1;
        event.n_rows = BEAM * batch->n_running;
        for (size_t i = 0; i < batch->n_running; i++)
            if (--s->steps_left[batch->running[i] - s->sentences] == 0)
                finished[event.n++] = batch->running[i];
    }
    struct plan_actions actions = plan_step(&s->plan, &event, now_of(s));
    finish_all(s, actions.ended);
    finish_all(s, actions.leaving);
    s->is_stepping[worker] = actions.work == PLAN_STEP;
    size_t rows = BEAM * batch->n_running;
    for (size_t i = 0; i < actions.n_newcomers; i++)
        rows += actions.newcomers[i]->n_source + 1;
    s->ready_ns[worker] = actions.work == PLAN_STEP
                              ? s->now_ns + slowness(s) * (STEP_NS + ROW_NS * (double)rows)
                              : (double)INFINITY;
    wake(s, &actions);
}

/* ---- The requests ---------------------------------------------------------------------------- */

/* Rows a second that all workers take on together. */
static double capacity(const struct kind *kind)
{
    return (double)kind->n_workers * BATCH * BEAM / (STEP_NS + ROW_NS * BATCH * BEAM * 1.2);
}

static double mean_gap_ns(const struct kind *kind)
{
    const double mean_rows = 23.0 * STEPS_PER_ROW * BEAM; /* of a sentence */
    double n = kind->bulk ? 0.9 + 0.1 * (double)kind->bulk : 1;
    return n * mean_rows / capacity(kind) / kind->load;
}

static int put(struct sim *s, struct request *request, uint64_t deadline_ns)
{
    for (size_t i = request->first; i < request->first + request->n; i++)
        s->sentences[i].deadline_ns = deadline_ns;
    struct plan_text text = {&s->sentences[request->first], request->n};
    struct plan_event event = {.kind = PLAN_SUBMIT, .model = &s->model, .texts = &text, .n = 1};
    struct plan_actions actions = plan_step(&s->plan, &event, now_of(s));
    wake(s, &actions);
    return actions.status;
}

static void arrive(struct sim *s)
{
    size_t number = s->n_requests++;
    struct request *request = &s->requests[number];
    uint64_t caller = random_pick(1, s->kind->n_callers);
    double timeout = s->kind->timeout_ms * (0.5 + uniform());
    assert_true(s->n_requests <= MAX_REQUESTS && s->n_sentences + 1000 <= MAX_SENTENCES);
    *request = (struct request){.first = s->n_sentences, .is_in_time = true};
    request->n = s->kind->bulk && random_pick(0, 9) == 0 ? s->kind->bulk : 1;
    request->n_left = request->n;
    request->begun_ns = now_of(s);
    request->deadline_ns = now_of(s) + (uint64_t)(timeout * MS);
    for (size_t i = 0; i < request->n; i++) {
        struct sentence *sentence = &s->sentences[s->n_sentences];
        *sentence = (struct sentence){.n_source = random_length(), .caller = caller};
        sentence->decoding = (struct acre_decoding){.beam_size = BEAM, .max_length = 511};
        double steps = STEPS_PER_ROW * (double)sentence->n_source * (0.8 + 0.4 * uniform());
        s->steps_left[s->n_sentences] = 1 + (int)steps;
        s->owners[s->n_sentences++] = number;
    }
    int status = put(s, request, request->deadline_ns);
    request->is_refused = status == ACRE_ELATE;
    request->is_probe = request->is_refused && random_pick(0, 19) == 0;
    assert_true(status == 0 || status == ACRE_ELATE);
    if (request->is_probe)
        assert_int_equal(put(s, request, 0), 0);
    s->arrival_ns -= log(uniform()) * mean_gap_ns(s->kind);
}

/* ---- A run ----------------------------------------------------------------------------------- */

struct errors {
    size_t refused, probes, in_time, with_spare, accepted, missed;
    double goodput; /* work done in time, by what could be done */
};

static struct sim *open_sim(const struct kind *kind)
{
    struct sim *s = calloc(1, sizeof(*s));
    struct plan_limits limits = {
        .max_sentences = BATCH,
        .max_load = BATCH * PLAN_LOAD_PER_SENTENCE,
        .max_admit_rows = 1024,
        .usual_beam = BEAM,
    };
    s->kind = kind;
    assert_int_equal(plan_init(&s->plan, 1, kind->n_workers, 1u << 30), 0);
    assert_int_equal(plan_model_init(&s->model, kind->n_workers, &limits), 0);
    plan_add_model(&s->plan, &s->model);
    return s;
}

static struct errors count_errors(const struct sim *s)
{
    struct errors e = {.goodput = (double)s->work_in_time * STEPS_PER_ROW * BEAM};
    e.goodput /= s->arrival_ns * capacity(s->kind);
    for (size_t i = 0; i < s->n_requests; i++) {
        const struct request *r = &s->requests[i];
        e.refused += r->is_refused;
        e.probes += r->is_probe;
        e.in_time += r->is_probe && r->is_in_time;
        e.with_spare += r->is_probe && r->has_spare;
        e.accepted += !r->is_refused;
        e.missed += !r->is_refused && !r->is_in_time;
    }
    return e;
}

static struct errors run(const struct kind *kind, uint64_t seed)
{
    struct sim *s = open_sim(kind);
    random_seed(seed);
    for (;;) {
        size_t worker = 0;
        bool is_done = s->arrival_ns > TIMEOUTS * kind->timeout_ms * MS;
        for (size_t i = 1; i < kind->n_workers; i++)
            if (s->ready_ns[i] < s->ready_ns[worker])
                worker = i;
        if (is_done && isinf(s->ready_ns[worker]))
            break;
        if (!is_done && s->arrival_ns <= s->ready_ns[worker]) {
            s->now_ns = s->arrival_ns;
            arrive(s);
        } else {
            s->now_ns = s->ready_ns[worker];
            be_ready(s, worker);
        }
    }
    struct errors errors = count_errors(s);
    plan_model_fini(&s->model, kind->n_workers);
    plan_fini(&s->plan);
    free(s);
    return errors;
}

/* The sum of some runs; their mean goodput. */
static struct errors tell(const struct kind *kind)
{
    struct errors e = {0};
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct errors each = run(kind, seed);
        e.refused += each.refused;
        e.probes += each.probes;
        e.in_time += each.in_time;
        e.with_spare += each.with_spare;
        e.accepted += each.accepted;
        e.missed += each.missed;
        e.goodput += each.goodput / N_SEEDS;
    }
    print_message("%-34s load %.1f, %5.0f ms: refused %5zu, of %3zu of them in time %3zu, with a "
                  "fifth to spare %2zu; accepted %5zu, not in time %3zu; goodput %.2f\n",
                  kind->name, kind->load, kind->timeout_ms, e.refused, e.probes, e.in_time,
                  e.with_spare, e.accepted, e.missed, e.goodput);
    return e;
}

static const struct kind kinds[] = {
    {"sentences of one caller", 0, 0, 1, 2000, 1, 0},
    {"sentences of one caller", 0, 0, 1, 10000, 1, 0},
    {"sentences, the speed sways by 0.2", 0, 0, 1, 2000, 1, 0.2},
    {"sentences, the speed sways by 0.4", 0, 0, 1, 2000, 1, 0.4},
    {"sentences of 1000 callers", 0, 0, 1000, 2000, 1, 0},
    {"sentences of 20 callers, 4 workers", 0, 0, 20, 2000, 4, 0},
    {"a tenth are 100 sentences", 0, 100, 1, 10000, 1, 0},
    {"a tenth are 100, of 10 callers", 0, 100, 10, 10000, 2, 0},
    {"a tenth are 1000, of 10 callers", 0, 1000, 10, 30000, 2, 0},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Who is accepted is in time, the workers are hardly busy for nothing, and hardly anybody is
 * refused who would have had a fifth of his time to spare, unless the machine's speed sways. */
static void few_are_refused_or_accepted_wrongly(void **state)
{
    (void)state;
    struct errors sum = {0};
    for (size_t i = 0; i < N_KINDS; i++) {
        struct kind kind = kinds[i];
        kind.load = 1.5;
        struct errors e = tell(&kind);
        assert_true(e.refused > 0);
        assert_true(e.missed * 40 <= e.accepted);
        assert_true(e.goodput >= (kind.bulk > 0 ? 0.7 : 0.95));
        if (kind.sway == 0) {
            sum.probes += e.probes;
            sum.with_spare += e.with_spare;
        }
    }
    assert_true(sum.probes >= 1000 && sum.with_spare * 25 <= sum.probes);
}

static void hardly_anybody_is_refused_below_capacity(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        struct kind kind = kinds[i];
        kind.load = 0.7;
        struct errors e = tell(&kind);
        assert_true(e.refused * 40 <= e.accepted);
        assert_true(e.missed * 200 <= e.accepted);
        assert_true(kind.bulk > 0 || e.refused == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_are_refused_or_accepted_wrongly),
        cmocka_unit_test(hardly_anybody_is_refused_below_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
