/* LibreTranslate's calls: POST /translate, POST /translate/NAME, GET /languages; and what of them
 * is LibreTranslate's own: fields, texts of errors, the shape of a reply. `level`, `model` and the
 * decoding fields are additions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/libre.h"
#include "serve/languages.h"
#include "api/reply.h"
#include "api/routes.h"

/* ---- Parsing --------------------------------------------------------------------------------- */

static const char *const field_names[] = {
    "q",      "source",     "target",    "format",         "alternatives",
    "level",  "model",      "beam_size", "max_length",     "timeout_ms",
    "scores", "alignments", "stream",    "length_penalty", "translate_attributes",
    NULL,
};

/* Strings that must be there. */
static int parse_required(const struct fields *fields, const char *name, bool is_required,
                          const char **value, struct srv_error *error)
{
    if (fields_text(fields, name, value, error) != 0)
        return -1;
    if (!*value && is_required)
        return error_field(error, "missing_parameter", name, "expected a value, found none");
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
    call->request.decoding.num_hypotheses = call->n_alternatives + 1;
    return 0;
}

static int parse_format(struct call *call, struct srv_error *error)
{
    const char *format = NULL;

    if (fields_text(&call->fields, "format", &format, error) != 0)
        return -1;
    if (format && strcmp(format, "text") != 0 && strcmp(format, "html") != 0)
        return error_reply(error, 400, "format_not_supported", "%.60s format is not supported",
                           format);
    call->request.format = format && strcmp(format, "html") == 0 ? SRV_HTML : SRV_TEXT;
    return fields_flag(&call->fields, "translate_attributes", &call->request.with_attributes,
                       error);
}

static int parse_timeout(struct call *call, struct srv_error *error)
{
    const int longest = (int)call->server->settings->request_timeout_ms;
    int timeout_ms = longest;

    if (fields_int(&call->fields, "timeout_ms", 1, INT32_MAX, &timeout_ms, error) != 0)
        return -1;
    call->request.timeout_ms = (uint64_t)(timeout_ms < longest ? timeout_ms : longest);
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
    static const char *const refused[] = {"alignments"};

    if (fields_flag(&call->fields, "scores", &call->wants_scores, error) != 0 ||
        fields_flag(&call->fields, "stream", &call->request.is_streamed, error) != 0)
        return -1;
    if (call->request.is_streamed && call->n_alternatives > 0)
        return error_field(error, "not_supported", "stream", "expected no alternatives, found %d",
                           call->n_alternatives);
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
int libre_parse(struct call *call, struct srv_error *error)
{
    const struct fields *fields = &call->fields;
    struct srv_translate *request = &call->request;
    bool needs_pair;

    if (fields_text(fields, "model", &request->model_name, error) != 0)
        return -1;
    if (call->name)
        request->model_name = call->name;
    needs_pair = !request->model_name;
    if (call_parse_texts(call, "q", error) != 0 ||
        parse_required(fields, "source", needs_pair, &request->source, error) != 0 ||
        parse_required(fields, "target", needs_pair, &request->target, error) != 0)
        return -1;
    if (parse_alternatives(call, error) != 0 || parse_format(call, error) != 0 ||
        parse_timeout(call, error) != 0 || parse_level(call, error) != 0)
        return -1;
    return parse_flags(call, error);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static json_t *render_text(const struct call *call, size_t i)
{
    const char *text = translate_text(call->translate, i, 0);

    if (text)
        return json_string(text);
    return json_stringn(call->request.texts[i].data, call->request.texts[i].bytes);
}

static json_t *render_alternatives(const struct call *call, size_t i)
{
    json_t *list = json_array();
    const char *text;

    for (size_t h = 1; (text = translate_text(call->translate, i, h)); h++)
        list = json_list_append(list, json_string(text));
    return list;
}

/* A blank text is certainly itself: the logarithm of its probability is 0. */
static json_t *render_score(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);

    return json_real(result ? result->hypotheses[0].normalized_score : 0);
}

static json_t *render_detected(const struct call *call, size_t i)
{
    (void)i;
    return json_pack("{s:i, s:s}", "confidence", call->confidence, "language",
                     call->request.source);
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
        list = json_list_append(list, render(call, i));
    return json_object_set_new(body, key, list);
}

static json_t *render(const struct call *call)
{
    json_t *body = json_object();
    int rc = render_each(call, body, "translatedText", render_text, call->is_array);

    if (rc == 0 && call->n_alternatives > 0)
        rc = render_each(call, body, "alternatives", render_alternatives, call->is_array);
    if (rc == 0 && call->is_detected)
        rc = render_each(call, body, "detectedLanguage", render_detected, call->is_array);
    if (rc == 0 && call->wants_scores)
        rc = render_each(call, body, "scores", render_score, true);
    if (rc == 0)
        return body;
    json_decref(body);
    return NULL;
}

/* What stands between sentences is in `before`, and behind the last one in `after`. */
static json_t *render_sentence(struct call *call, size_t index,
                               const struct acre_sentence *sentence)
{
    const struct srv_text *text = &call->request.texts[index];
    const size_t begin = sentence->number > 0 ? call->streamed_bytes : 0;
    const size_t end = sentence->source.first + sentence->source.n_bytes;
    json_t *body = json_pack(
        "{s:I, s:I, s:o}", "index", (json_int_t)index, "sentence", (json_int_t)sentence->number,
        "translatedText", sentence->text ? json_string(sentence->text) : render_text(call, index));
    int rc = body ? 0 : -1;

    call->streamed_bytes = end;
    if (rc == 0 && sentence->text && sentence->source.first > begin)
        rc = json_object_set_new(body, "before",
                                 json_stringn(text->data + begin, sentence->source.first - begin));
    if (rc == 0 && sentence->text && sentence->number + 1 == sentence->n_sentences &&
        text->bytes > end)
        rc = json_object_set_new(body, "after", json_stringn(text->data + end, text->bytes - end));
    if (rc == 0 && call->wants_scores)
        rc = json_object_set_new(body, "score", json_real(sentence->part.normalized_score));
    if (rc == 0)
        return body;
    json_decref(body);
    return NULL;
}

/* ---- Its words ------------------------------------------------------------------------------- */

void libre_word(const struct call *call, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;

    if (strcmp(error->code, "missing_parameter") == 0)
        snprintf(error->text, sizeof(error->text), "Invalid request: missing %s parameter",
                 error->field);
    else if (strcmp(error->code, "language_not_supported") == 0 && error->field[0])
        snprintf(error->text, sizeof(error->text), "%.60s is not supported",
                 strcmp(error->field, "source") == 0 ? request->source : request->target);
    else if (strcmp(error->code, "invalid_json") == 0)
        snprintf(error->text, sizeof(error->text), "%s",
                 error->field[0] ? "Invalid JSON format"
                                 : "The browser (or proxy) sent a request that this server could "
                                   "not understand.");
    else if (error->field[0] || strcmp(error->code, "bad_form") == 0 ||
             strcmp(error->code, "request_too_large") == 0 ||
             strcmp(error->code, "text_too_long") == 0 ||
             strcmp(error->code, "too_many_texts") == 0)
        error_name_field(error, "Invalid request: ");
}

/* ---- The calls ------------------------------------------------------------------------------- */

static const struct dialect dialect = {
    .fields = field_names,
    .parse = libre_parse,
    .render = render,
    .render_sentence = render_sentence,
    .word = libre_word,
};

void api_libre_translate(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &dialect);
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
            targets = json_list_append(targets, json_string(info->target));
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
            list = json_list_append(list, json_pack("{s:s, s:s, s:o}", "code", source, "name",
                                                    languages_name(source), "targets",
                                                    list_targets(models, source)));
    }
    reply_json(request, 200, list);
}
