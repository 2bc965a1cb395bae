#include "serve/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"

void models_fini(struct models *models)
{
    free(models->items);
    free(models->states);
    pairs_fini(&models->pairs);
    free(models->languages.text);
    free(models->glossary_pairs.text);
    *models = (struct models){.items = NULL};
}

bool models_have(const struct models *models, const struct acre_model *model)
{
    for (size_t i = 0; i < models->n_items; i++)
        if (models->items[i] == model)
            return true;
    return false;
}

struct acre_model *models_find_name(const struct models *models, const char *name)
{
    for (size_t i = 0; i < models->n_items; i++)
        if (strcmp(acre_model_info(models->items[i])->name, name) == 0)
            return models->items[i];
    return NULL;
}

static bool is_language(const struct models *models, const char *name)
{
    for (size_t i = 0; i < models->n_items; i++)
        if (acre_model_source(models->items[i], name) || acre_model_target(models->items[i], name))
            return true;
    return false;
}

bool models_translate(const struct acre_model *model, const char *source, const char *target)
{
    const struct acre_language *from = acre_model_source(model, source);
    const struct acre_language *to = acre_model_target(model, target);

    return from && to && pairs_allow(acre_model_info(model), from->tag, to->tag);
}

/* The level that is wanted goes before few languages. */
static bool is_better(const struct acre_model *model, const struct acre_model *other,
                      const char *level)
{
    const struct acre_model_info *a = acre_model_info(model), *b;

    if (!other)
        return true;
    b = acre_model_info(other);
    if ((strcasecmp(a->level, level) == 0) != (strcasecmp(b->level, level) == 0))
        return strcasecmp(a->level, level) == 0;
    return a->n_sources * a->n_targets < b->n_sources * b->n_targets;
}

enum models_match models_find_pair(const struct models *models, const char *source,
                                   const char *target, const char *level, struct acre_model **model)
{
    const char *wanted = level ? level : "token";

    *model = NULL;
    if (!is_language(models, source))
        return MODELS_NO_SOURCE;
    if (!is_language(models, target))
        return MODELS_NO_TARGET;
    for (size_t i = 0; i < models->n_items; i++)
        if (models_translate(models->items[i], source, target) &&
            is_better(models->items[i], *model, wanted))
            *model = models->items[i];
    if (!*model)
        return MODELS_NO_PAIR;
    return level && strcasecmp(acre_model_info(*model)->level, level) != 0 ? MODELS_NO_LEVEL
                                                                           : MODELS_FOUND;
}

/* Appends ", item" unless the list has it already. Items that do not fit are left out. */
static void append(char *list, size_t list_bytes, const char *item)
{
    size_t used = strlen(list), n = strlen(item);

    for (const char *at = list; (at = strstr(at, item)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return;
    if (n > 0 && used + n + 3 <= list_bytes)
        snprintf(list + used, list_bytes - used, "%s%s", used ? ", " : "", item);
}

void models_list_names(const struct models *models, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < models->n_items; i++)
        append(text, text_bytes, acre_model_info(models->items[i])->name);
}

void models_list_sources(const struct models *models, const struct acre_model *model, char *text,
                         size_t text_bytes)
{
    const struct acre_model_info *info = model ? acre_model_info(model) : NULL;

    text[0] = '\0';
    for (size_t i = 0; i < (info ? info->n_sources : models->pairs.n_sources); i++)
        append(text, text_bytes, info ? info->sources[i].tag : models->pairs.sources[i]);
}

static json_t *describe_decoding(const struct acre_decoding *decoding)
{
    json_t *object = json_object();

#define ADD_INT(name, min, max, help)                                                              \
    json_object_set_new(object, #name, json_integer(decoding->name));
#define ADD_REAL(name, min, max, help)                                                             \
    json_object_set_new(object, #name, json_real((double)decoding->name));
    ACRE_DECODING_OPTIONS(ADD_INT, ADD_REAL)
    return object;
}

static json_t *describe_languages(const struct acre_language *languages, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        list = json_list_append(list, json_string(languages[i].tag));
    return list;
}

json_t *models_describe(const struct acre_model_info *info)
{
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, "
        "s:i, s:i, s:i, "
        "s:i, s:o}",
        "name", info->name, "source", info->source, "target", info->target, "sources",
        describe_languages(info->sources, info->n_sources), "targets",
        describe_languages(info->targets, info->n_targets), "level", info->level, "model_type",
        info->model_type, "compute_type", info->compute_type, "parameters",
        (json_int_t)info->parameters, "packed_bytes", (json_int_t)info->packed_bytes,
        "working_bytes", (json_int_t)info->working_bytes, "d_model", info->d_model,
        "encoder_layers", info->encoder_layers, "decoder_layers", info->decoder_layers,
        "attention_heads", info->attention_heads, "vocab_size", info->vocab_size, "max_area_width",
        info->max_area_width, "max_source_tokens", info->max_source_tokens, "max_target_tokens",
        info->max_target_tokens, "decoding", describe_decoding(&info->decoding));
}

char *models_copy_text(const struct models *models, struct models_text *kept,
                       json_t *(*make)(const struct models *models), size_t *bytes)
{
    char *copy = NULL;

    if (!kept->text)
        kept->text = json_line(make(models), &kept->bytes);
    if (kept->text)
        copy = malloc(kept->bytes);
    if (copy)
        memcpy(copy, kept->text, kept->bytes);
    *bytes = kept->bytes;
    return copy;
}
