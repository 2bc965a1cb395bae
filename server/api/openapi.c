/* Happy path: the document that the program carries is parsed, and wherever a schema has "x-acre"
 * the function of that name fills it; paths whose settings are off leave.
 *
 * Failure modes: no memory. The document itself is tested, not checked here. */
#include "api/openapi.h"

#include <string.h>

#include "common/json.h"
#include "assets/assets.h"

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

/* What no model exceeds; one may take less. */
static int fill_max_length(json_t *schema, const struct server *server)
{
    int most = 0;

    for (size_t i = 0; i < server->models.n_items; i++) {
        const int its = acre_model_info(server->models.items[i])->decoding.max_length;

        most = its > most ? its : most;
    }
    return set_integer(schema, "maximum", most);
}

static json_t *list_of(const char *const *tags, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        list = json_list_append(list, json_string(tags[i]));
    return list;
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

/* Examples, not all that is taken: a language may be in another case, or have another name. */
static int fill_sources(json_t *schema, const struct server *server)
{
    const struct pairs *pairs = &server->models.pairs;
    json_t *list = list_of(pairs->sources, pairs->n_sources);

    return json_object_set_new(schema, "examples", json_list_append(list, json_string("auto")));
}

static int fill_targets(json_t *schema, const struct server *server)
{
    const struct pairs *pairs = &server->models.pairs;

    return json_object_set_new(schema, "examples", list_of(pairs->targets, pairs->n_targets));
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
