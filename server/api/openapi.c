/* Happy path: the document that the program carries is parsed, and wherever a schema has "x-acre"
 * the function of that name fills it; paths whose settings are off leave.
 *
 * Failure modes: no memory. The document itself is tested, not checked here. */
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

static json_t *list_of(const char *const *tags, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        list = json_list_append(list, json_string(tags[i]));
    return list;
}

static json_t *languages_of(const struct acre_language *languages, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        list = json_list_append(list, json_string(languages[i].tag));
    return list;
}

static json_t *sources_of(const struct acre_model_info *info)
{
    return languages_of(info->sources, info->n_sources);
}

static json_t *targets_of(const struct acre_model_info *info)
{
    return languages_of(info->targets, info->n_targets);
}

static json_t *list_models(const struct models *models)
{
    json_t *list = json_array();

    for (size_t i = 0; i < models->n_items; i++)
        list = json_list_append(list, json_string(acre_model_info(models->items[i])->name));
    return list;
}

static int fill_models(json_t *schema, const struct server *server)
{
    return json_object_set_new(schema, "enum", list_models(&server->models));
}

static int fill_sources(json_t *schema, const struct server *server)
{
    return json_object_set_new(
        schema, "enum", list_of(server->models.pairs.sources, server->models.pairs.n_sources));
}

static int fill_targets(json_t *schema, const struct server *server)
{
    return json_object_set_new(
        schema, "enum", list_of(server->models.pairs.targets, server->models.pairs.n_targets));
}

/* A field that need not be given: "" and null stand for what is not. */
static json_t *optional(json_t *list)
{
    list = json_list_append(list, json_string(""));
    list = json_list_append(list, json_null());
    return json_pack("{s:o}", "enum", list);
}

static json_t *optional_level(const struct acre_model_info *info)
{
    return optional(json_pack("[s]", info->level));
}

/* Which values of source, target and level go together: one alternative for each model. */
static int fill_pairs(json_t *schema, const struct server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);

        list = json_list_append(list, json_pack("{s:[s,s], s:{s:{s:o}, s:{s:o}, s:o}}", "required",
                                                "source", "target", "properties", "source", "enum",
                                                sources_of(info), "target", "enum",
                                                targets_of(info), "level", optional_level(info)));
    }
    return json_object_set_new(schema, "anyOf", list);
}

/* A source beside the name of a model: what that does not tell must be given. */
static json_t *source_beside(const struct acre_model_info *info)
{
    json_t *list = sources_of(info);

    return info->source[0] ? optional(json_list_append(list, json_string("auto")))
                           : json_pack("{s:o}", "enum", list);
}

static json_t *target_beside(const struct acre_model_info *info)
{
    json_t *list = targets_of(info);

    return info->target[0] ? optional(list) : json_pack("{s:o}", "enum", list);
}

static json_t *by_languages(const struct acre_model_info *info)
{
    return json_pack("{s:[s,s], s:{s:{s:o}, s:{s:o}, s:o, s:o}}", "required", "source", "target",
                     "properties", "source", "enum", sources_of(info), "target", "enum",
                     targets_of(info), "level", optional_level(info), "model",
                     optional(json_array()));
}

static json_t *by_model(const struct acre_model_info *info)
{
    json_t *required = json_pack("[s]", "model");

    if (!info->source[0])
        required = json_list_append(required, json_string("source"));
    if (!info->target[0])
        required = json_list_append(required, json_string("target"));
    return json_pack("{s:o, s:{s:{s:[s]}, s:o, s:o, s:o}}", "required", required, "properties",
                     "model", "enum", info->name, "source", source_beside(info), "target",
                     target_beside(info), "level", optional_level(info));
}

/* What a model takes, of a request that has the field. */
static json_t *with_length(json_t *selection, const struct acre_model_info *info)
{
    json_t *length = json_pack("{s:i}", "maximum", info->decoding.max_length);

    if (json_object_set_new(json_object_get(selection, "properties"), "max_length", length) == 0)
        return selection;
    json_decref(selection);
    return NULL;
}

/* A request names a pair, or a model, which tells the rest; nothing else fits together. */
static int fill_selections(json_t *schema, const struct server *server)
{
    const bool has_length = json_object_get(json_object_get(schema, "properties"), "max_length");
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);
        json_t *selections[] = {by_languages(info), by_model(info)};

        for (int k = 0; k < 2; k++)
            list = json_list_append(list,
                                    has_length ? with_length(selections[k], info) : selections[k]);
    }
    return json_object_set_new(schema, "anyOf", list);
}

/* A source that is not given is detected. */
static int fill_deepl_pairs(json_t *schema, const struct server *server)
{
    json_t *list = json_array();

    for (size_t i = 0; i < server->models.n_items; i++) {
        const struct acre_model_info *info = acre_model_info(server->models.items[i]);

        list = json_list_append(list,
                                json_pack("{s:[s], s:{s:o, s:{s:o}}}", "required", "target_lang",
                                          "properties", "source_lang", optional(sources_of(info)),
                                          "target_lang", "enum", targets_of(info)));
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
