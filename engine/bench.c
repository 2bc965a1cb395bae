/* Speed without a model directory: the networks of a preset, which differ in their areas only, are
 * opened on the same random weights and do the same work by turns, straight through nn/: no
 * tokenizer, no queue, no other thread.
 *
 * What is timed is CPU time of the calling thread, which computes everything, so that whatever else
 * the machine does disturbs less; of a device that works behind the host's back the time until it
 * is through. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acre_bench.h"
#include "base/arena.h"
#include "base/error.h"
#include "engine.h"
#include "model/preset.h"
#include "model/random_weights.h"

enum {
    DEFAULT_BATCH_SIZE = 32,
    DEFAULT_LENGTH = 27, /* of the paper's sentences */
    DEFAULT_VOCAB = 8000,
    MIN_ROUNDS = 5,
    SEED = 1,
    ID_STRIDE = 1000003, /* prime: ids come from all over the vocabulary */
};

static const double DEFAULT_ROUNDS_MS = 5000;

/* The forward pass of a training step, and cached decoding. */
enum work { WORK_PASS, WORK_DECODING };
enum { N_WORKS = WORK_DECODING + 1 };

/* A network and a place to run it. */
struct subject {
    struct config config;
    struct network *network;
    struct workspace workspace;
};

struct bench {
    struct acre_bench_options options; /* defaults filled in */
    const struct acre_preset *preset;
    enum compute_type type;
    struct device *device;
    struct random_weights weights;       /* of all networks */
    struct constraint *constraint;       /* everything may follow */
    struct subject subjects[ACRE_AREAS]; /* by enum acre_areas */
    size_t n_sentences, length, n_rows;  /* B, S = T, B * T */

    struct arena arena;              /* all of the following */
    int32_t *source, *target;        /* [R] */
    struct entry *entries;           /* [B] */
    struct forced *forced;           /* [B] */
    double *ms[ACRE_AREAS][N_WORKS]; /* [ACRE_MAX_BENCH_ROUNDS] */
    double *ratios;                  /* [ACRE_MAX_BENCH_ROUNDS] */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static void fill_options(struct acre_bench_options *options)
{
    if (!options->device)
        options->device = "auto";
    if (!options->compute_type)
        options->compute_type = "auto";
    if (options->batch_size == 0)
        options->batch_size = DEFAULT_BATCH_SIZE;
    if (options->length == 0)
        options->length = DEFAULT_LENGTH;
    if (options->vocab_size == 0)
        options->vocab_size = DEFAULT_VOCAB;
}

static int check_options(struct bench *bench, struct acre_err *err)
{
    const struct acre_bench_options *o = &bench->options;
    int status = preset_find(o->preset, &bench->preset, err);
    if (status == 0)
        status = engine_check_range("batch_size", o->batch_size, ACRE_MAX_BATCH_SIZE, err);
    if (status == 0)
        status = engine_check_range("length", o->length, ACRE_MAX_BENCH_LENGTH, err);
    if (status == 0)
        status = engine_check_range("vocab_size", o->vocab_size, ACRE_MAX_BENCH_VOCAB, err);
    if (status == 0 && o->n_rounds != 0)
        status = engine_check_range("n_rounds", o->n_rounds, ACRE_MAX_BENCH_ROUNDS, err);
    return status;
}

/* The weights are those of Eq. 9: the others ask for fewer of the same. */
static int open_networks(struct bench *bench, struct acre_err *err)
{
    const struct acre_preset *preset = bench->preset;
    int status = 0;
    for (size_t i = 0; i < ACRE_AREAS && status == 0; i++) {
        struct config *config = &bench->subjects[i].config;
        status = preset_config(preset, i, bench->options.vocab_size, network_kinds, config, err);
        config->compute_type = bench->type;
    }
    if (status == 0)
        status = random_weights_init(&bench->weights, &bench->subjects[ACRE_EQ9].config, SEED, err);
    for (size_t i = 0; i < ACRE_AREAS && status == 0; i++)
        status = network_open(bench->device, &bench->subjects[i].config, bench->weights.tensors,
                              &bench->subjects[i].network, err);
    return status;
}

static void place(struct bench *bench)
{
    size_t b = bench->n_sentences, r = bench->n_rows;
    struct arena *arena = &bench->arena;
    bench->source = arena_take(arena, r, sizeof(*bench->source));
    bench->target = arena_take(arena, r, sizeof(*bench->target));
    bench->entries = arena_take(arena, b, sizeof(*bench->entries));
    bench->forced = arena_take(arena, b, sizeof(*bench->forced));
    for (size_t i = 0; i < ACRE_AREAS; i++)
        for (size_t work = 0; work < N_WORKS; work++)
            bench->ms[i][work] = arena_take(arena, ACRE_MAX_BENCH_ROUNDS, sizeof(double));
    bench->ratios = arena_take(arena, ACRE_MAX_BENCH_ROUNDS, sizeof(double));
}

static int open_workspaces(struct bench *bench)
{
    const struct config *config = &bench->subjects[ACRE_REGULAR].config;
    struct constraint_options any = {.vocab_size = config->decoder_vocab_size,
                                     .end_token = config->end_token};
    int status = constraint_open(&any, &bench->constraint);
    const struct workspace_limits limits = {
        .n_slots = bench->n_sentences,
        .max_beam = 1,
        .max_rows = bench->n_rows,
        .search = {bench->constraint, config->start_token, config->end_token, false},
    };
    for (size_t i = 0; i < ACRE_AREAS && status == 0; i++)
        status = workspace_open(bench->subjects[i].network, &limits, &bench->subjects[i].workspace);
    return status;
}

static int open_place_of_work(struct bench *bench, struct acre_err *err)
{
    place(bench);
    int status = arena_open(&bench->arena);
    if (status == 0)
        status = open_workspaces(bench);
    if (status != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for a batch of %zu sentences",
                       bench->n_sentences);
    place(bench);
    return 0;
}

/* Greedy search, and the end token cannot come before the last one: all sentences have the same
 * length. The encoder adds an end token of its own. */
static void fill_sentences(struct bench *bench)
{
    size_t t = bench->length, vocab = (size_t)bench->options.vocab_size;
    for (size_t i = 0; i < bench->n_rows; i++) {
        bench->source[i] = (int32_t)(i * ID_STRIDE % vocab);
        bench->target[i] = (int32_t)((bench->n_rows + i) * ID_STRIDE % vocab);
    }
    for (size_t b = 0; b < bench->n_sentences; b++) {
        bench->entries[b] =
            (struct entry){.slot = b, .n_source = t - 1, .source = bench->source + b * t};
        bench->entries[b].decoding = (struct acre_decoding){.beam_size = 1,
                                                            .num_hypotheses = 1,
                                                            .min_length = (int)t,
                                                            .max_length = (int)t,
                                                            .length_penalty = 1};
        bench->forced[b] = (struct forced){.slot = b, .n = t, .tokens = bench->target + b * t};
    }
}

static int bench_open(struct bench *bench, const struct acre_bench_options *options,
                      struct acre_err *err)
{
    *bench = (struct bench){.options = *options};
    fill_options(&bench->options);
    int status = check_options(bench, err);
    if (status == 0)
        status = device_open(bench->options.device, &bench->device, err);
    if (status != 0)
        return status;
    status = engine_compute_type(bench->device, bench->options.compute_type, &bench->type, err);
    if (status != 0)
        return status;
    bench->n_sentences = (size_t)bench->options.batch_size;
    bench->length = (size_t)bench->options.length;
    bench->n_rows = bench->n_sentences * bench->length;
    status = open_networks(bench, err);
    if (status == 0)
        status = open_place_of_work(bench, err);
    if (status == 0)
        fill_sentences(bench);
    return status;
}

/* Also of a half-opened one. */
static void bench_close(struct bench *bench)
{
    if (!bench->device)
        return;
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        workspace_close(&bench->subjects[i].workspace);
        network_close(bench->subjects[i].network);
        config_fini(&bench->subjects[i].config);
    }
    constraint_close(bench->constraint);
    random_weights_fini(&bench->weights);
    arena_close(&bench->arena);
    device_close(bench->device);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void run_pass(struct bench *bench, struct workspace *workspace)
{
    workspace_enter(workspace, bench->n_sentences, bench->entries);
    workspace_decode(workspace, bench->n_sentences, bench->forced);
    for (size_t b = 0; b < bench->n_sentences; b++)
        workspace_drop(workspace, b);
}

static void run_decoding(struct bench *bench, struct workspace *workspace)
{
    struct progress progress;
    workspace_enter(workspace, bench->n_sentences, bench->entries);
    for (size_t t = 0; t < bench->length; t++) {
        workspace_step(workspace);
        workspace_poll(workspace, &progress, NULL);
    }
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static double now_ms(const struct bench *bench)
{
    struct timespec now;
    clock_gettime(bench->device->runs_ahead > 0 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Until all that was begun is over. */
static void wait_for(const struct workspace *workspace)
{
    struct progress progress;
    float first;
    const struct device_ops *ops = workspace->network->device->ops;
    ops->poll(workspace->stream, workspace->store, 0, &progress, NULL);
    ops->read(workspace->stream, workspace->buffers[0], 1, 1, &first);
}

/* Milliseconds of one network's work; 0 where there is none. */
static double time_work(struct bench *bench, size_t i, enum work work)
{
    struct workspace *workspace = &bench->subjects[i].workspace;
    double start = now_ms(bench);
    if (work == WORK_PASS && !workspace->network->architecture->decode)
        return 0;
    if (work == WORK_PASS)
        run_pass(bench, workspace);
    else
        run_decoding(bench, workspace);
    wait_for(workspace);
    return now_ms(bench) - start;
}

/* Every round begins with another network. Returns the milliseconds of all. */
static double run_round(struct bench *bench, size_t round)
{
    double begin = now_ms(bench);
    for (size_t turn = 0; turn < ACRE_AREAS; turn++) {
        size_t i = (round + turn) % ACRE_AREAS;
        bench->ms[i][WORK_PASS][round] = time_work(bench, i, WORK_PASS);
        bench->ms[i][WORK_DECODING][round] = time_work(bench, i, WORK_DECODING);
    }
    return now_ms(bench) - begin;
}

/* After one round to warm up. */
static size_t run_rounds(struct bench *bench)
{
    double round_ms = run_round(bench, 0), fit = DEFAULT_ROUNDS_MS / round_ms;
    size_t n = fit < MIN_ROUNDS              ? MIN_ROUNDS
               : fit > ACRE_MAX_BENCH_ROUNDS ? ACRE_MAX_BENCH_ROUNDS
                                             : (size_t)fit;
    if (bench->options.n_rounds > 0)
        n = (size_t)bench->options.n_rounds;
    for (size_t round = 0; round < n; round++)
        run_round(bench, round);
    return n;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(size_t n, double *values)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static double median_ratio(struct bench *bench, size_t i, enum work work, size_t n)
{
    if (!(bench->ms[i][work][0] > 0))
        return 0;
    for (size_t round = 0; round < n; round++)
        bench->ratios[round] = bench->ms[i][work][round] / bench->ms[ACRE_REGULAR][work][round];
    return median(n, bench->ratios);
}

static void report(struct bench *bench, size_t n, struct acre_bench *out)
{
    *out = (struct acre_bench){
        .preset = bench->preset,
        .compute_type = compute_type_name(bench->type),
        .batch_size = bench->options.batch_size,
        .length = bench->options.length,
        .vocab_size = bench->options.vocab_size,
        .n_rounds = (int)n,
    };
    strncpy(out->backend, bench->device->name, sizeof(out->backend) - 1);
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        out->rows[i].pass_ratio = median_ratio(bench, i, WORK_PASS, n);
        out->rows[i].step_ratio = median_ratio(bench, i, WORK_DECODING, n);
    }
    for (size_t i = 0; i < ACRE_AREAS; i++) { /* a median sorts: rounds are lost */
        out->rows[i].pass_ms = median(n, bench->ms[i][WORK_PASS]);
        out->rows[i].step_ms = median(n, bench->ms[i][WORK_DECODING]) / (double)bench->length;
    }
}

int acre_bench_preset(const struct acre_bench_options *options, struct acre_bench *out,
                      struct acre_err *err)
{
    struct bench bench;
    int status = bench_open(&bench, options, err);
    if (status == 0)
        report(&bench, run_rounds(&bench), out);
    bench_close(&bench);
    return status;
}
