/* Happy path: the model that is named, or what language each text is in -> for each of these: the
 * model by languages and level -> decoding within its limits -> the dictionaries of the glossaries
 * for what it translates.
 *
 * Failure modes, each with a code of its own: no such model, language, pair, level or glossary;
 * fields that contradict the model that is named. */
#include "api/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/detect.h"
#include "serve/languages.h"

static int must_match(const char *field, const char *wanted, const char *has,
                      const struct acre_model_info *info, struct srv_error *error)
{
    if (!wanted || strcasecmp(wanted, has) == 0)
        return 0;
    return error_field(error, "model_mismatch", field,
                       "expected %s as in model %.100s, found %.60s", has, info->name, wanted);
}

/* *name is NULL if the request does not say, and the model has a default, or tells no language. */
static int must_speak(const char *field, const char *name, const char *default_tag,
                      size_t n_languages, const struct acre_language *language,
                      const struct acre_model_info *info, struct srv_error *error)
{
    if (language || (!name && (default_tag[0] || n_languages == 0)))
        return 0;
    if (!name)
        return error_field(error, "missing_parameter", field,
                           "expected a language of model %.100s, found none", info->name);
    return error_field(
        error, "model_mismatch", field, "expected %s as in model %.100s, found %.60s",
        n_languages == 1 && default_tag[0] ? default_tag : "a language", info->name, name);
}

/* A model that does not tell what it reads needs no source. */
static int settle_auto(struct call *call, const struct acre_model *named, struct srv_error *error)
{
    if (!call->request.source || strcasecmp(call->request.source, "auto") != 0)
        return 0;
    if (!named || acre_model_info(named)->n_sources > 0)
        return detect_source(call, named, error);
    call->request.source = NULL;
    return 0;
}

static int refuse_pair(const char *source, const char *target, struct srv_error *error)
{
    return error_http(error, 400, "pair_not_available",
                      "%s (%.10s) is not available as a target language from %s (%.10s)",
                      languages_name(target), target, languages_name(source), source);
}

/* The languages that the request names, or the model's own. */
static int must_be_pair(const struct acre_model *model, const char *source, const char *target,
                        struct srv_error *error)
{
    const struct acre_model_info *info = acre_model_info(model);

    source = source ? source : info->source;
    target = target ? target : info->target;
    if (!source[0] || !target[0] || models_translate(model, source, target))
        return 0;
    return refuse_pair(source, target, error);
}

static int find_named(const struct call *call, struct acre_model **model, struct srv_error *error)
{
    const char *name = call->request.model_name;
    const struct models *models = &call->pending.server->models;
    char names[256];

    *model = name ? models_find_name(models, name) : NULL;
    if (*model || !name)
        return 0;
    models_list_names(models, names, sizeof(names));
    return error_http(error, call->name ? 404 : 400, "unknown_model",
                      "model: expected one of %s, found %.100s", names, name);
}

static int check_named(const struct srv_translate *request, const struct srv_route *route,
                       struct srv_error *error)
{
    const struct acre_model *model = route->model;
    const struct acre_model_info *info = acre_model_info(model);

    if (must_speak("source", route->source, info->source, info->n_sources,
                   route->source ? acre_model_source(model, route->source) : NULL, info,
                   error) != 0 ||
        must_speak("target", request->target, info->target, info->n_targets,
                   request->target ? acre_model_target(model, request->target) : NULL, info,
                   error) != 0 ||
        must_be_pair(model, route->source, request->target, error) != 0)
        return -1;
    return must_match("level", request->level, info->level, info, error);
}

static int choose_by_pair(const struct call *call, struct srv_route *route, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;
    const char *source = route->source, *target = request->target;
    const enum models_match match = models_find_pair(&call->pending.server->models, source, target,
                                                     request->level, &route->model);

    if (match == MODELS_NO_SOURCE || match == MODELS_NO_TARGET)
        return error_field(error, "language_not_supported",
                           match == MODELS_NO_SOURCE ? "source" : "target",
                           "expected a language of this server, found %.60s",
                           match == MODELS_NO_SOURCE ? source : target);
    if (match == MODELS_NO_LEVEL)
        return error_http(error, 400, "level_not_available",
                          "level %s is not available from %s (%.10s) to %s (%.10s)", request->level,
                          languages_name(source), source, languages_name(target), target);
    return match == MODELS_NO_PAIR ? refuse_pair(source, target, error) : 0;
}

/* How long a translation may be is the model's to say. */
static int read_decoding(struct call *call, int max_length, struct srv_error *error)
{
    const int max_beam_size = (int)call->pending.server->settings->max_beam_size;
    const struct acre_decoding most = {.beam_size = max_beam_size,
                                       .num_hypotheses = max_beam_size,
                                       .min_length = max_length,
                                       .max_length = max_length,
                                       .length_penalty = ACRE_MAX_LENGTH_PENALTY,
                                       .beam_threshold = ACRE_MAX_BEAM_THRESHOLD};
    struct decoding_wish *wish = &call->request.decoding;

    if (fields_decoding(&call->fields, &most, wish, error) != 0)
        return -1;
    if (wish->beam_size != DECODING_UNSET && wish->beam_size < wish->num_hypotheses)
        return error_field(error, "invalid_parameter", "beam_size",
                           "expected more than alternatives (%d), found %d",
                           (int)wish->num_hypotheses - 1, (int)wish->beam_size);
    return 0;
}

static int find_glossary(const struct call *call, const char *id, const struct glossary **glossary,
                         struct srv_error *error)
{
    *glossary = glossaries_find(&call->pending.server->glossaries, id,
                                glossary_owner(call->pending.grant.key));
    if (*glossary)
        return 0;
    return error_http(error, 404, "glossary_not_found", "Glossary not found: %.40s", id);
}

/* The request's own, then those of its glossaries for what the model translates. They know
 * languages by their tags, whatever the request, whose languages the model has, calls them. */
static int find_dictionaries(const struct call *call, struct srv_route *route,
                             struct srv_error *error)
{
    const struct acre_model *model = route->model;
    const struct acre_model_info *info = acre_model_info(model);
    const char *source =
        route->source ? acre_model_source(model, route->source)->tag : info->source;
    const char *target =
        call->request.target ? acre_model_target(model, call->request.target)->tag : info->target;

    if (call->dictionary)
        route->dictionaries[route->n_dictionaries++] = call->dictionary;
    for (size_t i = 0; i < call->n_glossary_ids; i++) {
        const char *id = call->glossary_ids[i];
        const struct glossary *glossary;
        const struct glossary_part *part;

        if (find_glossary(call, id, &glossary, error) != 0)
            return -1;
        part = glossary_find_part(glossary, source, target);
        if (!part)
            return error_http(error, 400, "dictionary_not_found",
                              "Glossary %.40s has no dictionary from %.20s to %.20s", id, source,
                              target);
        route->dictionaries[route->n_dictionaries++] = part->dictionary;
    }
    return 0;
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static int add_route(struct call *call, struct acre_model *named, const char *source,
                     struct srv_error *error)
{
    struct srv_translate *request = &call->request;
    struct srv_route *route,
        *more = realloc(request->routes, (request->n_routes + 1) * sizeof(*more));

    if (!more)
        return error_no_memory(error);
    request->routes = more;
    route = &more[request->n_routes++];
    *route = (struct srv_route){.model = named, .source = source};
    if ((named ? check_named(request, route, error) : choose_by_pair(call, route, error)) != 0 ||
        read_decoding(call, acre_model_info(route->model)->decoding.max_length, error) != 0)
        return -1;
    return find_dictionaries(call, route, error);
}

/* What is kept takes no route, but may not be asked for what there is not. */
static int check_kept(struct call *call, const struct acre_model *named, struct srv_error *error)
{
    const struct models *models = &call->pending.server->models;
    const struct acre_model_info *info = named ? acre_model_info(named) : NULL;
    const struct glossary *ignored;
    int max_length = info ? info->decoding.max_length : 0;

    for (size_t i = 0; !named && i < models->n_items; i++)
        if (acre_model_info(models->items[i])->decoding.max_length > max_length)
            max_length = acre_model_info(models->items[i])->decoding.max_length;
    if ((named && must_match("level", call->request.level, info->level, info, error) != 0) ||
        read_decoding(call, max_length, error) != 0)
        return -1;
    for (size_t i = 0; i < call->n_glossary_ids; i++)
        if (find_glossary(call, call->glossary_ids[i], &ignored, error) != 0)
            return -1;
    return 0;
}

/* One for each language that texts are in. */
static int route_found(struct call *call, struct acre_model *named, struct srv_error *error)
{
    struct srv_translate *request = &call->request;

    request->route_of = calloc(request->n_texts, sizeof(request->route_of[0]));
    if (!request->route_of)
        return error_no_memory(error);
    for (size_t i = 0; i < request->n_texts; i++) {
        const struct found *found = &call->found[i];
        size_t r = found->is_kept ? SRV_NO_ROUTE : 0;

        while (r < request->n_routes && strcmp(request->routes[r].source, found->code) != 0)
            r++;
        if (r == request->n_routes && add_route(call, named, found->code, error) != 0)
            return -1;
        request->route_of[i] = (uint16_t)r;
    }
    return request->n_routes > 0 ? 0 : check_kept(call, named, error);
}

int choice_make(struct call *call, struct srv_error *error)
{
    struct acre_model *named;
    int status;

    if (find_named(call, &named, error) != 0 || settle_auto(call, named, error) != 0)
        return -1;
    status = call->is_detected ? route_found(call, named, error)
                               : add_route(call, named, call->request.source, error);
    if (status == 0 && !call->request.target) {
        /* Where all is kept nothing holds the model, which a reload may close. */
        snprintf(call->target, sizeof(call->target), "%s", acre_model_info(named)->target);
        call->request.target = call->target;
    }
    return status;
}
