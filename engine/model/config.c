/* config_parse() reads config.json, lets generation_config.json override the decoding keys, and
 * then translates transformers' counts to Acre's. Decoding keys are collected in struct
 * generation first, because either file may hold any of them.
 */
#include "model/config.h"

#include <stdio.h>
#include <string.h>
#include <unicode/uloc.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"

#define CONFIG_FILE "config.json"
#define GENERATION_FILE "generation_config.json"
#define TOKENIZER_FILE "tokenizer_config.json"

enum {
    MAX_FILE_BYTES = 4 << 20,
    MAX_WIDTH = 65536,
    MAX_VOCAB = 1 << 24,
    MAX_POSITIONS = 1 << 16,
    MAX_LENGTH = 4096,        /* Acre's longest target, without end token */
    DEFAULT_MAX_LENGTH = 512, /* as OPUS-MT's; transformers' own 20 would cut most sentences */
    MAX_TOP_K = 65536,
    ABSENT = -1,
};

/* Of area logits: beyond these, all areas weigh the same or one has all the weight. */
static const float MIN_TEMPERATURE = 0.01f, MAX_TEMPERATURE = 100.0f;

/* Decoding keys as transformers counts them; ABSENT where no file has the key. */
struct generation {
    int num_beams, max_length, min_length, max_new_tokens, min_new_tokens;
    int pad_token, end_token, start_token, forced_end_token;
    float length_penalty;
};

/* ---- Architecture ---------------------------------------------------------------------------- */

struct int_key {
    const char *field;
    int min, max;
    size_t offset;
};

#define INT_KEY(field, min, max, member)                                                           \
    {                                                                                              \
        field, min, max, offsetof(struct config, member)                                           \
    }

static const struct int_key sizes[] = {
    INT_KEY("d_model", 2, MAX_WIDTH, d_model),
    INT_KEY("encoder_layers", 1, CONFIG_MAX_LAYERS, encoder_layers),
    INT_KEY("decoder_layers", 1, CONFIG_MAX_LAYERS, decoder_layers),
    INT_KEY("decoder_attention_heads", 1, 1024, decoder_heads),
    INT_KEY("vocab_size", 2, MAX_VOCAB, vocab_size),
    INT_KEY("max_position_embeddings", 2, MAX_POSITIONS, max_positions),
};

static const struct int_key transformer_sizes[] = {
    INT_KEY("encoder_attention_heads", 1, 1024, encoder_heads),
    INT_KEY("encoder_ffn_dim", 1, MAX_WIDTH * 4, encoder_ffn),
    INT_KEY("decoder_ffn_dim", 1, MAX_WIDTH * 4, decoder_ffn),
};

static int read_keys(const struct json_object *object, size_t n, const struct int_key *keys,
                     struct config *config, struct acre_err *err)
{
    for (size_t i = 0; i < n; i++) {
        int *value = (int *)(void *)((char *)config + keys[i].offset);
        int code = json_get_int(object, keys[i].field, keys[i].min, keys[i].max, value, err);
        if (code)
            return code;
    }
    return 0;
}

static int read_sizes(const struct json_object *object, struct config *config, struct acre_err *err)
{
    int code = read_keys(object, sizeof(sizes) / sizeof(sizes[0]), sizes, config, err);
    if (!code && !config_is_lstm(config))
        code = read_keys(object, sizeof(transformer_sizes) / sizeof(transformer_sizes[0]),
                         transformer_sizes, config, err);
    if (code)
        return code;
    config->decoder_vocab_size = config->vocab_size;
    return json_opt_int(object, "decoder_vocab_size", 2, MAX_VOCAB, &config->decoder_vocab_size,
                        err);
}

static int check_heads(const struct json_object *object, const char *field, int d_model, int heads,
                       struct acre_err *err)
{
    char expected[64];
    if (d_model % heads == 0)
        return 0;
    snprintf(expected, sizeof(expected), "a divisor of d_model, which is %d", d_model);
    return json_fail(object, field, expected, json_find(object, field), err);
}

static int read_model_type(const struct json_object *object, struct config *config,
                           struct acre_err *err)
{
    int code =
        json_get_text(object, "model_type", sizeof(config->model_type), config->model_type, err);
    if (code || !strcmp(config->model_type, "marian") || config_is_lstm(config))
        return code;
    return err_set(err, ACRE_EUNSUPPORTED,
                   "%s: model_type: expected \"marian\" or \"acre-lstm\", found \"%s\"",
                   object->file, config->model_type);
}

static int read_activation(const struct json_object *object, struct config *config,
                           struct acre_err *err)
{
    static const struct {
        const char *name;
        enum activation activation;
    } names[] = {{"relu", ACTIVATION_RELU},
                 {"swish", ACTIVATION_SWISH},
                 {"silu", ACTIVATION_SWISH},
                 {"gelu", ACTIVATION_GELU}};
    const json_t *value = json_find(object, "activation_function");
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(name, names[i].name)) {
            config->activation = names[i].activation;
            return 0;
        }
    }
    return json_fail(object, "activation_function", "relu, swish, silu or gelu", value, err);
}

/* Reads a flag that Acre supports with one value only, which is also its default. */
static int check_flag(const struct json_object *object, const char *field, bool wanted,
                      struct acre_err *err)
{
    bool value = wanted;
    int code = json_opt_bool(object, field, &value, err);
    if (code || value == wanted)
        return code;
    return err_set(err, ACRE_EUNSUPPORTED, "%s: %s: expected %s, found %s, which is not supported",
                   object->file, field, wanted ? "true" : "false", value ? "true" : "false");
}

static int read_flags(const struct json_object *object, struct config *config, struct acre_err *err)
{
    static const struct {
        const char *field;
        bool wanted;
    } fixed[] = {{"static_position_embeddings", true}, {"normalize_before", false},
                 {"normalize_embedding", false},       {"add_final_layer_norm", false},
                 {"tie_word_embeddings", true},        {"is_encoder_decoder", true}};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !config_is_lstm(config); i++) {
        int code = check_flag(object, fixed[i].field, fixed[i].wanted, err);
        if (code)
            return code;
    }
    config->share_embeddings = true;
    int code = json_opt_bool(object, "scale_embedding", &config->scale_embedding, err);
    if (!code)
        code = json_opt_bool(object, "share_encoder_decoder_embeddings", &config->share_embeddings,
                             err);
    if (!code && config->share_embeddings && config->decoder_vocab_size != config->vocab_size)
        code = json_fail(object, "decoder_vocab_size", "vocab_size, as the embeddings are shared",
                         json_find(object, "decoder_vocab_size"), err);
    return code;
}

/* The type that the model was evaluated in, of Acre's own. */
static int read_compute_type(const struct json_object *object, struct config *config,
                             struct acre_err *err)
{
    char name[16] = "f32";
    int code = json_opt_text(object, "compute_type", sizeof(name), name, err);
    if (code || compute_type_parse(name, &config->compute_type))
        return code;
    return json_fail(object, "compute_type", "f32, bf16 or int8", json_find(object, "compute_type"),
                     err);
}

static int read_transformer(const struct json_object *object, struct config *config,
                            struct acre_err *err)
{
    int code =
        check_heads(object, "encoder_attention_heads", config->d_model, config->encoder_heads, err);
    if (!code)
        code = check_heads(object, "decoder_attention_heads", config->d_model,
                           config->decoder_heads, err);
    return code ? code : read_activation(object, config, err);
}

/* The decoder's layers begin with the encoder's states. */
static int read_lstm(const struct json_object *object, const struct config *config,
                     struct acre_err *err)
{
    char expected[64];
    if (config->decoder_layers == config->encoder_layers)
        return 0;
    snprintf(expected, sizeof(expected), "encoder_layers, which is %d", config->encoder_layers);
    return json_fail(object, "decoder_layers", expected, json_find(object, "decoder_layers"), err);
}

static int read_architecture(const struct json_object *object, struct config *config,
                             struct acre_err *err)
{
    int code = read_model_type(object, config, err);
    if (!code)
        code = read_sizes(object, config, err);
    if (!code)
        code = config_is_lstm(config) ? read_lstm(object, config, err)
                                      : read_transformer(object, config, err);
    if (!code)
        code = read_compute_type(object, config, err);
    return code ? code : read_flags(object, config, err);
}

/* ---- Area attention -------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

/* One of a list of words, to its number; left alone if the field is missing. */
static int read_word(const struct json_object *object, const char *field, const char *const *words,
                     const char *expected, int *number, struct acre_err *err)
{
    const json_t *value = json_find(object, field);
    const char *word = json_string_value(value);
    if (!value)
        return 0;
    for (int i = 0; word && words[i]; i++) {
        if (!strcmp(words[i], word)) {
            *number = i;
            return 0;
        }
    }
    return json_fail(object, field, expected, value, err);
}

static int read_modes(const struct json_object *object, struct area_config *area,
                      struct acre_err *err)
{
    static const char *const keys[] = {"mean",          "max",        "sample",
                                       "concat",        "max_concat", "sum",
                                       "sample_concat", "sample_sum", NULL};
    static const enum area_key_mode modes[] = {
        AREA_KEY_MEAN,       AREA_KEY_MAX, AREA_KEY_MEAN,          AREA_KEY_CONCAT,
        AREA_KEY_MAX_CONCAT, AREA_KEY_SUM, AREA_KEY_SAMPLE_CONCAT, AREA_KEY_SAMPLE_SUM};
    static const char *const values[] = {"sum", "mean", "max", NULL};
    static const char *const weights[] = {"softmax", "sigmoid", NULL};
    int key = -1, value = (int)area->value, weight = area->sigmoid;
    int code = read_word(object, "key", keys,
                         "mean, max, sample, concat, max_concat, sum, "
                         "sample_concat or sample_sum",
                         &key, err);
    if (!code)
        code = read_word(object, "value", values, "sum, mean or max", &value, err);
    if (!code)
        code = read_word(object, "weights", weights, "softmax or sigmoid", &weight, err);
    if (key >= 0)
        area->key = modes[key];
    area->value = (enum area_value)value;
    area->sigmoid = weight == 1;
    return code;
}

/* This section is Acre's own, so a key it does not know is a mistake, not an extension. */
static int check_keys(const struct json_object *object, const char *const *known,
                      const char *expected, struct acre_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object->value, key, value) if (
        !is_one_of(key, known)) return err_set(err, ACRE_EMODEL,
                                               "%s: %s%.64s: expected one of %s, found this key",
                                               object->file, object->path, key, expected);
    return 0;
}

/* An array with one size per layer. */
static int read_layers(const struct json_object *object, const char *field, int n_layers, int max,
                       int *layers, struct acre_err *err)
{
    const json_t *list = json_find(object, field);
    if (!list)
        return 0;
    char expected[64];
    snprintf(expected, sizeof(expected), "%d integer%s from 1 to %d, one per layer", n_layers,
             n_layers == 1 ? "" : "s", max);
    if (json_array_size(list) != (size_t)n_layers)
        return json_fail(object, field, expected, list, err);
    for (int i = 0; i < n_layers; i++) {
        const json_t *size = json_array_get(list, (size_t)i);
        if (!json_int_in(size, 1, max))
            return json_fail(object, field, expected, list, err);
        layers[i] = (int)json_integer_value(size);
    }
    return 0;
}

/* The attention that a section is about. */
struct area_bounds {
    int n_layers;
    int max_rows; /* of the memory; 1: it is not known as a whole, so it cannot be a grid */
    int head_width;
};

static bool has_areas(const struct area_config *area, int n_layers)
{
    for (int i = 0; i < n_layers; i++)
        if (area->width[i] > 1 || area->height[i] > 1)
            return true;
    return false;
}

/* Embeddings of height and width, half a key each, can be added to features that they fill. */
static int check_sums(const struct json_object *parent, const char *field,
                      const struct area_bounds *bounds, const struct area_config *area,
                      struct acre_err *err)
{
    bool adds_sizes = area->key == AREA_KEY_SUM || area->key == AREA_KEY_SAMPLE_SUM;
    if (!adds_sizes || bounds->head_width % 2 == 0 || !has_areas(area, bounds->n_layers))
        return 0;
    return err_set(err, ACRE_EMODEL,
                   "%s: %s%s: expected an even width of keys that are sums, found %d", parent->file,
                   parent->path, field, bounds->head_width);
}

/* Areas may be higher than a grid, as they may be wider than a sentence: such areas do not occur.
 * But heights of a line are a mistake: somebody has forgotten its rows. */
static int read_heights(const struct json_object *object, const struct area_bounds *bounds,
                        struct area_config *area, struct acre_err *err)
{
    char expected[96] = "1, as this memory cannot be a grid";
    const json_t *rows = json_find(object, "memory_height");
    if (bounds->max_rows > 1)
        snprintf(expected, sizeof(expected),
                 "an integer from 1 to max_position_embeddings, which is %d", bounds->max_rows);
    if (rows && !json_int_in(rows, 1, bounds->max_rows))
        return json_fail(object, "memory_height", expected, rows, err);
    if (rows)
        area->memory_height = (int)json_integer_value(rows);
    int code = read_layers(object, "height", bounds->n_layers, MAX_AREA_HEIGHT, area->height, err);
    if (code || area->memory_height > 1)
        return code;
    for (int i = 0; i < bounds->n_layers; i++)
        if (area->height[i] > 1)
            return json_fail(object, "height",
                             "1 in each layer, as the memory is a line (memory_height is 1)",
                             json_find(object, "height"), err);
    return 0;
}

static int read_one_area(const struct json_object *parent, const char *field,
                         const struct area_bounds *bounds, struct area_config *area,
                         struct acre_err *err)
{
    static const char *const known[] = {"width",   "height", "memory_height", "key", "value",
                                        "weights", NULL};
    struct json_object object;
    int code = json_opt_object(parent, field, &object, err);
    if (code || !object.value)
        return code;
    code = check_keys(&object, known, "width, height, memory_height, key, value, weights", err);
    if (!code)
        code = read_layers(&object, "width", bounds->n_layers, MAX_AREA_WIDTH, area->width, err);
    if (!code)
        code = read_heights(&object, bounds, area, err);
    if (!code)
        code = read_modes(&object, area, err);
    return code ? code : check_sums(parent, field, bounds, area, err);
}

/* Its one attention is from the decoder's last layer; heads are as wide as the model. */
static int read_lstm_area(const struct json_object *object, struct config *config,
                          struct acre_err *err)
{
    const struct area_bounds cross = {1, 1, config->d_model};
    return read_one_area(object, "decoder_cross", &cross, &config->decoder_cross, err);
}

static int read_transformer_areas(const struct json_object *object, struct config *config,
                                  struct acre_err *err)
{
    int encoder_head = config->d_model / config->encoder_heads;
    int decoder_head = config->d_model / config->decoder_heads;
    int max_rows = config->max_positions;
    const struct area_bounds of_encoder = {config->encoder_layers, max_rows, encoder_head};
    const struct area_bounds self = {config->decoder_layers, 1, decoder_head};
    const struct area_bounds cross = {config->decoder_layers, max_rows, decoder_head};
    int code = read_one_area(object, "encoder_self", &of_encoder, &config->encoder_self, err);
    if (!code)
        code = read_one_area(object, "decoder_self", &self, &config->decoder_self, err);
    if (!code)
        code = read_one_area(object, "decoder_cross", &cross, &config->decoder_cross, err);
    return code;
}

static int check_area_keys(const struct json_object *object, bool is_lstm, struct acre_err *err)
{
    static const char *const of_lstms[] = {"key",         "value",         "weights", "top_k",
                                           "temperature", "decoder_cross", NULL};
    static const char *const of_transformers[] = {"key",          "value",         "weights",
                                                  "top_k",        "temperature",   "encoder_self",
                                                  "decoder_self", "decoder_cross", NULL};
    if (is_lstm)
        return check_keys(object, of_lstms,
                          "key, value, weights, top_k, temperature, decoder_cross", err);
    return check_keys(object, of_transformers,
                      "key, value, weights, top_k, temperature, encoder_self, "
                      "decoder_self, decoder_cross",
                      err);
}

static int read_area(const struct json_object *top, struct config *config, struct acre_err *err)
{
    struct json_object object;
    int code = json_opt_object(top, "area", &object, err);
    if (code || !object.value)
        return code;
    struct area_config common = config->encoder_self;
    code = check_area_keys(&object, config_is_lstm(config), err);
    if (!code)
        code = json_opt_int(&object, "top_k", 0, MAX_TOP_K, &common.top_k, err);
    if (!code)
        code = json_opt_float(&object, "temperature", MIN_TEMPERATURE, MAX_TEMPERATURE,
                              &common.temperature, err);
    if (!code)
        code = read_modes(&object, &common, err);
    config->encoder_self = config->decoder_self = config->decoder_cross = common;
    if (code)
        return code;
    return config_is_lstm(config) ? read_lstm_area(&object, config, err)
                                  : read_transformer_areas(&object, config, err);
}

static void set_regular_attention(struct config *config)
{
    for (int i = 0; i < CONFIG_MAX_LAYERS; i++)
        config->encoder_self.width[i] = config->encoder_self.height[i] = 1;
    config->encoder_self.temperature = 1.0f;
    config->encoder_self.memory_height = 1;
    config->decoder_self = config->decoder_cross = config->encoder_self;
}

/* ---- Decoding keys --------------------------------------------------------------------------- */

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
    int code = read_token(object, "pad_token_id", vocab_size, &generation->pad_token, err);
    if (!code)
        code = read_token(object, "eos_token_id", vocab_size, &generation->end_token, err);
    if (!code)
        code =
            read_token(object, "decoder_start_token_id", vocab_size, &generation->start_token, err);
    if (!code)
        code = read_token(object, "forced_eos_token_id", vocab_size, &generation->forced_end_token,
                          err);
    return code;
}

static int read_lengths(const struct json_object *object, struct generation *generation,
                        struct acre_err *err)
{
    int code = json_opt_int(object, "max_length", 3, MAX_LENGTH + 2, &generation->max_length, err);
    if (!code)
        code = json_opt_int(object, "min_length", 0, MAX_LENGTH + 1, &generation->min_length, err);
    if (!code)
        code = json_opt_int(object, "max_new_tokens", 2, MAX_LENGTH + 1,
                            &generation->max_new_tokens, err);
    if (!code)
        code =
            json_opt_int(object, "min_new_tokens", 0, MAX_LENGTH, &generation->min_new_tokens, err);
    return code;
}

/* bad_words_ids of this file in place of those before. */
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

static int read_decoding(const struct json_object *object, struct config *config,
                         struct generation *generation, struct acre_err *err)
{
    int code = read_tokens(object, config->decoder_vocab_size, generation, err);
    if (!code)
        code = read_lengths(object, generation, err);
    if (!code)
        code = json_opt_int(object, "num_beams", 1, MAX_BEAM, &generation->num_beams, err);
    if (!code)
        code = json_opt_float(object, "length_penalty", -ACRE_MAX_LENGTH_PENALTY,
                              ACRE_MAX_LENGTH_PENALTY, &generation->length_penalty, err);
    if (!code)
        code = json_opt_bool(object, "renormalize_logits", &config->renormalize, err);
    return code ? code : read_forbidden(object, config, err);
}

/* Marian never emits the token that decoding starts with. */
static int add_pad_to_forbidden(struct config *config, struct acre_err *err)
{
    if (config->pad_token == config->end_token)
        return 0;
    for (int i = 0; i < config->n_forbidden; i++)
        if (config->forbidden[i] == config->pad_token)
            return 0;
    if (!config->forbidden)
        config->forbidden = mem_alloc(sizeof(*config->forbidden));
    if (!config->forbidden)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", CONFIG_FILE);
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
    int code = check_token(object, "pad_token_id", generation->pad_token, err);
    if (!code)
        code = check_token(object, "eos_token_id", generation->end_token, err);
    if (!code)
        code = check_token(object, "decoder_start_token_id", generation->start_token, err);
    if (!code && generation->end_token >= config->vocab_size) /* sources end with it too */
        code = err_set(err, ACRE_EMODEL,
                       "%s: eos_token_id: expected an integer from 0 to %d, found %d", CONFIG_FILE,
                       config->vocab_size - 1, generation->end_token);
    config->pad_token = generation->pad_token;
    config->end_token = generation->end_token;
    config->start_token = generation->start_token;
    return code ? code : add_pad_to_forbidden(config, err);
}

/* transformers counts the start token and the end token in max_length and the start token in
 * min_length; in max_new_tokens only the end token, in min_new_tokens neither. */
static int set_decoding(const struct generation *generation, struct config *config,
                        struct acre_err *err)
{
    struct acre_decoding *decoding = &config->decoding;
    decoding->beam_size = generation->num_beams;
    decoding->num_hypotheses = 1;
    decoding->length_penalty = generation->length_penalty;
    decoding->max_length = generation->max_new_tokens != ABSENT ? generation->max_new_tokens - 1
                                                                : generation->max_length - 2;
    decoding->min_length = generation->min_new_tokens != ABSENT ? generation->min_new_tokens
                           : generation->min_length > 0         ? generation->min_length - 1
                                                                : 0;
    if (decoding->min_length > decoding->max_length)
        return err_set(err, ACRE_EMODEL,
                       "%s: min_length: expected at most the %d target tokens "
                       "that max_length allows, found %d",
                       CONFIG_FILE, decoding->max_length, decoding->min_length);
    return 0;
}

/* ---- Languages ------------------------------------------------------------------------------- */

/* "eng" -> "en"; codes of other lengths stay. */
static void shorten_language(char language[16])
{
    UErrorCode status = U_ZERO_ERROR;
    char two_letters[16];
    if (strlen(language) != 3)
        return;
    int32_t n = uloc_getLanguage(language, two_letters, sizeof(two_letters), &status);
    if (U_SUCCESS(status) && n == 2)
        memcpy(language, two_letters, 3);
}

/* A code of two or three letters that ends at '-' or at the end; *at moves behind it. */
static bool take_code(const char **at, char language[16])
{
    size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
    if (n < 2 || n > 3 || ((*at)[n] != '-' && (*at)[n] != '/' && (*at)[n] != '\0'))
        return false;
    memcpy(language, *at, n);
    language[n] = '\0';
    *at += n + ((*at)[n] == '-');
    return true;
}

static const char *skip_family(const char *name)
{
    static const char *const families[] = {"opus-mt-tc-big-", "opus-mt-tc-base-", "opus-mt-"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (!strncmp(name, families[i], strlen(families[i])))
            return name + strlen(families[i]);
    return name;
}

/* "en-de-token" and "opus-mt-en-de". */
static void name_languages(const char *directory, struct config *config)
{
    size_t end = strlen(directory);
    while (end > 0 && directory[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    const char *at = skip_family(directory + begin);
    char source[16], target[16];
    if (!take_code(&at, source) || !take_code(&at, target))
        return;
    memcpy(config->source, source, sizeof(source));
    memcpy(config->target, target, sizeof(target));
}

static int read_languages(const struct config_texts *texts, struct config *config,
                          struct acre_err *err)
{
    if (texts->tokenizer.bytes) {
        json_t *root;
        struct json_object object;
        int code = json_parse(TOKENIZER_FILE, texts->tokenizer.bytes, texts->tokenizer.n, &root,
                              &object, err);
        if (code)
            return code;
        code = json_opt_text(&object, "source_lang", sizeof(config->source), config->source, err);
        if (!code)
            code =
                json_opt_text(&object, "target_lang", sizeof(config->target), config->target, err);
        json_decref(root);
        if (code)
            return code;
    }
    if (!config->source[0] || !config->target[0])
        name_languages(texts->directory, config);
    shorten_language(config->source);
    shorten_language(config->target);
    return 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int read_config(const struct config_texts *texts, struct config *config,
                       struct generation *generation, struct acre_err *err)
{
    json_t *root;
    struct json_object object;
    int code = json_parse(CONFIG_FILE, texts->config.bytes, texts->config.n, &root, &object, err);
    if (code)
        return code;
    code = read_architecture(&object, config, err);
    if (!code)
        code = read_area(&object, config, err);
    if (!code)
        code = read_decoding(&object, config, generation, err);
    json_decref(root);
    return code;
}

static int read_generation(const struct config_texts *texts, struct config *config,
                           struct generation *generation, struct acre_err *err)
{
    if (!texts->generation.bytes)
        return 0;
    json_t *root;
    struct json_object object;
    int code = json_parse(GENERATION_FILE, texts->generation.bytes, texts->generation.n, &root,
                          &object, err);
    if (code)
        return code;
    code = read_decoding(&object, config, generation, err);
    json_decref(root);
    return code;
}

int config_parse(const struct config_texts *texts, struct config *config, struct acre_err *err)
{
    struct generation generation = {
        .num_beams = 1,
        .max_length = DEFAULT_MAX_LENGTH,
        .max_new_tokens = ABSENT,
        .min_new_tokens = ABSENT,
        .pad_token = ABSENT,
        .end_token = ABSENT,
        .start_token = ABSENT,
        .forced_end_token = ABSENT,
        .length_penalty = 1,
    };
    const struct json_object top = {.file = CONFIG_FILE};
    *config = (struct config){0};
    set_regular_attention(config);
    int code = read_config(texts, config, &generation, err);
    if (!code)
        code = read_generation(texts, config, &generation, err);
    if (!code)
        code = set_tokens(&top, &generation, config, err);
    if (!code)
        code = set_decoding(&generation, config, err);
    if (!code)
        code = read_languages(texts, config, err);
    if (code)
        config_fini(config);
    return code;
}

int config_load(const char *directory, struct config *config, struct acre_err *err)
{
    struct config_texts texts = {.directory = directory};
    *config = (struct config){0};
    int code = file_read(directory, CONFIG_FILE, MAX_FILE_BYTES, &texts.config, err);
    if (!code)
        code =
            file_read_optional(directory, GENERATION_FILE, MAX_FILE_BYTES, &texts.generation, err);
    if (!code)
        code = file_read_optional(directory, TOKENIZER_FILE, MAX_FILE_BYTES, &texts.tokenizer, err);
    if (!code)
        code = config_parse(&texts, config, err);
    text_fini(&texts.config);
    text_fini(&texts.generation);
    text_fini(&texts.tokenizer);
    return code;
}

void config_fini(struct config *config)
{
    mem_free(config->forbidden);
    config->forbidden = NULL;
    config->n_forbidden = 0;
}

static int widest(const struct area_config *area, int n_layers)
{
    int width = 1;
    for (int i = 0; i < n_layers; i++)
        if (area->width[i] > width)
            width = area->width[i];
    return width;
}

bool config_is_lstm(const struct config *config)
{
    return strcmp(config->model_type, "acre-lstm") == 0;
}

int config_max_area_width(const struct config *config)
{
    if (config_is_lstm(config))
        return config->decoder_cross.width[0];
    int width = widest(&config->encoder_self, config->encoder_layers);
    int self = widest(&config->decoder_self, config->decoder_layers);
    int cross = widest(&config->decoder_cross, config->decoder_layers);
    if (self > width)
        width = self;
    return cross > width ? cross : width;
}
