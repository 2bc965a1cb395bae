/* DeepL's languages: GET /v2/languages, /v3/languages, /v3/languages/resources,
 * /v2/glossary-language-pairs. What is listed is what models translate. Nothing here waits. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/deepl.h"
#include "api/reply.h"
#include "api/routes.h"
#include "common/language.h"
#include "serve/languages.h"

/* Targets that DeepL has in variants: in these only, except for Chinese. */
static const struct {
    const char *code, *base, *name;
} variants[] = {
    {"en-GB", "en", "English (British)"},      {"en-US", "en", "English (American)"},
    {"pt-BR", "pt", "Portuguese (Brazilian)"}, {"pt-PT", "pt", "Portuguese (European)"},
    {"zh-Hans", "zh", "Chinese (simplified)"},
};
enum { N_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static bool has_variants_only(const char *language)
{
    return strcasecmp(language, "en") == 0 || strcasecmp(language, "pt") == 0;
}

const char *deepl_tag(const char *tag)
{
    return strcasecmp(tag, "no") == 0 ? "nb" : tag;
}

const char *deepl_code(const char *code, char upper[DEEPL_CODE_BYTES])
{
    size_t n = 0;

    code = deepl_tag(code);
    for (; code[n] && n + 1 < DEEPL_CODE_BYTES; n++)
        upper[n] = (char)toupper((unsigned char)code[n]);
    upper[n] = '\0';
    return upper;
}

const char *deepl_target(const struct models *models, const char *target,
                         char code[DEEPL_CODE_BYTES])
{
    if (strlen(target) >= DEEPL_CODE_BYTES)
        return NULL;
    strcpy(code, target);
    for (size_t i = 0; i < N_VARIANTS && !pairs_have_target(&models->pairs, target); i++)
        if (strcasecmp(variants[i].code, target) == 0)
            strcpy(code, variants[i].base);
    return code;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

typedef json_t *append_fn(json_t *list, const char *code, const char *name);

/* As what DeepL lists a target language: as itself, and as its variants. */
static json_t *append_target(json_t *list, const char *language, append_fn *append)
{
    if (!has_variants_only(language))
        list = append(list, language, languages_name(language));
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (strcasecmp(variants[i].base, language) == 0)
            list = append(list, variants[i].code, variants[i].name);
    return list;
}

static json_t *append_v2_source(json_t *list, const char *code, const char *name)
{
    char upper[DEEPL_CODE_BYTES];

    return json_list_append(
        list, json_pack("{s:s, s:s}", "language", deepl_code(code, upper), "name", name));
}

static json_t *append_v2_target(json_t *list, const char *code, const char *name)
{
    char upper[DEEPL_CODE_BYTES];

    return json_list_append(list, json_pack("{s:s, s:s, s:b}", "language", deepl_code(code, upper),
                                            "name", name, "supports_formality", 0));
}

static json_t *list_v2(const struct pairs *pairs, bool of_targets)
{
    json_t *list = json_array();

    for (size_t i = 0; of_targets && i < pairs->n_targets; i++)
        list = append_target(list, pairs->targets[i], append_v2_target);
    for (size_t i = 0; !of_targets && i < pairs->n_sources; i++)
        list = append_v2_source(list, pairs->sources[i], languages_name(pairs->sources[i]));
    return list;
}

void api_deepl_languages(struct server *server, struct http_request *request, const char *rest)
{
    const char *type = "source";
    struct fields fields;
    struct srv_error error;
    struct key *key;
    int rc = deepl_read_field(server, request, &fields, "type", &type, &key, &error);

    (void)rest;
    if (rc == 0 && strcmp(type, "source") != 0 && strcmp(type, "target") != 0)
        rc = error_http(&error, 400, "invalid_parameter",
                        "Parameter 'type' is invalid. 'source' and 'target' are valid values.");
    if (rc == 0)
        reply_json(request, 200, list_v2(&server->models.pairs, strcmp(type, "target") == 0));
    else
        reply_error(request, &error);
    fields_fini(&fields);
}

/* ---- Version 3 ------------------------------------------------------------------------------- */

/* What languages may be asked for, and what there is for each; of documents, formats tell. */
static const struct resource {
    const char *name, *features[4];
} resources[] = {
    {"translate_text", {"auto_detection", "glossary", "tag_handling"}},
    {"translate_document", {"auto_detection", "glossary"}},
    {"glossary", {NULL}},
};
enum { N_RESOURCES = sizeof(resources) / sizeof(resources[0]) };

static bool is_of_sources(const char *feature)
{
    return strcmp(feature, "auto_detection") == 0;
}

static json_t *append_v3(json_t *list, const struct resource *resource, const char *code,
                         const char *name, bool is_source, bool is_target_too)
{
    json_t *features = json_object();

    for (const char *const *f = resource->features; *f; f++)
        if (is_source || !is_of_sources(*f))
            json_object_set_new(features, *f, json_pack("{s:s}", "status", "stable"));
    return json_list_append(list, json_pack("{s:s, s:s, s:s, s:b, s:b, s:o}", "lang", code, "name",
                                            name, "status", "stable", "usable_as_source",
                                            (int)is_source, "usable_as_target", (int)is_target_too,
                                            "features", features));
}

/* What DeepL calls a target besides its plain code. */
static json_t *append_v3_variants(json_t *list, const struct resource *resource, const char *target)
{
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (strcasecmp(variants[i].base, target) == 0)
            list = append_v3(list, resource, variants[i].code, variants[i].name, false, true);
    return list;
}

/* Each code once, whichever sides it is for. */
static json_t *list_v3(const struct pairs *pairs, const struct resource *resource)
{
    json_t *list = json_array();

    for (size_t i = 0; i < pairs->n_sources; i++) {
        const char *source = pairs->sources[i];

        list = append_v3(list, resource, deepl_tag(source), languages_name(source), true,
                         pairs_have_target(pairs, source));
    }
    for (size_t i = 0; i < pairs->n_targets; i++) {
        const char *target = pairs->targets[i];

        if (!pairs_have_source(pairs, target))
            list =
                append_v3(list, resource, deepl_tag(target), languages_name(target), false, true);
        list = append_v3_variants(list, resource, target);
    }
    return list;
}

static const struct resource *find_resource(const char *name, struct srv_error *error)
{
    for (size_t i = 0; name && i < N_RESOURCES; i++)
        if (strcmp(resources[i].name, name) == 0)
            return &resources[i];
    error_http(error, 400, "invalid_parameter",
               "Parameter 'resource' is invalid: expected 'translate_text', 'translate_document' "
               "or 'glossary', found %.60s%s",
               name ? name : "none", name ? "" : " ('product' was renamed to 'resource')");
    return NULL;
}

void api_deepl_languages_v3(struct server *server, struct http_request *request, const char *rest)
{
    const struct resource *resource = NULL;
    const char *name = NULL;
    struct fields fields;
    struct srv_error error;
    struct key *key;

    (void)rest;
    if (deepl_read_field(server, request, &fields, "resource", &name, &key, &error) == 0)
        resource = find_resource(name, &error);
    if (resource)
        reply_json(request, 200, list_v3(&server->models.pairs, resource));
    else
        reply_error(request, &error);
    fields_fini(&fields);
}

static json_t *list_features(const struct resource *resource)
{
    json_t *list = json_array();

    for (const char *const *f = resource->features; *f; f++)
        list = json_list_append(
            list, is_of_sources(*f)
                      ? json_pack("{s:s, s:b}", "name", *f, "needs_source_support", 1)
                      : json_pack("{s:s, s:b, s:b}", "name", *f, "needs_source_support", 1,
                                  "needs_target_support", 1));
    return list;
}

static json_t *list_resources(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < N_RESOURCES; i++)
        list = json_list_append(list, json_pack("{s:s, s:o}", "name", resources[i].name, "features",
                                                list_features(&resources[i])));
    return list;
}

void api_deepl_resources(struct server *server, struct http_request *request, const char *rest)
{
    struct fields fields;
    struct srv_error error;
    struct key *key;

    (void)rest;
    if (deepl_read_field(server, request, &fields, NULL, NULL, &key, &error) == 0)
        reply_json(request, 200, list_resources());
    else
        reply_error(request, &error);
    fields_fini(&fields);
}

/* ---- Glossaries ------------------------------------------------------------------------------ */

/* The first tag of each one's language, whatever the region and script. The caller owns the array;
 * NULL without memory. */
static size_t *find_languages(const char *const *tags, size_t n)
{
    size_t *languages = calloc(n + 1, sizeof(*languages));

    for (size_t i = 0; languages && i < n; i++)
        while (!language_is_same(tags[languages[i]], tags[i]))
            languages[i]++;
    return languages;
}

static json_t *glossary_pair(const char *source, const char *target)
{
    source = deepl_tag(source);
    target = deepl_tag(target);
    return json_pack("{s:s%, s:s%}", "source_lang", source, language_bytes(source), "target_lang",
                     target, language_bytes(target));
}

/* Appends what a source, whose language is `source`, is translated to. `are_listed` has a row for
 * each language. */
static json_t *append_pairs(json_t *list, const struct pairs *pairs, size_t i, size_t source,
                            const size_t *targets, bool *are_listed)
{
    for (size_t k = 0; k < pairs->n_targets; k++) {
        bool *is_listed = &are_listed[source * pairs->n_targets + targets[k]];

        if (*is_listed || !pairs_have(pairs, i, k) ||
            language_is_same(pairs->sources[i], pairs->targets[k]))
            continue;
        *is_listed = true;
        list = json_list_append(list, glossary_pair(pairs->sources[i], pairs->targets[k]));
    }
    return list;
}

/* Those that models translate, each once: a dictionary is for a language of all regions and
 * scripts. A glossary may have others. */
static json_t *list_glossary_pairs(const struct models *models)
{
    const struct pairs *pairs = &models->pairs;
    size_t *sources = find_languages(pairs->sources, pairs->n_sources);
    size_t *targets = find_languages(pairs->targets, pairs->n_targets);
    bool *are_listed = calloc(pairs->n_sources * pairs->n_targets + 1, sizeof(*are_listed));
    json_t *list = sources && targets && are_listed ? json_array() : NULL;

    for (size_t i = 0; list && i < pairs->n_sources; i++)
        list = append_pairs(list, pairs, i, sources[i], targets, are_listed);
    free(sources);
    free(targets);
    free(are_listed);
    return json_pack("{s:o}", "supported_languages", list);
}

void api_deepl_glossary_pairs(struct server *server, struct http_request *request, const char *rest)
{
    struct models *models = &server->models;
    struct fields fields;
    struct srv_error error;
    struct key *key;
    char *text;
    size_t bytes;

    (void)rest;
    if (deepl_read_field(server, request, &fields, NULL, NULL, &key, &error) == 0) {
        text = models_copy_text(models, &models->glossary_pairs, list_glossary_pairs, &bytes);
        reply_text(request, text, bytes);
    } else {
        reply_error(request, &error);
    }
    fields_fini(&fields);
}
