/* Speed without a model directory: the networks of a preset, which differ in their areas only, are
 * opened on the same random weights and do the same work by turns, in one place of work, straight
 * through nn/: no tokenizer, no queue, no other thread.
 *
 * What is timed is CPU time of the calling thread, which computes everything, so that whatever else
 * the machine does disturbs less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

struct bench {
    struct acre_bench_options options; /* defaults filled in */
    const struct acre_preset *preset;
    enum kernel_type type;
    struct device *device;
    struct random_weights weights;       /* of all networks */
    struct config configs[ACRE_AREAS];   /* as the networks */
    struct network networks[ACRE_AREAS]; /* by enum acre_areas */
    size_t n_sentences, length, n_rows;  /* B, S = T, B * T */

    struct stream *stream;
    struct workspace workspace;
    float *memory, *cache; /* on the device */
    size_t memory_floats, cache_floats;

    struct arena arena;              /* all of the following */
    size_t *first;                   /* [B + 1] */
    int32_t *source, *target;        /* [R] */
    int32_t *positions;              /* [R] */
    int32_t *numbers;                /* [R]: 0, 1, 2 ..., rows of the cache */
    int32_t *ids, *ats, *lengths;    /* [B]: of a step */
    const int32_t **paths;           /* [B] */
    float **memories;                /* [B] */
    struct memory_rows *groups;      /* [B] */
    struct logit_scan *scans;        /* [R] */
    struct candidate *best;          /* [R] */
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
        status = engine_compute_type(o->compute_type, &bench->type, err);
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
        status = preset_config(preset, i, bench->options.vocab_size, &bench->configs[i], err);
        bench->configs[i].compute_type = bench->type;
    }
    if (status == 0)
        status = random_weights_init(&bench->weights, &bench->configs[ACRE_EQ9], SEED, err);
    for (size_t i = 0; i < ACRE_AREAS && status == 0; i++)
        status = network_init(&bench->networks[i], bench->device, &bench->configs[i],
                              bench->weights.tensors, err);
    return status;
}

static void place(struct bench *bench)
{
    size_t b = bench->n_sentences, r = bench->n_rows;
    struct arena *arena = &bench->arena;
    bench->first = arena_take(arena, b + 1, sizeof(*bench->first));
    bench->source = arena_take(arena, r, sizeof(*bench->source));
    bench->target = arena_take(arena, r, sizeof(*bench->target));
    bench->positions = arena_take(arena, r, sizeof(*bench->positions));
    bench->numbers = arena_take(arena, r, sizeof(*bench->numbers));
    bench->ids = arena_take(arena, b, sizeof(*bench->ids));
    bench->ats = arena_take(arena, b, sizeof(*bench->ats));
    bench->lengths = arena_take(arena, b, sizeof(*bench->lengths));
    bench->paths = arena_take(arena, b, sizeof(*bench->paths));
    bench->memories = arena_take(arena, b, sizeof(*bench->memories));
    bench->groups = arena_take(arena, b, sizeof(*bench->groups));
    bench->scans = arena_take(arena, r, sizeof(*bench->scans));
    bench->best = arena_take(arena, r, sizeof(*bench->best));
    for (size_t i = 0; i < ACRE_AREAS; i++)
        for (size_t work = 0; work < N_WORKS; work++)
            bench->ms[i][work] = arena_take(arena, ACRE_MAX_BENCH_ROUNDS, sizeof(double));
    bench->ratios = arena_take(arena, ACRE_MAX_BENCH_ROUNDS, sizeof(double));
}

/* What a stream and the memory on the device must have for every network. */
static struct stream_limits widest_limits(struct bench *bench)
{
    struct stream_limits limits = network_stream_limits(&bench->networks[ACRE_REGULAR]);
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        const struct network *network = &bench->networks[i];
        size_t planes = network_stream_limits(network).max_planes;
        size_t memory = bench->n_sentences * network_memory_floats(network, bench->length);
        size_t cache = bench->n_rows * network_cache_floats(network);
        limits.max_planes = planes > limits.max_planes ? planes : limits.max_planes;
        bench->memory_floats = memory > bench->memory_floats ? memory : bench->memory_floats;
        bench->cache_floats = cache > bench->cache_floats ? cache : bench->cache_floats;
    }
    return limits;
}

static int open_place_of_work(struct bench *bench, struct acre_err *err)
{
    const struct device_ops *ops = bench->device->ops;
    struct stream_limits limits = widest_limits(bench);
    place(bench);
    int status = arena_open(&bench->arena);
    if (status == 0)
        status = network_workspace_init(&bench->networks[ACRE_REGULAR], bench->n_rows,
                                        &bench->workspace);
    if (status == 0)
        status = ops->stream_open(bench->device, &limits, &bench->stream);
    bench->memory = ops->alloc(bench->device, bench->memory_floats);
    bench->cache = ops->alloc(bench->device, bench->cache_floats);
    if (status != 0 || !bench->memory || !bench->cache)
        return err_set(err, ACRE_ENOMEM, "no memory for a batch of %zu sentences",
                       bench->n_sentences);
    place(bench);
    return 0;
}

static void fill_rows(struct bench *bench)
{
    size_t t = bench->length, vocab = (size_t)bench->options.vocab_size;
    for (size_t i = 0; i < bench->n_rows; i++) {
        bench->source[i] = (int32_t)(i * ID_STRIDE % vocab);
        bench->target[i] = (int32_t)((bench->n_rows + i) * ID_STRIDE % vocab);
        bench->positions[i] = (int32_t)(i % t);
        bench->numbers[i] = (int32_t)i;
    }
    for (size_t b = 0; b <= bench->n_sentences; b++)
        bench->first[b] = b * t;
    for (size_t b = 0; b < bench->n_sentences; b++) {
        bench->paths[b] = bench->numbers + b * t;
        bench->memories[b] = bench->memory + b * (bench->memory_floats / bench->n_sentences);
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
    bench->networks[ACRE_REGULAR].device = bench->device; /* bench_close() needs it */
    bench->n_sentences = (size_t)bench->options.batch_size;
    bench->length = (size_t)bench->options.length;
    bench->n_rows = bench->n_sentences * bench->length;
    status = open_networks(bench, err);
    if (status == 0)
        status = open_place_of_work(bench, err);
    if (status == 0)
        fill_rows(bench);
    return status;
}

/* Also of a half-opened one. */
static void bench_close(struct bench *bench)
{
    if (!bench->device)
        return;
    const struct device_ops *ops = bench->device->ops;
    ops->free(bench->device, bench->memory, bench->memory_floats);
    ops->free(bench->device, bench->cache, bench->cache_floats);
    ops->stream_close(bench->stream);
    network_workspace_fini(&bench->networks[ACRE_REGULAR], &bench->workspace);
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        network_fini(&bench->networks[i]);
        config_fini(&bench->configs[i]);
    }
    random_weights_fini(&bench->weights);
    arena_close(&bench->arena);
    device_close(bench->device);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void encode(struct bench *bench, const struct network *network)
{
    network_encode(network, bench->stream, &bench->workspace, bench->n_sentences, bench->first,
                   bench->source, bench->positions);
    network_store_memory(network, bench->stream, &bench->workspace, bench->n_sentences,
                         bench->first, bench->memories);
}

/* Every sentence has n rows of what comes; passes move their memories on. */
static void begin_groups(struct bench *bench, size_t n)
{
    for (size_t b = 0; b < bench->n_sentences; b++)
        bench->groups[b] = (struct memory_rows){bench->memories[b], bench->length, b * n, n};
}

static void scan_output(struct bench *bench, const struct network *network, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        bench->scans[i] =
            (struct logit_scan){.best = bench->best + i, .k = 1, .maximum = -INFINITY};
    network_search_output(network, bench->stream, &bench->workspace, n_rows, bench->scans);
}

static void run_pass(struct bench *bench, const struct network *network)
{
    encode(bench, network);
    begin_groups(bench, bench->length);
    transformer_decode(network->transformer, bench->stream, &bench->workspace, bench->n_sentences,
                       bench->first, bench->target, bench->positions, bench->groups);
    scan_output(bench, network, bench->n_rows);
}

/* The end token does not end: all sentences have the same length. */
static void run_step(struct bench *bench, const struct network *network, size_t t)
{
    for (size_t b = 0; b < bench->n_sentences; b++) {
        bench->ids[b] = t > 0 ? bench->best[b].id : bench->configs[ACRE_REGULAR].start_token;
        bench->ats[b] = (int32_t)t;
        bench->lengths[b] = (int32_t)t + 1;
    }
    begin_groups(bench, 1);
    struct decoder_step step = {
        .rows = {.n_rows = bench->n_sentences, .paths = bench->paths, .lengths = bench->lengths},
        .ids = bench->ids,
        .positions = bench->ats,
        .n_sentences = bench->n_sentences,
        .groups = bench->groups,
        .cache = bench->cache,
        .cache_rows = bench->n_rows,
    };
    network_step(network, bench->stream, &bench->workspace, &step);
    scan_output(bench, network, bench->n_sentences);
}

static void run_decoding(struct bench *bench, const struct network *network)
{
    encode(bench, network);
    for (size_t t = 0; t < bench->length; t++)
        run_step(bench, network, t);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static double thread_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Milliseconds of one network's work; 0 where there is none: LSTMs decode step by step only. */
static double time_work(struct bench *bench, size_t i, enum work work)
{
    const struct network *network = &bench->networks[i];
    double start = thread_ms();
    if (work == WORK_PASS && network->lstm)
        return 0;
    if (work == WORK_PASS)
        run_pass(bench, network);
    else
        run_decoding(bench, network);
    return thread_ms() - start;
}

/* Every round begins with another network. Returns the milliseconds of all. */
static double run_round(struct bench *bench, size_t round)
{
    double begin = thread_ms();
    for (size_t turn = 0; turn < ACRE_AREAS; turn++) {
        size_t i = (round + turn) % ACRE_AREAS;
        bench->ms[i][WORK_PASS][round] = time_work(bench, i, WORK_PASS);
        bench->ms[i][WORK_DECODING][round] = time_work(bench, i, WORK_DECODING);
    }
    return thread_ms() - begin;
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
        .compute_type = kernel_type_name(bench->type),
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
