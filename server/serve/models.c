#include "serve/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void models_fini(struct models *models)
{
    free(models->items);
    free(models->states);
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

static bool is_language(const struct models *models, const char *code)
{
    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);

        if (strcasecmp(info->source, code) == 0 || strcasecmp(info->target, code) == 0)
            return true;
    }
    return false;
}

enum models_match models_find_pair(const struct models *models, const char *source,
                                   const char *target, const char *level, struct acre_model **model)
{
    const char *wanted = level ? level : "token";
    struct acre_model *other = NULL;

    if (!is_language(models, source))
        return MODELS_NO_SOURCE;
    if (!is_language(models, target))
        return MODELS_NO_TARGET;
    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);

        if (strcasecmp(info->source, source) != 0 || strcasecmp(info->target, target) != 0)
            continue;
        *model = models->items[i];
        if (strcasecmp(info->level, wanted) == 0)
            return MODELS_FOUND;
        other = other ? other : models->items[i];
    }
    if (!other)
        return MODELS_NO_PAIR;
    *model = other;
    return level ? MODELS_NO_LEVEL : MODELS_FOUND;
}

size_t models_sources(const struct models *models, const char *codes[MODELS_MAX_SOURCES])
{
    size_t n = 0;

    for (size_t i = 0; i < models->n_items && n < MODELS_MAX_SOURCES; i++) {
        const char *source = acre_model_info(models->items[i])->source;
        size_t known = 0;

        while (known < n && strcasecmp(codes[known], source) != 0)
            known++;
        if (source[0] && known == n)
            codes[n++] = source;
    }
    return n;
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

void models_list_sources(const struct models *models, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < models->n_items; i++)
        append(text, text_bytes, acre_model_info(models->items[i])->source);
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

json_t *models_describe(const struct acre_model_info *info)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
        "name", info->name, "source", info->source, "target", info->target, "level", info->level,
        "model_type", info->model_type, "compute_type", info->compute_type, "parameters",
        (json_int_t)info->parameters, "packed_bytes", (json_int_t)info->packed_bytes,
        "working_bytes", (json_int_t)info->working_bytes, "d_model", info->d_model,
        "encoder_layers", info->encoder_layers, "decoder_layers", info->decoder_layers,
        "attention_heads", info->attention_heads, "vocab_size", info->vocab_size, "max_area_width",
        info->max_area_width, "max_source_tokens", info->max_source_tokens, "decoding",
        describe_decoding(&info->decoding));
}
