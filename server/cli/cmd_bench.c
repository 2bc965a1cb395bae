/* acre bench: how fast a model translates a file. With --preset, see bench_preset.h.
 *
 * All lines are submitted at once, --repeat times after one warm-up, so the engine is always full.
 * seconds is the mean time of one pass, loading left out; sentences and tokens are those of one
 * pass. The latency of a sentence is the time from the start of its pass to its result: with all of
 * them waiting at once it tells when the n-th answer of a large batch comes. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/bench_preset.h"
#include "cli/cmd.h"
#include "cli/decode.h"
#include "cli/lines.h"
#include "common/error.h"
#include "common/grow.h"
#include "common/json.h"

struct bench_args {
    struct decode_args decode; /* first: DECODE_OPTIONS */
    char input[OPTION_TEXT_BYTES];
    char preset[OPTION_TEXT_BYTES];
    int64_t repeat, length, vocabulary; /* 0: not given */
};

static const struct option options[] = {
    DECODE_OPTIONS,
    ARGS_FILLED("input", struct bench_args, input, "FILE", "a file",
                "text to translate, one sentence a line (default: standard input)"),
    ARGS_NUMBER("repeat", struct bench_args, repeat, 1, 100000, NULL, "N",
                "measured passes over the input, after one warm-up (default: 1)"),
    ARGS_FILLED("preset", struct bench_args, preset, "NAME", "a name",
                "measure random models of this size instead; \"list\" prints what there is"),
    ARGS_NUMBER("length", struct bench_args, length, 1, ACRE_MAX_BENCH_LENGTH, NULL, "N",
                "their tokens in each source and target (default: 27)"),
    ARGS_NUMBER("vocabulary", struct bench_args, vocabulary, 2, ACRE_MAX_BENCH_VOCAB, NULL, "N",
                "tokens of their vocabulary (default: 8000)"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "bench",
    .synopsis = "{--model DIR [--input FILE] | --preset NAME} [options]",
    .about =
        "Submits every line at once and measures passes over all of them. `seconds` is the mean\n"
        "of the passes; sentences and tokens count one pass. The latency of a sentence runs from\n"
        "the start of its pass. Empty lines are left out.\n"
        "\n"
        "With --preset, models of a published size and random weights are compared, which need no\n"
        "files: with regular attention, and with areas of Eq. 3 and of Eq. 9 as wide and in as\n"
        "many layers as published. They take turns, on one thread, in rounds (--repeat; default:\n"
        "as many as take five seconds, at least five); milliseconds are medians of CPU time, a\n"
        "ratio is the median of the ratios to regular attention within a round. `pass` is the\n"
        "forward pass of a training step: encoder, decoder with all target tokens at once, output\n"
        "layer; beside its ratio stands that of Transformer Base in the paper. `step` is greedy\n"
        "decoding with a cache, encoder included, divided by the tokens of a target; LSTMs have\n"
        "only that, and 4 heads where the name ends in -4.\n",
    .options = options,
};

struct pass;

struct sentence {
    struct pass *pass;
    char *line; /* owned */
    size_t line_bytes;
    size_t number;        /* of the line */
    struct acre_job *job; /* owned, during a pass */
    double done_seconds;  /* written by the worker that finished it */
};

/* `n_left` is protected by `lock`. */
struct pass {
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    size_t n_left;
    const char *input_name;
    struct sentence *sentences; /* owned, [n_sentences] */
    size_t n_sentences;
    double *latencies_ms; /* owned, of all measured passes */
    size_t n_latencies;
    size_t source_tokens, target_tokens; /* of the latest pass */
    double seconds;                      /* of all measured passes */
};

/* Worker thread. */
static void on_done(void *user)
{
    struct sentence *sentence = user;
    struct pass *pass = sentence->pass;

    sentence->done_seconds = decode_seconds();
    pthread_mutex_lock(&pass->lock);
    if (--pass->n_left == 0)
        pthread_cond_signal(&pass->all_done);
    pthread_mutex_unlock(&pass->lock);
}

static int read_sentences(struct pass *pass, const char *path)
{
    struct acre_err err = {.code = 0};
    size_t capacity = 0, bytes;
    struct lines lines;
    char *line;
    int rc = lines_open(&lines, path, &err);

    while (rc == 0 && (rc = lines_next(&lines, &line, &bytes, &err)) > 0) {
        rc = 0;
        if (bytes == 0) {
            free(line);
            continue;
        }
        if (!grow(&pass->sentences, sizeof(pass->sentences[0]), pass->n_sentences + 1, &capacity)) {
            free(line);
            lines_close(&lines);
            return args_failed("out of memory");
        }
        pass->sentences[pass->n_sentences++] = (struct sentence){
            .pass = pass, .line = line, .line_bytes = bytes, .number = lines.n_lines};
    }
    pass->input_name = lines.name;
    lines_close(&lines);
    if (rc < 0)
        return args_failed("%s", err.text);
    if (pass->n_sentences == 0)
        return args_failed("%s: expected at least one line of text, found none", lines.name);
    return 0;
}

static int name_line(const struct sentence *sentence, struct acre_err *err)
{
    return error_prefix(err, "%s: line %zu: ", sentence->pass->input_name, sentence->number);
}

/* Submits from index `*n` on; stops at the first that fails. */
static int submit_all(struct pass *pass, const struct decode *decode, bool is_tokens, size_t *n,
                      struct acre_err *err)
{
    int rc = 0;

    for (*n = 0; *n < pass->n_sentences && rc == 0; ++*n) {
        struct sentence *sentence = &pass->sentences[*n];
        const struct acre_request request = {
            .model = decode->model,
            .text = sentence->line,
            .text_bytes = sentence->line_bytes,
            .source = decode->source,
            .target = decode->target,
            .is_tokens = is_tokens,
            .decoding = decode->decoding,
            .done = on_done,
            .user = sentence,
        };

        rc = acre_submit(&request, &sentence->job, err);
        if (rc != 0)
            return name_line(sentence, err);
    }
    return rc;
}

/* Counts and frees the results of the first `n` sentences. */
static int take_results(struct pass *pass, size_t n, struct acre_err *err)
{
    int rc = 0;

    pass->source_tokens = pass->target_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        const struct acre_result *result = acre_job_result(pass->sentences[i].job);

        if (result->status != 0 && rc == 0) {
            *err = result->err;
            rc = name_line(&pass->sentences[i], err);
        }
        pass->source_tokens += result->n_source_tokens;
        if (result->n_hypotheses > 0)
            pass->target_tokens += result->hypotheses[0].n_tokens;
        acre_job_close(pass->sentences[i].job);
        pass->sentences[i].job = NULL;
    }
    return rc;
}

static int run_pass(struct pass *pass, const struct decode *decode, bool is_tokens, bool measured)
{
    struct acre_err err = {.code = 0};
    const double start = decode_seconds();
    size_t n_submitted;
    int rc, result_rc;

    pass->n_left = pass->n_sentences;
    rc = submit_all(pass, decode, is_tokens, &n_submitted, &err);
    pthread_mutex_lock(&pass->lock);
    pass->n_left -= pass->n_sentences - n_submitted;
    while (pass->n_left > 0)
        pthread_cond_wait(&pass->all_done, &pass->lock);
    pthread_mutex_unlock(&pass->lock);
    if (measured)
        pass->seconds += decode_seconds() - start;
    for (size_t i = 0; measured && i < n_submitted; i++)
        pass->latencies_ms[pass->n_latencies++] = (pass->sentences[i].done_seconds - start) * 1000;
    result_rc = take_results(pass, n_submitted, &err);
    return rc || result_rc ? args_failed("%s", err.text) : 0;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The smallest value that at least `percent` of them do not exceed. */
static double percentile(const struct pass *pass, size_t percent)
{
    size_t rank = (pass->n_latencies * percent + 99) / 100;

    return pass->latencies_ms[rank ? rank - 1 : 0];
}

/* The most memory that was resident at once; 0 if unknown. Not getrusage(): its ru_maxrss counts
 * what the parent had resident when it forked, too. */
static json_int_t peak_resident_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    json_int_t kib = 0;

    while (status && kib == 0 && fgets(line, sizeof(line), status))
        sscanf(line, "VmHWM: %" JSON_INTEGER_FORMAT, &kib);
    if (status)
        fclose(status);
    return kib * 1024;
}

static json_t *report(const struct pass *pass, const struct decode *decode,
                      const struct bench_args *args)
{
    const double seconds = pass->seconds / (double)args->repeat;
    char device[64] = "";

    sscanf(acre_engine_backend(decode->engine), "%63s", device); /* of "cpu avx2" */
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, "
        "s:I, s:{s:f, s:f, s:f}}",
        "model", acre_model_info(decode->model)->name, "device", device, "backend",
        acre_engine_backend(decode->engine), "compute_type",
        acre_model_info(decode->model)->compute_type, "threads",
        acre_engine_threads(decode->engine), "beam_size", decode->decoding.beam_size, "batch_size",
        (json_int_t)args->decode.batch_size, "repeat", (json_int_t)args->repeat, "sentences",
        (json_int_t)pass->n_sentences, "source_tokens", (json_int_t)pass->source_tokens,
        "target_tokens", (json_int_t)pass->target_tokens, "seconds", seconds, "tokens_per_second",
        (double)pass->target_tokens / seconds, "sentences_per_second",
        (double)pass->n_sentences / seconds, "load_seconds", decode->load_seconds, "peak_rss_bytes",
        peak_resident_bytes(), "packed_bytes",
        (json_int_t)acre_model_info(decode->model)->packed_bytes, "working_bytes",
        (json_int_t)acre_model_info(decode->model)->working_bytes, "latency_ms", "p50",
        percentile(pass, 50), "p95", percentile(pass, 95), "p99", percentile(pass, 99));
}

static int print(json_t *object, bool as_json)
{
    const char *key;
    json_t *value;

    if (!object)
        return args_failed("out of memory");
    if (as_json) {
        json_dumpf(object, stdout, JSON_FLAGS);
        putchar('\n');
    } else {
        json_object_foreach(object, key, value)
        {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

            printf("%-22s %s\n", key, text ? text : "");
            free(text);
        }
    }
    json_decref(object);
    return args_done();
}

static int measure(struct pass *pass, const struct decode *decode, const struct bench_args *args)
{
    const bool is_tokens = args->decode.tokens;
    int rc;

    pass->latencies_ms =
        calloc(pass->n_sentences * (size_t)args->repeat, sizeof(pass->latencies_ms[0]));
    if (!pass->latencies_ms)
        return args_failed("out of memory");
    rc = run_pass(pass, decode, is_tokens, false);
    for (int64_t i = 0; i < args->repeat && rc == 0; i++)
        rc = run_pass(pass, decode, is_tokens, true);
    if (rc != 0)
        return rc;
    qsort(pass->latencies_ms, pass->n_latencies, sizeof(pass->latencies_ms[0]), compare);
    return print(report(pass, decode, args), args->decode.json);
}

static void fini_pass(struct pass *pass)
{
    for (size_t i = 0; i < pass->n_sentences; i++)
        free(pass->sentences[i].line);
    free(pass->sentences);
    free(pass->latencies_ms);
}

/* What is wrong with the options together; 0 if nothing. */
static int check(const struct bench_args *args)
{
    const struct decode_args *d = &args->decode;
    const bool is_preset = args->preset[0];
    const char *said = decoding_said(&d->wish);
    const struct {
        const char *key;
        bool of_preset, is_given;
    } given[] = {
        {"model", false, d->model[0]},      {"input", false, args->input[0]},
        {"source", false, d->source[0]},    {"target", false, d->target[0]},
        {"tokens", false, d->tokens},       {said, false, said != NULL},
        {"length", true, args->length > 0}, {"vocabulary", true, args->vocabulary > 0},
    };
    char flag[64];

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        if (given[i].is_given && given[i].of_preset != is_preset) {
            args_flag(given[i].key, flag, sizeof(flag));
            return args_wrong("%s: expected %s --preset", flag,
                              is_preset ? "without" : "together with");
        }
    if (is_preset && d->threads > 1)
        return args_wrong("--threads: expected 1 with --preset, found %d", (int)d->threads);
    if (is_preset && args->repeat > ACRE_MAX_BENCH_ROUNDS)
        return args_wrong("--repeat: expected at most %d with --preset, found %d",
                          ACRE_MAX_BENCH_ROUNDS, (int)args->repeat);
    if (!is_preset && !args->input[0] && isatty(STDIN_FILENO))
        return args_wrong("--input: expected a file, found none");
    return 0;
}

static int run_preset(const struct bench_args *args)
{
    const struct acre_bench_options asked = {
        .preset = args->preset,
        .device = args->decode.device,
        .compute_type = args->decode.compute_type,
        .batch_size = (int)args->decode.batch_size,
        .length = (int)args->length,
        .vocab_size = (int)args->vocabulary,
        .n_rounds = (int)args->repeat,
    };

    if (strcmp(args->preset, "list") == 0)
        return bench_preset_list(args->decode.json);
    return bench_preset(&asked, args->decode.json);
}

static int run_model(struct bench_args *args)
{
    struct pass pass = {.lock = PTHREAD_MUTEX_INITIALIZER, .all_done = PTHREAD_COND_INITIALIZER};
    struct decode decode = {.engine = NULL};
    int rc;

    if (args->repeat == 0)
        args->repeat = 1;
    rc = decode_open(&decode, &args->decode, SIZE_MAX / 2);
    if (rc == 0)
        rc = decode_languages(&decode, &args->decode);
    if (rc == 0)
        rc = read_sentences(&pass, args->input);
    if (rc == 0)
        rc = measure(&pass, &decode, args);
    decode_close(&decode);
    fini_pass(&pass);
    return rc;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_args args = {.repeat = 0};
    int rc;

    decode_init(&args.decode);
    rc = args_parse(&command, &args, argc, argv);
    if (rc != ARGS_GO)
        return rc;
    rc = check(&args);
    if (rc != 0)
        return rc;
    return args.preset[0] ? run_preset(&args) : run_model(&args);
}
