/* config_parse() reads config.json: what all models have, what is the architecture's own, then the
 * section of areas. Decoding keys of both files are collected (generation.h), and languages come
 * from tokenizer_config.json or the model's name.
 *
 * The first mistake found is told, and nothing is kept of the files. */
#include "model/config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/area_config.h"
#include "model/config_keys.h"
#include "model/generation.h"
#include "model/languages.h"

#define CONFIG_FILE "config.json"
#define GENERATION_FILE "generation_config.json"
#define TOKENIZER_FILE "tokenizer_config.json"

enum { MAX_FILE_BYTES = 4 << 20, MAX_VOCAB = 1 << 24, MAX_POSITIONS = 1 << 16 };

/* ---- Architecture ---------------------------------------------------------------------------- */

/* "marian" or "acre-lstm" */
static void name_kinds(const struct config_kind *const *kinds, size_t bytes, char *names)
{
    size_t used = 0;
    for (size_t i = 0; kinds[i] && used < bytes; i++)
        used += (size_t)snprintf(names + used, bytes - used, "%s\"%s\"",
                                 i == 0         ? ""
                                 : kinds[i + 1] ? ", "
                                                : " or ",
                                 kinds[i]->model_type);
}

static int read_kind(const struct json_object *object, const struct config_kind *const *kinds,
                     struct config *config, struct acre_err *err)
{
    char name[32], names[160];
    int status = json_get_text(object, "model_type", sizeof(name), name, err);
    if (status)
        return status;
    for (size_t i = 0; kinds[i] && !config->kind; i++)
        if (!strcmp(kinds[i]->model_type, name))
            config->kind = kinds[i];
    if (config->kind)
        return 0;
    name_kinds(kinds, sizeof(names), names);
    return err_set(err, ACRE_EUNSUPPORTED, "%s: model_type: expected %s, found \"%s\"",
                   object->file, names, name);
}

static int read_sizes(const struct json_object *object, struct config *config, struct acre_err *err)
{
    static const struct config_int sizes[] = {
        CONFIG_INT("d_model", 2, CONFIG_MAX_WIDTH, d_model),
        CONFIG_INT("encoder_layers", 1, CONFIG_MAX_LAYERS, encoder_layers),
        CONFIG_INT("decoder_layers", 1, CONFIG_MAX_LAYERS, decoder_layers),
        CONFIG_INT("decoder_attention_heads", 1, 1024, decoder_heads),
        CONFIG_INT("vocab_size", 2, MAX_VOCAB, vocab_size),
        CONFIG_INT("max_position_embeddings", 2, MAX_POSITIONS, max_positions),
    };
    int status = config_get_ints(object, sizeof(sizes) / sizeof(sizes[0]), sizes, config, err);
    config->decoder_vocab_size = config->vocab_size;
    return status ? status
                  : json_opt_int(object, "decoder_vocab_size", 2, MAX_VOCAB,
                                 &config->decoder_vocab_size, err);
}

static int read_embeddings(const struct json_object *object, struct config *config,
                           struct acre_err *err)
{
    config->share_embeddings = true;
    int status = json_opt_bool(object, "scale_embedding", &config->scale_embedding, err);
    if (!status && !config->kind->shares_embeddings)
        status = json_opt_bool(object, "share_encoder_decoder_embeddings",
                               &config->share_embeddings, err);
    if (!status && config->share_embeddings && config->decoder_vocab_size != config->vocab_size)
        status = json_fail(object, "decoder_vocab_size", "vocab_size, as the embeddings are shared",
                           json_find(object, "decoder_vocab_size"), err);
    return status;
}

/* The type that the model was evaluated in, of Acre's own. */
static int read_compute_type(const struct json_object *object, struct config *config,
                             struct acre_err *err)
{
    char name[16] = "f32";
    int status = json_opt_text(object, "compute_type", sizeof(name), name, err);
    if (status || (compute_type_parse(name, &config->compute_type) &&
                   (int)config->compute_type < COMPUTE_EVERYWHERE))
        return status;
    return json_fail(object, "compute_type", "f32, bf16 or int8", json_find(object, "compute_type"),
                     err);
}

static int read_architecture(const struct json_object *object,
                             const struct config_kind *const *kinds, struct config *config,
                             struct acre_err *err)
{
    struct config_attention attentions[CONFIG_MAX_ATTENTIONS];
    int status = read_kind(object, kinds, config, err);
    if (!status)
        status = read_sizes(object, config, err);
    if (!status)
        status = config->kind->read(object, config, err);
    if (!status)
        status = read_compute_type(object, config, err);
    if (!status)
        status = read_embeddings(object, config, err);
    if (status)
        return status;
    status = json_opt_text(object, "tokenizer_class", sizeof(config->tokenizer_class),
                           config->tokenizer_class, err);
    if (status)
        return status;
    size_t n = config->kind->attentions(config, attentions);
    return area_config_read(object, n, attentions, err);
}

int config_max_area_width(const struct config *config)
{
    const struct area_config *const areas[] = {&config->encoder_self, &config->decoder_self,
                                               &config->decoder_cross};
    int width = 1;
    for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
        for (int layer = 0; layer < areas[i]->n_layers; layer++)
            if (areas[i]->width[layer] > width)
                width = areas[i]->width[layer];
    return width;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int read_config(const struct config_texts *texts, const struct config_kind *const *kinds,
                       struct config *config, struct generation *generation, struct acre_err *err)
{
    json_t *root;
    struct json_object object;
    int status = json_parse(CONFIG_FILE, texts->config.bytes, texts->config.n, &root, &object, err);
    if (status)
        return status;
    status = read_architecture(&object, kinds, config, err);
    if (!status)
        status = generation_read(&object, generation, config, err);
    json_decref(root);
    return status;
}

static int read_generation(const struct config_texts *texts, struct config *config,
                           struct generation *generation, struct acre_err *err)
{
    if (!texts->generation.bytes)
        return 0;
    json_t *root;
    struct json_object object;
    int status = json_parse(GENERATION_FILE, texts->generation.bytes, texts->generation.n, &root,
                            &object, err);
    if (status)
        return status;
    status = generation_read(&object, generation, config, err);
    json_decref(root);
    return status;
}

/* What the model was trained with, mostly less than it has positions for. transformers writes 10^30
 * for "no limit". */
static int read_longest(const struct json_object *object, struct config *config,
                        struct acre_err *err)
{
    const json_t *found = json_find(object, "model_max_length");
    if (!found)
        return 0;
    double most = json_number_value(found);
    if (most < 2 || !json_is_number(found))
        return json_fail(object, "model_max_length", "a number of at least 2", found, err);
    if (most < config->max_source)
        config->max_source = (int)most;
    return 0;
}

static int read_tokenizer(const struct config_texts *texts, struct config *config,
                          struct acre_err *err)
{
    json_t *root;
    struct json_object object;
    config->max_source = config->max_positions;
    if (!texts->tokenizer.bytes)
        return languages_read(NULL, texts->name, config, err);
    int status =
        json_parse(TOKENIZER_FILE, texts->tokenizer.bytes, texts->tokenizer.n, &root, &object, err);
    if (status)
        return status;
    status = languages_read(&object, texts->name, config, err);
    if (!status)
        status = read_longest(&object, config, err);
    json_decref(root);
    return status;
}

int config_parse(const struct config_texts *texts, const struct config_kind *const *kinds,
                 struct config *config, struct acre_err *err)
{
    const char *blamed = texts->generation.bytes ? CONFIG_FILE " or " GENERATION_FILE : CONFIG_FILE;
    struct generation generation = generation_defaults;
    *config = (struct config){0};
    area_config_init(&config->encoder_self);
    area_config_init(&config->decoder_self);
    area_config_init(&config->decoder_cross);
    int status = read_config(texts, kinds, config, &generation, err);
    if (!status)
        status = read_generation(texts, config, &generation, err);
    if (!status)
        status = generation_finish(blamed, &generation, config, err);
    if (!status)
        status = read_tokenizer(texts, config, err);
    if (status)
        config_fini(config);
    return status;
}

int config_load(const char *directory, const char *name, const struct config_kind *const *kinds,
                struct config *config, struct acre_err *err)
{
    struct config_texts texts = {.name = name};
    *config = (struct config){0};
    int status = file_read(directory, CONFIG_FILE, MAX_FILE_BYTES, &texts.config, err);
    if (!status)
        status =
            file_read_optional(directory, GENERATION_FILE, MAX_FILE_BYTES, &texts.generation, err);
    if (!status)
        status =
            file_read_optional(directory, TOKENIZER_FILE, MAX_FILE_BYTES, &texts.tokenizer, err);
    if (!status)
        status = config_parse(&texts, kinds, config, err);
    text_fini(&texts.config);
    text_fini(&texts.generation);
    text_fini(&texts.tokenizer);
    return status;
}

void config_fini(struct config *config)
{
    mem_free(config->forbidden);
    config->forbidden = NULL;
    config->n_forbidden = 0;
}
