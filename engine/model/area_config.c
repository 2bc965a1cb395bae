/* The section's own keys say what holds of all attentions; a section inside it is about one of
 * them, and goes before. Which attentions there are is the architecture's, see config_kind.
 *
 * Every mistake names the field, what was expected and what was found. */
#include "model/area_config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MAX_TOP_K = 65536 };

/* Of area logits: beyond these, all areas weigh the same or one has all the weight. */
static const float MIN_TEMPERATURE = 0.01f, MAX_TEMPERATURE = 100.0f;

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
    int status = read_word(object, "key", keys,
                           "mean, max, sample, concat, max_concat, sum, "
                           "sample_concat or sample_sum",
                           &key, err);
    if (!status)
        status = read_word(object, "value", values, "sum, mean or max", &value, err);
    if (!status)
        status = read_word(object, "weights", weights, "softmax or sigmoid", &weight, err);
    if (key >= 0)
        area->key = modes[key];
    area->value = (enum area_value)value;
    area->sigmoid = weight == 1;
    return status;
}

/* This section is Acre's own, so a key it does not know is a mistake, not an extension. `known`
 * ends with NULL. */
static int check_keys(const struct json_object *object, const char *const *known,
                      struct acre_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object->value, key, value)
    {
        char expected[160];
        size_t i = 0, used = 0;
        for (; known[i] && strcmp(known[i], key); i++)
            used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%s",
                                     i > 0 ? ", " : "", known[i]);
        if (!known[i])
            return err_set(err, ACRE_EMODEL, "%s: %s%.64s: expected one of %s, found this key",
                           object->file, object->path, key, expected);
    }
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

void area_config_init(struct area_config *area)
{
    *area = (struct area_config){.temperature = 1.0f, .memory_height = 1};
    for (int i = 0; i < CONFIG_MAX_LAYERS; i++)
        area->width[i] = area->height[i] = 1;
}

static bool has_areas(const struct config_attention *attention)
{
    for (int i = 0; i < attention->n_layers; i++)
        if (attention->area->width[i] > 1 || attention->area->height[i] > 1)
            return true;
    return false;
}

/* Embeddings of height and width, half a key each, can be added to features that they fill. */
static int check_sums(const struct json_object *parent, const struct config_attention *attention,
                      struct acre_err *err)
{
    const struct area_config *area = attention->area;
    bool adds_sizes = area->key == AREA_KEY_SUM || area->key == AREA_KEY_SAMPLE_SUM;
    if (!adds_sizes || attention->head_width % 2 == 0 || !has_areas(attention))
        return 0;
    return err_set(err, ACRE_EMODEL,
                   "%s: %s%s: expected an even width of keys that are sums, found %d", parent->file,
                   parent->path, attention->name, attention->head_width);
}

/* Areas may be higher than a grid, as they may be wider than a sentence: such areas do not occur.
 * But heights of a line are a mistake: somebody has forgotten its rows. */
static int read_heights(const struct json_object *object, const struct config_attention *attention,
                        struct acre_err *err)
{
    struct area_config *area = attention->area;
    char expected[96] = "1, as this memory cannot be a grid";
    const json_t *rows = json_find(object, "memory_height");
    if (attention->max_rows > 1)
        snprintf(expected, sizeof(expected),
                 "an integer from 1 to max_position_embeddings, which is %d", attention->max_rows);
    if (rows && !json_int_in(rows, 1, attention->max_rows))
        return json_fail(object, "memory_height", expected, rows, err);
    if (rows)
        area->memory_height = (int)json_integer_value(rows);
    int status =
        read_layers(object, "height", attention->n_layers, MAX_AREA_HEIGHT, area->height, err);
    if (status || area->memory_height > 1)
        return status;
    for (int i = 0; i < attention->n_layers; i++)
        if (area->height[i] > 1)
            return json_fail(object, "height",
                             "1 in each layer, as the memory is a line (memory_height is 1)",
                             json_find(object, "height"), err);
    return 0;
}

static int read_attention(const struct json_object *parent,
                          const struct config_attention *attention, struct acre_err *err)
{
    static const char *const known[] = {"width",   "height", "memory_height", "key", "value",
                                        "weights", NULL};
    struct area_config *area = attention->area;
    struct json_object object;
    int status = json_opt_object(parent, attention->name, &object, err);
    if (status || !object.value)
        return status;
    status = check_keys(&object, known, err);
    if (!status)
        status =
            read_layers(&object, "width", attention->n_layers, MAX_AREA_WIDTH, area->width, err);
    if (!status)
        status = read_heights(&object, attention, err);
    if (!status)
        status = read_modes(&object, area, err);
    return status ? status : check_sums(parent, attention, err);
}

/* What the section says of all attentions. */
static int read_common(const struct json_object *object, struct area_config *area,
                       struct acre_err *err)
{
    int status = json_opt_int(object, "top_k", 0, MAX_TOP_K, &area->top_k, err);
    if (!status)
        status = json_opt_float(object, "temperature", MIN_TEMPERATURE, MAX_TEMPERATURE,
                                &area->temperature, err);
    return status ? status : read_modes(object, area, err);
}

static int read_section(const struct json_object *object, size_t n,
                        const struct config_attention *attentions, struct acre_err *err)
{
    const char *known[6 + CONFIG_MAX_ATTENTIONS] = {"key", "value", "weights", "top_k",
                                                    "temperature"};
    struct area_config common;
    for (size_t i = 0; i < n; i++)
        known[5 + i] = attentions[i].name;
    area_config_init(&common);
    int status = check_keys(object, known, err);
    if (!status)
        status = read_common(object, &common, err);
    for (size_t i = 0; i < n && !status; i++) {
        *attentions[i].area = common;
        status = read_attention(object, &attentions[i], err);
    }
    return status;
}

int area_config_read(const struct json_object *config, size_t n,
                     const struct config_attention *attentions, struct acre_err *err)
{
    struct json_object object;
    int status = json_opt_object(config, "area", &object, err);
    if (!status && object.value)
        status = read_section(&object, n, attentions, err);
    for (size_t i = 0; i < n && !status; i++)
        attentions[i].area->n_layers = attentions[i].n_layers;
    return status;
}
