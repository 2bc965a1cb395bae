/* Keys are collected first, because the ids of tokens may stand in either file; then transformers'
 * counts become Acre's, and what is missing or contradicts itself is told. */
#include "model/generation.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    MAX_LENGTH = 4096,        /* Acre's longest target, without end token */
    DEFAULT_MAX_LENGTH = 512, /* as OPUS-MT's; transformers' own 20 would cut most sentences */
    ABSENT = -1,
};

const struct generation generation_defaults = {
    .num_beams = 1,
    .max_length = DEFAULT_MAX_LENGTH,
    .max_new_tokens = ABSENT,
    .min_new_tokens = ABSENT,
    .pad_token = ABSENT,
    .end_token = ABSENT,
    .start_token = ABSENT,
    .first_token = ABSENT,
    .forced_end_token = ABSENT,
    .length_penalty = 1,
};

/* A token id, or a list of one. */
static int read_token(const struct json_object *object, const char *field, int vocab_size,
                      int *token, struct acre_err *err)
{
    const json_t *found = json_find(object, field);
    if (!found)
        return 0;
    const json_t *value = json_array_size(found) == 1 ? json_array_get(found, 0) : found;
    if (!json_int_in(value, 0, vocab_size - 1)) {
        char expected[64];
        snprintf(expected, sizeof(expected), "an integer from 0 to %d", vocab_size - 1);
        return json_fail(object, field, expected, found, err);
    }
    *token = (int)json_integer_value(value);
    return 0;
}

static int read_tokens(const struct json_object *object, int vocab_size,
                       struct generation *generation, struct acre_err *err)
{
    int status = read_token(object, "pad_token_id", vocab_size, &generation->pad_token, err);
    if (!status)
        status = read_token(object, "eos_token_id", vocab_size, &generation->end_token, err);
    if (!status)
        status =
            read_token(object, "decoder_start_token_id", vocab_size, &generation->start_token, err);
    if (!status)
        status =
            read_token(object, "forced_bos_token_id", vocab_size, &generation->first_token, err);
    if (!status)
        status = read_token(object, "forced_eos_token_id", vocab_size,
                            &generation->forced_end_token, err);
    return status;
}

static int read_lengths(const struct json_object *object, struct generation *generation,
                        struct acre_err *err)
{
    int status =
        json_opt_int(object, "max_length", 3, MAX_LENGTH + 2, &generation->max_length, err);
    if (!status)
        status =
            json_opt_int(object, "min_length", 0, MAX_LENGTH + 1, &generation->min_length, err);
    if (!status)
        status = json_opt_int(object, "max_new_tokens", 2, MAX_LENGTH + 1,
                              &generation->max_new_tokens, err);
    if (!status)
        status =
            json_opt_int(object, "min_new_tokens", 0, MAX_LENGTH, &generation->min_new_tokens, err);
    return status;
}

static int read_forbidden(const struct json_object *object, struct config *config,
                          struct acre_err *err)
{
    const char *field = "bad_words_ids";
    const json_t *lists = json_find(object, field);
    if (!lists)
        return 0;
    if (!json_is_array(lists))
        return json_fail(object, field, "a list of lists of token ids", lists, err);
    size_t n = json_array_size(lists);
    int *forbidden = mem_alloc((n + 1) * sizeof(*forbidden)); /* room for add_pad_to_forbidden() */
    if (!forbidden)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", object->file);
    mem_free(config->forbidden);
    config->forbidden = forbidden;
    config->n_forbidden = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *list = json_array_get(lists, i), *token = json_array_get(list, 0);
        if (json_array_size(list) > 1)
            return json_fail(object, field, "lists of one id; longer ones are not supported", list,
                             err);
        if (!json_int_in(token, 0, config->decoder_vocab_size - 1))
            return json_fail(object, field, "lists of token ids below the vocabulary size", list,
                             err);
        forbidden[config->n_forbidden++] = (int)json_integer_value(token);
    }
    return 0;
}

/* ---- Keys that are not applied --------------------------------------------------------------- */

/* The value with which a key does nothing, if it has a number. */
static const struct {
    const char *field;
    double neutral;
} ignored[] = {
    {"do_sample", 0},
    {"early_stopping", 0},
    {"num_beam_groups", 1},
    {"diversity_penalty", 0},
    {"penalty_alpha", 0},
    {"repetition_penalty", 1},
    {"encoder_repetition_penalty", 1},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"suppress_tokens", 0},
    {"begin_suppress_tokens", 0},
    {"sequence_bias", 0},
    {"force_words_ids", 0},
    {"constraints", 0},
    {"guidance_scale", 1},
    {"exponential_decay_length_penalty", 0},
};

static bool does_nothing(const json_t *value, double neutral)
{
    if (json_is_number(value))
        return json_number_value(value) == neutral;
    size_t n = json_array_size(value) + json_object_size(value) + json_string_length(value);
    return n == 0 && !json_is_true(value);
}

static void note_ignored(const struct json_object *object, struct config *config)
{
    char *text = config->ignored;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        const json_t *value = json_find(object, ignored[i].field);
        size_t used = strlen(text);
        if (value && !does_nothing(value, ignored[i].neutral))
            snprintf(text + used, sizeof(config->ignored) - used, "%s%s%s",
                     used ? ", " : object->file, used ? "" : ": not applied: ", ignored[i].field);
    }
}

/* ---- One file -------------------------------------------------------------------------------- */

/* Only the ids of tokens stay of the file before. */
static void start_anew(struct generation *generation, struct config *config)
{
    const struct generation before = *generation;
    *generation = generation_defaults;
    generation->pad_token = before.pad_token;
    generation->end_token = before.end_token;
    generation->start_token = before.start_token;
    generation->first_token = before.first_token;
    generation->forced_end_token = before.forced_end_token;
    config->renormalize = false;
    config->n_forbidden = 0;
}

int generation_read(const struct json_object *object, struct generation *generation,
                    struct config *config, struct acre_err *err)
{
    start_anew(generation, config);
    note_ignored(object, config);
    int status = read_tokens(object, config->decoder_vocab_size, generation, err);
    if (!status)
        status = read_lengths(object, generation, err);
    if (!status)
        status = json_opt_int(object, "num_beams", 1, MAX_BEAM, &generation->num_beams, err);
    if (!status)
        status = json_opt_float(object, "length_penalty", -ACRE_MAX_LENGTH_PENALTY,
                                ACRE_MAX_LENGTH_PENALTY, &generation->length_penalty, err);
    if (!status)
        status = json_opt_float(object, "beam_threshold", 0, ACRE_MAX_BEAM_THRESHOLD,
                                &generation->beam_threshold, err);
    if (!status)
        status = json_opt_bool(object, "renormalize_logits", &config->renormalize, err);
    return status ? status : read_forbidden(object, config, err);
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* As in transformers, what ends a translation is never forbidden. The id may stand in the other
 * file. */
static void allow_end(struct config *config)
{
    int n = 0;
    for (int i = 0; i < config->n_forbidden; i++)
        if (config->forbidden[i] != config->end_token)
            config->forbidden[n++] = config->forbidden[i];
    config->n_forbidden = n;
}

/* MarianMT never emits the token that decoding starts with. */
static int add_pad_to_forbidden(const struct json_object *object, struct config *config,
                                struct acre_err *err)
{
    if (!config->kind->forbids_pad || config->pad_token == config->end_token)
        return 0;
    for (int i = 0; i < config->n_forbidden; i++)
        if (config->forbidden[i] == config->pad_token)
            return 0;
    if (!config->forbidden)
        config->forbidden = mem_alloc(sizeof(*config->forbidden));
    if (!config->forbidden)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", object->file);
    config->forbidden[config->n_forbidden++] = config->pad_token;
    return 0;
}

static int check_token(const struct json_object *object, const char *field, int token,
                       struct acre_err *err)
{
    return token == ABSENT ? json_fail(object, field, "a token id", NULL, err) : 0;
}

static int set_tokens(const struct json_object *object, const struct generation *generation,
                      struct config *config, struct acre_err *err)
{
    int status = check_token(object, "pad_token_id", generation->pad_token, err);
    if (!status)
        status = check_token(object, "eos_token_id", generation->end_token, err);
    if (!status)
        status = check_token(object, "decoder_start_token_id", generation->start_token, err);
    if (!status && generation->end_token >= config->vocab_size) /* sources end with it too */
        status = err_set(err, ACRE_EMODEL,
                         "%s: eos_token_id: expected an integer from 0 to %d, found %d",
                         object->file, config->vocab_size - 1, generation->end_token);
    config->pad_token = generation->pad_token;
    config->end_token = generation->end_token;
    config->start_token = generation->start_token;
    config->first_token = generation->first_token;
    if (!status && generation->forced_end_token != ABSENT &&
        generation->forced_end_token != generation->end_token)
        status = err_set(err, ACRE_EMODEL,
                         "%s: forced_eos_token_id: expected eos_token_id, which is %d, found %d",
                         object->file, generation->end_token, generation->forced_end_token);
    if (!status && config->first_token == config->end_token)
        status =
            err_set(err, ACRE_EMODEL,
                    "%s: forced_bos_token_id: expected another token than eos_token_id, found %d",
                    object->file, config->first_token);
    allow_end(config);
    return status ? status : add_pad_to_forbidden(object, config, err);
}

/* transformers counts the start token and the end token in max_length and the start token in
 * min_length; in max_new_tokens only the end token, in min_new_tokens neither. */
static int set_decoding(const struct json_object *object, const struct generation *generation,
                        struct config *config, struct acre_err *err)
{
    struct acre_decoding *decoding = &config->decoding;
    decoding->beam_size = generation->num_beams;
    decoding->num_hypotheses = 1;
    decoding->length_penalty = generation->length_penalty;
    decoding->beam_threshold = generation->beam_threshold;
    decoding->max_length = generation->max_new_tokens != ABSENT ? generation->max_new_tokens - 1
                                                                : generation->max_length - 2;
    decoding->min_length = generation->min_new_tokens != ABSENT ? generation->min_new_tokens
                           : generation->min_length > 0         ? generation->min_length - 1
                                                                : 0;
    if (decoding->min_length > decoding->max_length)
        return err_set(err, ACRE_EMODEL,
                       "%s: min_length: expected at most the %d target tokens "
                       "that max_length allows, found %d",
                       object->file, decoding->max_length, decoding->min_length);
    return 0;
}

int generation_finish(const char *file, const struct generation *generation, struct config *config,
                      struct acre_err *err)
{
    const struct json_object object = {.file = file};
    int status = set_tokens(&object, generation, config, err);
    return status ? status : set_decoding(&object, generation, config, err);
}
