/* LibreTranslate's calls: POST /translate, POST /translate/NAME, GET /languages.
 *
 * Happy path of a translation: fields_read() -> parse() into struct srv_translate -> choose() a
 * model -> translate_start() -> http_await() ... on_translated() -> render() -> reply.
 * Failure modes: anything wrong with the request is refused before it is queued, in the words that
 * LibreTranslate uses where it has some; on_give_up() ends a call at its deadline, when its client
 * left, or when the server stops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fields.h"
#include "languages.h"
#include "reply.h"
#include "routes.h"
#include "unicode.h"

struct call {
    struct server *server;
    struct http_request *http;
    struct fields fields;         /* owns the strings of `request` */
    struct srv_translate request; /* `texts` owned */
    bool is_array;                /* q was one, so the reply has arrays */
    bool wants_scores;
    int n_alternatives;
    struct translate *translate; /* owned, once started */
};

static void free_call(struct call *call)
{
    translate_close(call->translate);
    fields_fini(&call->fields);
    free(call->request.texts);
    free(call);
}

/* ---- Parsing --------------------------------------------------------------------------------- */

/* Strings that must be there. */
static int parse_required(const struct fields *fields, const char *name, bool is_required,
                          const char **value, struct srv_error *error)
{
    if (fields_text(fields, name, value, error) != 0)
        return -1;
    if (!*value && is_required)
        return error_reply(error, 400, "missing_parameter", "Invalid request: missing %s parameter",
                           name);
    return 0;
}

static int parse_text(const struct server *server, const json_t *value, const char *name,
                      struct srv_text *text, struct srv_error *error)
{
    size_t n_chars;

    if (!json_is_string(value))
        return fields_refuse(error, name, "a string", value);
    text->data = json_string_value(value);
    text->bytes = json_string_length(value);
    n_chars = unicode_chars(text->data, text->bytes);
    if (n_chars > (size_t)server->settings->max_text_chars)
        return error_reply(error, 400, "text_too_long",
                           "Invalid request: request (%zu) exceeds text limit (%lld)", n_chars,
                           (long long)server->settings->max_text_chars);
    return 0;
}

static int parse_texts(struct call *call, struct srv_error *error)
{
    const json_t *q = fields_find(&call->fields, "q");
    const size_t limit = (size_t)call->server->settings->max_texts;
    struct srv_translate *request = &call->request;
    char name[32];

    call->is_array = json_is_array(q);
    if (!q || (call->is_array && json_array_size(q) == 0))
        return error_reply(error, 400, "missing_parameter", "Invalid request: missing q parameter");
    if (!call->is_array && !json_is_string(q))
        return fields_refuse(error, "q", "a string or an array of strings", q);
    request->n_texts = call->is_array ? json_array_size(q) : 1;
    if (request->n_texts > limit)
        return error_reply(error, 400, "too_many_texts",
                           "Invalid request: request (%zu) exceeds text limit (%zu)",
                           request->n_texts, limit);
    request->texts = calloc(request->n_texts, sizeof(request->texts[0]));
    if (!request->texts)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    if (!call->is_array)
        return parse_text(call->server, q, "q", &request->texts[0], error);
    for (size_t i = 0; i < request->n_texts; i++) {
        snprintf(name, sizeof(name), "q[%zu]", i);
        if (parse_text(call->server, json_array_get(q, i), name, &request->texts[i], error) != 0)
            return -1;
    }
    return 0;
}

/* As LibreTranslate: a number or its digits, negative is 0. */
static int parse_alternatives(struct call *call, struct srv_error *error)
{
    const json_t *found = fields_find(&call->fields, "alternatives");
    const int64_t limit = call->server->settings->max_beam_size - 1;
    double n = 0;

    if (json_is_string(found)) {
        if (!options_number(json_string_value(found), OPTION_INT, &n))
            n = NAN;
    } else if (found) {
        n = json_is_number(found) ? json_number_value(found) : NAN;
    }
    if (isnan(n) || n != floor(n))
        return error_reply(error, 400, "invalid_parameter",
                           "Invalid request: alternatives parameter is not a number");
    if (n > (double)limit)
        return error_reply(error, 400, "invalid_parameter",
                           "Invalid request: alternatives parameter must be <= %lld",
                           (long long)limit);
    call->n_alternatives = n < 0 ? 0 : (int)n;
    call->request.n_hypotheses = call->n_alternatives + 1;
    return 0;
}

static int parse_format(const struct fields *fields, struct srv_error *error)
{
    const char *format = NULL;

    if (fields_text(fields, "format", &format, error) != 0)
        return -1;
    if (format && strcmp(format, "text") != 0)
        return error_reply(error, 400, "format_not_supported", "%.60s format is not supported",
                           format);
    return 0;
}

/* The decoding fields, which are additions to LibreTranslate's call. */
static int parse_decoding(struct call *call, struct srv_error *error)
{
    const struct fields *fields = &call->fields;
    const struct settings *settings = call->server->settings;
    struct srv_translate *request = &call->request;
    double length_penalty = NAN;
    int timeout_ms = (int)settings->request_timeout_ms;

    if (fields_int(fields, "beam_size", 1, settings->max_beam_size, &request->beam_size, error) ||
        fields_real(fields, "length_penalty", -ACRE_MAX_LENGTH_PENALTY, ACRE_MAX_LENGTH_PENALTY,
                    &length_penalty, error) ||
        fields_int(fields, "timeout_ms", 1, INT32_MAX, &timeout_ms, error))
        return -1;
    if (request->beam_size && request->beam_size < request->n_hypotheses)
        return error_reply(error, 400, "invalid_parameter",
                           "Invalid request: beam_size: expected more than alternatives (%d), "
                           "found %d",
                           call->n_alternatives, request->beam_size);
    request->has_length_penalty = !isnan(length_penalty);
    request->length_penalty = request->has_length_penalty ? (float)length_penalty : 0;
    if (timeout_ms > settings->request_timeout_ms)
        timeout_ms = (int)settings->request_timeout_ms;
    request->timeout_ms = (uint64_t)timeout_ms;
    return 0;
}

static int parse_level(struct call *call, struct srv_error *error)
{
    const char **level = &call->request.level;

    if (fields_text(&call->fields, "level", level, error) != 0)
        return -1;
    if (*level && strcasecmp(*level, "token") != 0 && strcasecmp(*level, "char") != 0)
        return fields_refuse(error, "level", "\"token\" or \"char\"",
                             fields_find(&call->fields, "level"));
    return 0;
}

static int parse_flags(struct call *call, struct srv_error *error)
{
    static const char *const refused[] = {"alignments", "stream"};

    if (fields_flag(&call->fields, "scores", &call->wants_scores, error) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        bool is_set = false;

        if (fields_flag(&call->fields, refused[i], &is_set, error) != 0)
            return -1;
        if (is_set)
            return error_reply(error, 400, "not_supported",
                               "Invalid request: %s is not supported by this server", refused[i]);
    }
    return 0;
}

/* In LibreTranslate's order, so that a request with two faults gets the same answer. */
static int parse(struct call *call, const char *name, struct srv_error *error)
{
    const struct fields *fields = &call->fields;
    struct srv_translate *request = &call->request;
    bool needs_pair;

    if (fields_text(fields, "model", &request->model_name, error) != 0)
        return -1;
    if (name)
        request->model_name = name;
    needs_pair = !request->model_name;
    if (parse_texts(call, error) != 0 ||
        parse_required(fields, "source", needs_pair, &request->source, error) != 0 ||
        parse_required(fields, "target", needs_pair, &request->target, error) != 0)
        return -1;
    if (parse_alternatives(call, error) != 0 || parse_format(fields, error) != 0 ||
        parse_decoding(call, error) != 0 || parse_level(call, error) != 0)
        return -1;
    return parse_flags(call, error);
}

/* ---- Choosing a model ------------------------------------------------------------------------ */

static int must_match(const char *name, const char *wanted, const char *has,
                      const struct acre_model_info *info, struct srv_error *error)
{
    if (!wanted || strcasecmp(wanted, has) == 0)
        return 0;
    return error_reply(error, 400, "model_mismatch",
                       "Invalid request: %s: expected %s as in model %.100s, found %.60s", name,
                       has, info->name, wanted);
}

static int choose_by_name(struct call *call, bool is_in_path, struct acre_model **model,
                          struct srv_error *error)
{
    const struct srv_translate *request = &call->request;
    const struct acre_model_info *info;
    char names[256];

    *model = models_find_name(&call->server->models, request->model_name);
    if (!*model) {
        models_list_names(&call->server->models, names, sizeof(names));
        return error_reply(error, is_in_path ? 404 : 400, "unknown_model",
                           "model: expected one of %s, found %.100s", names, request->model_name);
    }
    info = acre_model_info(*model);
    if (request->source && strcasecmp(request->source, "auto") == 0)
        call->request.source = NULL; /* the model tells */
    if (must_match("source", request->source, info->source, info, error) != 0 ||
        must_match("target", request->target, info->target, info, error) != 0)
        return -1;
    return must_match("level", request->level, info->level, info, error);
}

/* There is no detection, and an assumed language would be a lie to clients that show it. */
static int refuse_auto(const struct models *models, struct srv_error *error)
{
    char sources[128];

    models_list_sources(models, sources, sizeof(sources));
    return error_reply(error, 400, "detection_not_supported",
                       "auto is not supported: this server does not detect languages; give the "
                       "source language (%s)",
                       sources);
}

static int choose_by_pair(struct call *call, struct acre_model **model, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;
    const char *source = request->source, *target = request->target;

    if (strcasecmp(source, "auto") == 0)
        return refuse_auto(&call->server->models, error);
    switch (models_find_pair(&call->server->models, source, target, request->level, model)) {
    case MODELS_FOUND:
        return 0;
    case MODELS_NO_SOURCE:
        return error_reply(error, 400, "language_not_supported", "%.60s is not supported", source);
    case MODELS_NO_TARGET:
        return error_reply(error, 400, "language_not_supported", "%.60s is not supported", target);
    case MODELS_NO_LEVEL:
        return error_reply(error, 400, "level_not_available",
                           "level %s is not available from %s (%.10s) to %s (%.10s)",
                           request->level, languages_name(source), source, languages_name(target),
                           target);
    case MODELS_NO_PAIR:
        break;
    }
    return error_reply(error, 400, "pair_not_available",
                       "%s (%.10s) is not available as a target language from %s (%.10s)",
                       languages_name(target), target, languages_name(source), source);
}

/* `name` is the path's, or NULL. */
static int choose(struct call *call, const char *name, struct acre_model **model,
                  struct srv_error *error)
{
    int max_length;

    if ((call->request.model_name ? choose_by_name(call, name != NULL, model, error)
                                  : choose_by_pair(call, model, error)) != 0)
        return -1;
    max_length = acre_model_info(*model)->decoding.max_length;
    return fields_int(&call->fields, "max_length", 1, max_length, &call->request.max_length, error);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static json_t *render_text(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);

    if (result)
        return json_string(result->hypotheses[0].text);
    return json_stringn(call->request.texts[i].data, call->request.texts[i].bytes);
}

static json_t *render_alternatives(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);
    json_t *list = json_array();

    for (size_t h = 1; result && h < result->n_hypotheses; h++)
        list = reply_append(list, json_string(result->hypotheses[h].text));
    return list;
}

/* A blank text is certainly itself: the logarithm of its probability is 0. */
static json_t *render_score(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);

    return json_real(result ? result->hypotheses[0].normalized_score : 0);
}

typedef json_t *render_fn(const struct call *call, size_t i);

/* Sets one member: of every text as an array, or of the only text. NULL in `body` is no memory. */
static int render_each(const struct call *call, json_t *body, const char *key, render_fn *render,
                       bool as_array)
{
    json_t *list;

    if (!as_array)
        return json_object_set_new(body, key, render(call, 0));
    list = json_array();
    for (size_t i = 0; i < call->request.n_texts; i++)
        list = reply_append(list, render(call, i));
    return json_object_set_new(body, key, list);
}

static json_t *render(const struct call *call)
{
    json_t *body = json_object();
    int rc = render_each(call, body, "translatedText", render_text, call->is_array);

    if (rc == 0 && call->n_alternatives > 0)
        rc = render_each(call, body, "alternatives", render_alternatives, call->is_array);
    if (rc == 0 && call->wants_scores)
        rc = render_each(call, body, "scores", render_score, true);
    if (rc == 0)
        return body;
    json_decref(body);
    return NULL;
}

/* ---- The calls ------------------------------------------------------------------------------- */

static void on_translated(void *user)
{
    struct call *call = user;
    struct srv_error error;

    if (translate_error(call->translate, &error) != 0)
        reply_error(call->http, &error);
    else
        reply_json(call->http, 200, render(call));
    free_call(call);
}

static void on_give_up(void *user, enum http_give_up why)
{
    struct call *call = user;
    struct srv_error error;

    if (why == HTTP_DEADLINE)
        error_reply(&error, 504, "deadline_exceeded",
                    "The translation was not finished within %llu ms",
                    (unsigned long long)call->request.timeout_ms);
    else if (why == HTTP_SHUTDOWN)
        error_from_engine(&error, ACRE_ECLOSED, NULL);
    else
        error_from_engine(&error, ACRE_ECANCELLED, NULL); /* to nobody */
    reply_error(call->http, &error);
    free_call(call);
}

static int start(struct call *call, const char *name, struct srv_error *error)
{
    struct acre_model *model;

    if (fields_read(&call->fields, call->http, error) != 0 || parse(call, name, error) != 0 ||
        choose(call, name, &model, error) != 0 ||
        translate_start(call->server->translator, &call->request, model, on_translated, call,
                        &call->translate, error) != 0)
        return -1;
    if (http_await(call->http, call->request.timeout_ms, on_give_up, call) != 0)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    return 0;
}

void api_libre_translate(struct server *server, struct http_request *request, const char *rest)
{
    struct call *call = calloc(1, sizeof(*call));
    struct srv_error error;

    if (!call) {
        error_from_engine(&error, ACRE_ENOMEM, NULL);
        reply_error(request, &error);
        return;
    }
    call->server = server;
    call->http = request;
    if (start(call, rest, &error) == 0)
        return;
    reply_error(request, &error);
    free_call(call);
}

/* The targets of a source language, each once, in the order of the models. */
static json_t *list_targets(const struct models *models, const char *source)
{
    json_t *targets = json_array();

    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);
        bool is_new = strcasecmp(info->source, source) == 0;

        for (size_t t = 0; t < json_array_size(targets); t++)
            if (strcmp(json_string_value(json_array_get(targets, t)), info->target) == 0)
                is_new = false;
        if (is_new)
            targets = reply_append(targets, json_string(info->target));
    }
    return targets;
}

void api_libre_languages(struct server *server, struct http_request *request, const char *rest)
{
    const struct models *models = &server->models;
    json_t *list = json_array();

    (void)rest;
    for (size_t i = 0; i < models->n_items; i++) {
        const char *source = acre_model_info(models->items[i])->source;
        bool is_new = source[0] != '\0';

        for (size_t before = 0; before < i; before++)
            if (strcasecmp(acre_model_info(models->items[before])->source, source) == 0)
                is_new = false;
        if (is_new)
            list = reply_append(list, json_pack("{s:s, s:s, s:o}", "code", source, "name",
                                                languages_name(source), "targets",
                                                list_targets(models, source)));
    }
    reply_json(request, 200, list);
}
