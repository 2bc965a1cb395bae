#include "api/openapi.h"

#include <string.h>

#include "common/json.h"
#include "page/assets.h"

/* ---- What settings and models decide --------------------------------------------------------- */

typedef int fill_fn(json_t *schema, const struct server *server);

static int set_integer(json_t *schema, const char *key, int64_t value)
{
    return json_object_set_new(schema, key, json_integer(value));
}

static int fill_text(json_t *schema, const struct server *server)
{
    return set_integer(schema, "maxLength", server->settings->max_text_chars);
}

static int fill_texts(json_t *schema, const struct server *server)
{
    return set_integer(schema, "maxItems", server->settings->max_texts);
}

static int fill_alternatives(json_t *schema, const struct server *server)
{
    return set_integer(schema, "maximum", server->settings->max_beam_size - 1);
}

static int fill_beam_size(json_t *schema, const struct server *server)
{
    return set_integer(schema, "maximum", server->settings->max_beam_size);
}

/* What every model takes. */
static int fill_max_length(json_t *schema, const struct server *server)
{
    int least = INT32_MAX;

    for (size_t i = 0; i < server->models.n_items; i++) {
        const int most = acre_model_info(server->models.items[i])->decoding.max_length;

        least = most < least ? most : least;
    }
    return set_integer(schema, "maximum", least);
}

/* The names of what `name_of` finds in models, each once. */
static json_t *list_of(const struct server *server,
                       const char *(*name_of)(const struct acre_model_info *info))
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const char *name = name_of(acre_model_info(server->models.items[i]));
        bool is_new = name[0] != '\0';

        for (size_t k = 0; k < json_array_size(list); k++)
            if (strcmp(json_string_value(json_array_get(list, k)), name) == 0)
                is_new = false;
        if (is_new)
            list = json_list_append(list, json_string(name));
    }
    return list;
}

static const char *name_of_model(const struct acre_model_info *info)
{
    return info->name;
}

static const char *source_of_model(const struct acre_model_info *info)
{
    return info->source;
}

static const char *target_of_model(const struct acre_model_info *info)
{
    return info->target;
}

static int fill_models(json_t *schema, const struct server *server)
{
    return json_object_set_new(schema, "enum", list_of(server, name_of_model));
}

static int fill_sources(json_t *schema, const struct server *server)
{
    return json_object_set_new(schema, "enum", list_of(server, source_of_model));
}

static int fill_targets(json_t *schema, const struct server *server)
{
    return json_object_set_new(schema, "enum", list_of(server, target_of_model));
}

/* Which values of source, target and level go together: one alternative for each model. */
static int fill_pairs(json_t *schema, const struct server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);

        list = json_list_append(list, json_pack("{s:[s,s], s:{s:{s:[s]}, s:{s:[s]}, s:{s:[s]}}}",
                                                "required", "source", "target", "properties",
                                                "source", "enum", info->source, "target", "enum",
                                                info->target, "level", "enum", info->level));
    }
    return json_object_set_new(schema, "anyOf", list);
}

/* "" and null stand for what is not given. */
static json_t *one_of(const char *first, const char *second)
{
    return json_pack("{s:[s,s,s,n]}", "enum", first, second, "");
}

/* A request names a pair, or a model, which tells the rest; nothing else fits together. */
static int fill_selections(json_t *schema, const struct server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);
        const int longest = info->decoding.max_length;

        list = json_list_append(
            list,
            json_pack("{s:[s,s], s:{s:{s:[s]}, s:{s:[s]}, s:{s:[s]}, s:o, s:{s:i}}}", "required",
                      "source", "target", "properties", "source", "enum", info->source, "target",
                      "enum", info->target, "level", "enum", info->level, "model", one_of("", ""),
                      "max_length", "maximum", longest));
        list = json_list_append(
            list, json_pack("{s:[s], s:{s:{s:[s]}, s:o, s:o, s:o, s:{s:i}}}", "required", "model",
                            "properties", "model", "enum", info->name, "source",
                            one_of(info->source, "auto"), "target", one_of(info->target, ""),
                            "level", one_of(info->level, ""), "max_length", "maximum", longest));
    }
    return json_object_set_new(schema, "anyOf", list);
}

static int fill_deepl_pairs(json_t *schema, const struct server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);

        list = json_list_append(list, json_pack("{s:[s,s], s:{s:{s:[s]}, s:{s:[s]}}}", "required",
                                                "source_lang", "target_lang", "properties",
                                                "source_lang", "enum", info->source, "target_lang",
                                                "enum", info->target));
    }
    return json_object_set_new(schema, "anyOf", list);
}

static int fill_suggestions(json_t *schema, const struct server *server)
{
    return server->settings->suggestions[0] ? 0 : json_object_del(schema, "200");
}

static int fill_paths(json_t *paths, const struct server *server)
{
    if (server->settings->page)
        return 0;
    return json_object_del(paths, "/") | json_object_del(paths, "/docs");
}

static const struct {
    const char *name;
    fill_fn *fill;
} fills[] = {
    {"text", fill_text},
    {"texts", fill_texts},
    {"alternatives", fill_alternatives},
    {"beam_size", fill_beam_size},
    {"max_length", fill_max_length},
    {"models", fill_models},
    {"sources", fill_sources},
    {"targets", fill_targets},
    {"pairs", fill_pairs},
    {"selections", fill_selections},
    {"deepl_pairs", fill_deepl_pairs},
    {"suggestions", fill_suggestions},
    {"paths", fill_paths},
};

/* ---- Walking the document -------------------------------------------------------------------- */

static int fill(json_t *value, const struct server *server)
{
    const json_t *mark = json_object_get(value, "x-acre");
    const char *key;
    size_t index;
    json_t *member;
    void *next;
    int rc = 0;

    for (size_t i = 0; mark && i < sizeof(fills) / sizeof(fills[0]); i++)
        if (strcmp(fills[i].name, json_string_value(mark)) == 0)
            rc |= fills[i].fill(value, server);
    if (mark)
        rc |= json_object_del(value, "x-acre");
    json_object_foreach_safe(value, next, key, member) rc |= fill(member, server);
    json_array_foreach(value, index, member) rc |= fill(member, server);
    return rc;
}

json_t *openapi_make(const struct server *server)
{
    json_t *document = json_loads(page_openapi, 0, NULL);

    if (document && fill(document, server) == 0)
        return document;
    json_decref(document);
    return NULL;
}
