#include "cli/decode.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/args.h"

void decode_init(struct decode_args *args)
{
    *args = (struct decode_args){.threads = 0};
    decoding_init(&args->wish);
}

double decode_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What can be wrong without knowing the model. */
static int check(const struct decode_args *args)
{
    const struct decoding_wish *wish = &args->wish;

    if (!args->model[0])
        return args_wrong("--model: expected a model directory, found none");
    if (wish->beam_size != DECODING_UNSET && wish->num_hypotheses > wish->beam_size)
        return args_wrong("--num-hypotheses: expected at most --beam-size (%d), found %d",
                          (int)wish->beam_size, (int)wish->num_hypotheses);
    if (wish->max_length != DECODING_UNSET && wish->min_length > wish->max_length)
        return args_wrong("--min-length: expected at most --max-length (%d), found %d",
                          (int)wish->max_length, (int)wish->min_length);
    return 0;
}

/* The model's decoding with what was given over it. */
static int set_decoding(struct decode *decode, const struct decode_args *args)
{
    const int longest = acre_model_info(decode->model)->max_target_tokens;
    struct acre_decoding *d = &decode->decoding;

    *d = acre_model_info(decode->model)->decoding;
    d->num_hypotheses = 1;
    decoding_apply(&args->wish, d);
    if (d->max_length > longest)
        return args_wrong("--max-length: expected at most %d for this model, found %d", longest,
                          d->max_length);
    if (d->num_hypotheses > d->beam_size)
        return args_wrong("--num-hypotheses: expected at most the model's beam size (%d), found %d",
                          d->beam_size, d->num_hypotheses);
    if (args->wish.max_length == DECODING_UNSET && d->min_length > d->max_length)
        return args_wrong("--min-length: expected at most the model's max_length (%d), found %d",
                          d->max_length, d->min_length);
    if (d->min_length > d->max_length)
        d->min_length = d->max_length;
    return 0;
}

/* *code is what the model calls the language; NULL if none is asked for, and none is needed. */
static int set_language(const struct decode *decode, const char *option, const char *name,
                        bool is_target, const char **code)
{
    const struct acre_model_info *info = acre_model_info(decode->model);
    const size_t n = is_target ? info->n_targets : info->n_sources;
    const char *default_tag = is_target ? info->target : info->source;
    const struct acre_language *language = NULL;

    *code = NULL;
    if (!name[0] && (default_tag[0] || n < 2))
        return 0;
    if (name[0])
        language = is_target ? acre_model_target(decode->model, name)
                             : acre_model_source(decode->model, name);
    if (!language && n == 0)
        return args_wrong("%s: expected none, as model %s does not tell its languages, found %.60s",
                          option, info->name, name);
    if (!language && n == 1)
        return args_wrong("%s: expected %s as in model %s, found %.60s", option, default_tag,
                          info->name, name);
    if (!language)
        return args_wrong("%s: expected one of the %zu languages of model %s (`acre inspect` lists "
                          "them), found %.60s",
                          option, n, info->name, name[0] ? name : "none");
    *code = language->code;
    return 0;
}

/* Which device it is, and how far a large model is loaded, is for people who wait; warnings are
 * also for those who read them later. */
static void tell(void *user, enum acre_log_level level, const char *line)
{
    (void)user;
    if (level != ACRE_LOG_INFO || isatty(STDERR_FILENO))
        fprintf(stderr, "acre: %s\n", line);
}

int decode_open(struct decode *decode, const struct decode_args *args, size_t max_queued_tokens)
{
    const int64_t asked = args->wish.beam_size == DECODING_UNSET ? 0 : args->wish.beam_size;
    const struct acre_options options = {
        .device = args->device,
        .compute_type = args->compute_type,
        .n_threads = (int)args->threads,
        .batch_size = (int)args->batch_size,
        .max_beam_size = (int)(args->max_beam_size > 0 ? args->max_beam_size : asked),
        .max_queued_tokens = max_queued_tokens,
        .log = tell,
    };
    const double start = decode_seconds();
    struct acre_err err = {.code = 0};
    int rc = check(args);

    *decode = (struct decode){.engine = NULL};
    if (rc != 0)
        return rc;
    if (acre_engine_open(&options, &decode->engine, &err) != 0)
        return args_failed("engine: %s", err.text);
    if (acre_model_open(decode->engine, args->model, &decode->model, &err) != 0)
        return args_failed("%s", err.text);
    decode->load_seconds = decode_seconds() - start;
    return set_decoding(decode, args);
}

int decode_languages(struct decode *decode, const struct decode_args *args)
{
    int rc = set_language(decode, "--source", args->source, false, &decode->source);

    return rc == 0 ? set_language(decode, "--target", args->target, true, &decode->target) : rc;
}

void decode_close(struct decode *decode)
{
    acre_engine_close(decode->engine);
    decode->engine = NULL;
}
