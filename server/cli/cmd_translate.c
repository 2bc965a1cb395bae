/* acre translate: one line in, one line out, in the same order; or, with --score, two lines in and
 * the score of the one as the translation of the other.
 *
 * Happy path: the main thread reads lines and submits each into a ring of slots; worker threads
 * mark slots done; the writer thread prints the oldest slot as soon as it is done. The ring bounds
 * memory: reading waits while it is full. Failure modes: the first bad line, failed translation or
 * failed write ends the run with status 1; the lines before it are still printed, those after it
 * are not. */
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/decode.h"
#include "cli/lines.h"
#include "cli/result_json.h"
#include "common/error.h"

struct translate_args {
    struct decode_args decode; /* first: DECODE_OPTIONS */
    char input[OPTION_TEXT_BYTES];
    char score[OPTION_TEXT_BYTES];
    bool attention;
};

static const struct option options[] = {
    DECODE_OPTIONS,
    ARGS_FLAG("attention", struct translate_args, attention,
              "with --json: what each target token attended to"),
    ARGS_FILLED("score", struct translate_args, score, "FILE", "a file",
                "score the lines of FILE as translations of INPUT's"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_FILLED("INPUT", struct translate_args, input, NULL, "a file",
                "file to translate (default: standard input)"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "translate",
    .synopsis = "--model DIR [INPUT] [--score FILE] [options]",
    .about =
        "Translates UTF-8 text to standard output: one line in, one line out, same order. An\n"
        "empty line gives an empty line. With --json each line becomes one object:\n"
        "{\"hypotheses\":[{\"text\":...,\"tokens\":[...],\"score\":S,\"normalized_score\":N}]}, "
        "best first.\n"
        "Of a line of several sentences hypothesis i is made of the i-th best of each.\n"
        "With --attention too, it has \"attention\": per sentence "
        "{\"source\":[...],\"target\":[...],\n"
        "\"layers\":[{\"heads\":[{\"tokens\":[...]}]}]}, and in tokens one list per target token, "
        "end\n"
        "token included: the ranges of source tokens the decoder attended to, heaviest first, as\n"
        "{\"first\":INDEX,\"width\":TOKENS,\"weight\":X}; weights below 0.01 are left out.\n"
        "With --score there is no search: each line of FILE is scored as the translation of\n"
        "the same line of INPUT, as one sentence, and the score is printed: the sum of the\n"
        "natural logarithms of its tokens' probabilities, end token included (without it if\n"
        "the line has --max-length tokens). With --json as\n"
        "{\"score\":S,\"normalized_score\":N,\"tokens\":[...]}.\n"
        "A line that is not UTF-8, has a NUL byte or does not fill a model's grid ends the run\n"
        "with status 1: lines before it are translated, it and those after it are not. So does,\n"
        "with --score, one that is longer than the model takes.\n",
    .options = options,
    .positionals = positionals,
};

enum { LINES_PER_WORKER_BATCH = 8 };

struct ring;

struct slot {
    struct ring *ring;
    char *line; /* owned */
    size_t line_bytes;
    char *translation; /* owned; NULL: it is to be found */
    size_t translation_bytes;
    struct acre_job *job; /* owned; NULL for an empty line that is to be translated */
    bool is_done;
};

/* Slots [n_written, n_submitted) are in flight. All below is protected by `lock`. */
struct ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *slots; /* owned, [n_slots] */
    size_t n_slots;
    size_t n_submitted, n_written;
    bool is_at_end;      /* nothing more will be submitted */
    bool has_failed;     /* the writer stopped at an error */
    struct acre_err err; /* the writer's */
    bool as_json, has_attention, is_scoring;
    const char *input_name;
    bool shows_progress;
};

/* Worker thread. */
static void on_done(void *user)
{
    struct slot *slot = user;
    struct ring *ring = slot->ring;

    pthread_mutex_lock(&ring->lock);
    slot->is_done = true;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_json(const struct ring *ring, const struct slot *slot, struct acre_err *err)
{
    return ring->is_scoring ? score_json_write(slot->job, stdout, err)
                            : result_json_write(slot->job, ring->has_attention, stdout, err);
}

/* A hypothesis with a newline in it would break one line in, one line out. */
static void write_text(const struct acre_result *result)
{
    const char *text = result && result->n_hypotheses > 0 ? result->hypotheses[0].text : "";

    for (; *text; text++)
        putchar(*text == '\n' || *text == '\r' ? ' ' : *text);
    putchar('\n');
}

static int write_slot(const struct ring *ring, const struct slot *slot, size_t line,
                      struct acre_err *err)
{
    const struct acre_result *result = slot->job ? acre_job_result(slot->job) : NULL;

    if (result && result->status != 0)
        return error_set(err, result->status, "%s: line %zu: %s", ring->input_name, line,
                         result->err.text);
    if (!ring->as_json && ring->is_scoring)
        printf("%.6f\n", result->hypotheses[0].score);
    else if (!ring->as_json)
        write_text(result);
    else if (write_json(ring, slot, err) != 0)
        return error_prefix(err, "%s: line %zu: ", ring->input_name, line);
    if (ferror(stdout))
        return error_set(err, ACRE_EIO, ARGS_NOT_PRINTED);
    return 0;
}

static void free_slot(struct slot *slot)
{
    acre_job_close(slot->job);
    free(slot->line);
    free(slot->translation);
    *slot = (struct slot){.ring = slot->ring};
}

static void show_progress(const struct ring *ring, size_t n, bool is_last)
{
    if (ring->shows_progress && (n % 100 == 0 || is_last))
        fprintf(stderr, "\r%zu lines%s", n, is_last ? "\n" : "");
}

/* The writer waits for the oldest slot; it flushes before it has to wait. */
static bool wait_for_oldest(struct ring *ring)
{
    for (;;) {
        const struct slot *slot = &ring->slots[ring->n_written % ring->n_slots];
        bool is_flushed;

        if (ring->n_written == ring->n_submitted && ring->is_at_end)
            return false;
        if (ring->n_written < ring->n_submitted && slot->is_done)
            return true;
        pthread_mutex_unlock(&ring->lock);
        is_flushed = fflush(stdout) == 0;
        pthread_mutex_lock(&ring->lock);
        if (!is_flushed)
            ring->has_failed = error_set(&ring->err, ACRE_EIO, ARGS_NOT_PRINTED) != 0;
        slot = &ring->slots[ring->n_written % ring->n_slots];
        if (ring->n_written < ring->n_submitted ? !slot->is_done : !ring->is_at_end)
            pthread_cond_wait(&ring->changed, &ring->lock);
    }
}

static void *write_all(void *user)
{
    struct ring *ring = user;

    pthread_mutex_lock(&ring->lock);
    while (wait_for_oldest(ring)) {
        struct slot *slot = &ring->slots[ring->n_written % ring->n_slots];
        int rc = 0;

        pthread_mutex_unlock(&ring->lock);
        if (!ring->has_failed) /* which no other thread changes */
            rc = write_slot(ring, slot, ring->n_written + 1, &ring->err);
        show_progress(ring, ring->n_written + 1, false);
        pthread_mutex_lock(&ring->lock);
        free_slot(slot);
        ring->n_written++;
        if (rc != 0)
            ring->has_failed = true;
        pthread_cond_broadcast(&ring->changed);
    }
    pthread_mutex_unlock(&ring->lock);
    show_progress(ring, ring->n_written, true);
    return NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Waits for a free slot; NULL if the writer has failed. */
static struct slot *wait_for_room(struct ring *ring)
{
    bool has_failed;

    pthread_mutex_lock(&ring->lock);
    while (ring->n_submitted - ring->n_written == ring->n_slots && !ring->has_failed)
        pthread_cond_wait(&ring->changed, &ring->lock);
    has_failed = ring->has_failed;
    pthread_mutex_unlock(&ring->lock);
    return has_failed ? NULL : &ring->slots[ring->n_submitted % ring->n_slots];
}

static void publish(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->n_submitted++;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

/* Waits until one more slot is written; false if none is in flight. */
static bool wait_for_progress(struct ring *ring)
{
    size_t before;
    bool can_wait;

    pthread_mutex_lock(&ring->lock);
    before = ring->n_written;
    can_wait = before < ring->n_submitted;
    while (can_wait && ring->n_written == before)
        pthread_cond_wait(&ring->changed, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
    return can_wait;
}

static int submit(struct ring *ring, struct slot *slot, const struct decode *decode, bool is_tokens,
                  struct acre_err *err)
{
    const struct acre_request request = {
        .model = decode->model,
        .text = slot->line,
        .text_bytes = slot->line_bytes,
        .source = decode->source,
        .target = decode->target,
        .translation = slot->translation,
        .translation_bytes = slot->translation_bytes,
        .is_tokens = is_tokens,
        .decoding = decode->decoding,
        .done = on_done,
        .user = slot,
    };
    int rc;

    slot->is_done = slot->line_bytes == 0 && !ring->is_scoring;
    if (slot->is_done)
        return 0;
    do
        rc = acre_submit(&request, &slot->job, err);
    while (rc == ACRE_EBUSY && wait_for_progress(ring));
    return rc;
}

/* The next line of INPUT, and of FILE if there is one: 1, 0 at their common end, or negative. */
static int read_slot(struct slot *slot, struct lines *lines, struct lines *translations,
                     struct acre_err *err)
{
    int rc = lines_next(lines, &slot->line, &slot->line_bytes, err);
    int other = rc;

    if (rc >= 0 && translations)
        other = lines_next(translations, &slot->translation, &slot->translation_bytes, err);
    if (rc > 0 && other > 0)
        return 1;
    free_slot(slot);
    if (rc < 0 || other < 0 || rc == other)
        return rc < 0 ? rc : other;
    return error_set(err, ACRE_EINPUT, "%s: expected as many lines as in %s, found %s than %zu",
                     translations->name, lines->name, rc > other ? "fewer" : "more",
                     rc > other ? lines->n_lines : translations->n_lines - 1);
}

static int read_all(struct ring *ring, struct lines *lines, struct lines *translations,
                    const struct decode *decode, bool is_tokens, struct acre_err *err)
{
    struct slot *slot;
    int rc;

    while ((slot = wait_for_room(ring))) {
        rc = read_slot(slot, lines, translations, err);
        if (rc <= 0)
            return rc;
        rc = submit(ring, slot, decode, is_tokens, err);
        if (rc != 0) {
            slot->job = NULL;
            free_slot(slot);
            return error_prefix(err, "%s: line %zu: ", lines->name, lines->n_lines);
        }
        publish(ring);
    }
    return 0; /* the writer tells what is wrong */
}

static int open_ring(struct ring *ring, const struct decode *decode,
                     const struct translate_args *args)
{
    *ring = (struct ring){.as_json = args->decode.json,
                          .has_attention = args->attention,
                          .is_scoring = args->score[0] != '\0',
                          .shows_progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO)};
    ring->n_slots = (size_t)LINES_PER_WORKER_BATCH * (size_t)args->decode.batch_size *
                    (size_t)acre_engine_threads(decode->engine);
    ring->slots = calloc(ring->n_slots, sizeof(ring->slots[0]));
    if (!ring->slots)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < ring->n_slots; i++)
        ring->slots[i].ring = ring;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->changed, NULL);
    return 0;
}

static int translate_lines(struct lines *lines, struct lines *translations,
                           const struct decode *decode, const struct translate_args *args)
{
    struct acre_err err = {.code = 0};
    struct ring ring;
    pthread_t writer;
    int rc;

    if (open_ring(&ring, decode, args) != 0)
        return args_failed("out of memory");
    ring.input_name = lines->name;
    if (pthread_create(&writer, NULL, write_all, &ring) != 0) {
        free(ring.slots);
        return args_failed("a thread cannot be started");
    }
    rc = read_all(&ring, lines, translations, decode, args->decode.tokens, &err);
    pthread_mutex_lock(&ring.lock);
    ring.is_at_end = true;
    pthread_cond_broadcast(&ring.changed);
    pthread_mutex_unlock(&ring.lock);
    pthread_join(writer, NULL);
    free(ring.slots);
    if (ring.has_failed)
        return args_failed("%s", ring.err.text);
    if (!args_are_printed())
        return args_failed(ARGS_NOT_PRINTED);
    if (rc != 0)
        return args_failed("%s; the %zu lines before it are %s", err.text, ring.n_written,
                           ring.is_scoring ? "scored" : "translated");
    return EXIT_DONE;
}

/* What can be wrong without knowing the model. */
static int check(const struct translate_args *args)
{
    if (args->attention && !args->decode.json)
        return args_wrong("--attention: expected together with --json, found alone");
    if (args->attention && args->score[0])
        return args_wrong("--attention: expected without --score, found with it");
    if (args->score[0] && (args->input[0] == '\0' || strcmp(args->input, "-") == 0) &&
        strcmp(args->score, "-") == 0)
        return args_wrong("--score: expected a file, as INPUT is standard input, found \"-\"");
    return 0;
}

static int run(const struct translate_args *args, struct lines *lines, struct lines *translations)
{
    struct decode decode;
    int rc = decode_open(&decode, &args->decode, 0);

    if (rc == 0)
        rc = decode_languages(&decode, &args->decode);
    if (rc == 0)
        rc = translate_lines(lines, translations, &decode, args);
    decode_close(&decode);
    return rc;
}

int cmd_translate(int argc, char **argv)
{
    struct acre_err err = {.code = 0};
    struct translate_args args = {.input = ""};
    struct lines lines, translations;
    int rc;

    decode_init(&args.decode);
    rc = args_parse(&command, &args, argc, argv);
    if (rc != ARGS_GO)
        return rc;
    rc = check(&args);
    if (rc != 0)
        return rc;
    if (lines_open(&lines, args.input, &err) != 0)
        return args_failed("%s", err.text);
    if (args.score[0] && lines_open(&translations, args.score, &err) != 0) {
        lines_close(&lines);
        return args_failed("%s", err.text);
    }
    rc = run(&args, &lines, args.score[0] ? &translations : NULL);
    if (args.score[0])
        lines_close(&translations);
    lines_close(&lines);
    return rc;
}
