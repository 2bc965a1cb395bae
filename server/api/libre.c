/* LibreTranslate's calls: POST /translate, POST /translate/NAME, GET /languages; and what of them
 * is LibreTranslate's own: fields and the texts of errors; libre_reply.c has the shape of a reply.
 * `level`, `model` and the decoding fields are additions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/libre.h"
#include "api/phrase.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/terms_field.h"
#include "api/texts.h"
#include "serve/languages.h"
#include "serve/sentences.h"

/* ---- Parsing --------------------------------------------------------------------------------- */

static const char *const field_names[] = {
    "q",        "source",      "target",     "format",         "alternatives",         "level",
    "model",    "beam_size",   "max_length", "length_penalty", "beam_threshold",       "timeout_ms",
    "scores",   "sentences",   "alignments", "stream",         "translate_attributes", "api_key",
    "glossary", "glossary_id", NULL,
};

/* What sentences and alignments are told of in one reply: they are up to fifty times the text. */
enum { MAX_RANGED_BYTES = 32768 };

/* As LibreTranslate: a number or its digits, negative is 0. */
static int parse_alternatives(struct call *call, struct srv_error *error)
{
    const json_t *found = fields_find(&call->fields, "alternatives");
    const int64_t limit = call->pending.server->settings->max_beam_size - 1;
    double n = 0;

    if (json_is_string(found)) {
        if (!options_number(json_string_value(found), OPTION_INT, &n))
            n = NAN;
    } else if (found) {
        n = json_is_number(found) ? json_number_value(found) : NAN;
    }
    if (isnan(n) || n != floor(n))
        return error_http(error, 400, "invalid_parameter",
                          "Invalid request: alternatives parameter is not a number");
    if (n > (double)limit)
        return error_http(error, 400, "invalid_parameter",
                          "Invalid request: alternatives parameter must be <= %lld",
                          (long long)limit);
    call->libre.n_alternatives = n < 0 ? 0 : (int)n;
    call->request.decoding.num_hypotheses = call->libre.n_alternatives + 1;
    return 0;
}

static int parse_format(struct call *call, struct srv_error *error)
{
    const char *format = NULL;

    if (fields_text(&call->fields, "format", &format, error) != 0)
        return -1;
    if (format && strcmp(format, "text") != 0 && strcmp(format, "html") != 0)
        return error_http(error, 400, "format_not_supported", "%.60s format is not supported",
                          format);
    if (!call->upload)
        call->request.format = format && strcmp(format, "html") == 0 ? SRV_HTML : SRV_TEXT;
    return fields_flag(&call->fields, "translate_attributes", &call->request.with_attributes,
                       error);
}

static int parse_timeout(struct call *call, struct srv_error *error)
{
    const int longest = (int)call->pending.server->settings->request_timeout_ms;
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

/* Where something stands can be told of text alone: tags and references are no part of what the
 * model read. */
static int parse_ranges(struct call *call, struct srv_error *error)
{
    struct srv_translate *request = &call->request;
    const char *name;
    size_t bytes = 0;

    if (fields_flag(&call->fields, "sentences", &call->libre.wants_sentences, error) != 0 ||
        fields_flag(&call->fields, "alignments", &call->libre.wants_alignments, error) != 0)
        return -1;
    if (!call->libre.wants_sentences && !call->libre.wants_alignments)
        return 0;
    request->is_aligned = true;
    name = call->libre.wants_alignments ? "alignments" : "sentences";
    if (request->format != SRV_TEXT)
        return error_field(error, "not_supported", name, "expected format text, found html");
    for (size_t i = 0; i < request->n_texts; i++)
        bytes += request->texts[i].bytes;
    if (bytes > MAX_RANGED_BYTES && !request->is_streamed)
        return error_field(error, "text_too_long", name,
                           "expected at most %d bytes of text unless it is streamed, found %zu",
                           MAX_RANGED_BYTES, bytes);
    return 0;
}

static int parse_flags(struct call *call, struct srv_error *error)
{
    if (fields_flag(&call->fields, "scores", &call->libre.wants_scores, error) != 0 ||
        fields_flag(&call->fields, "stream", &call->request.is_streamed, error) != 0)
        return -1;
    if (call->request.is_streamed && call->libre.n_alternatives > 0)
        return error_field(error, "not_supported", "stream", "expected no alternatives, found %d",
                           call->libre.n_alternatives);
    return parse_ranges(call, error);
}

static int parse_code(const struct fields *fields, const char *name, bool is_required,
                      const char **code, struct srv_error *error)
{
    return is_required ? fields_required(fields, name, code, error)
                       : fields_text(fields, name, code, error);
}

int libre_parse_languages(struct call *call, struct srv_error *error)
{
    const struct fields *fields = &call->fields;
    struct srv_translate *request = &call->request;

    if (fields_text(fields, "model", &request->model_name, error) != 0)
        return -1;
    if (call->name && request->model_name && strcmp(call->name, request->model_name) != 0)
        return error_field(error, "model_mismatch", "model",
                           "expected %.100s as in the path, found %.100s", call->name,
                           request->model_name);
    if (call->name)
        request->model_name = call->name;
    if (parse_code(fields, "source", !request->model_name, &request->source, error) != 0)
        return -1;
    return parse_code(fields, "target", !request->model_name, &request->target, error);
}

int libre_parse_limits(struct call *call, struct srv_error *error)
{
    return parse_timeout(call, error) != 0 ? -1 : parse_level(call, error);
}

/* In LibreTranslate's order, so that a request with two faults gets the same answer. */
int libre_parse(struct call *call, struct srv_error *error)
{
    if ((call->upload ? texts_parse_file(call, error) : texts_parse(call, "q", error)) != 0 ||
        libre_parse_languages(call, error) != 0)
        return -1;
    if (fields_text(&call->fields, "glossary_id", &call->glossary_ids[0], error) != 0)
        return -1;
    call->n_glossary_ids = call->glossary_ids[0] ? 1 : 0;
    if (parse_alternatives(call, error) != 0 || parse_format(call, error) != 0 ||
        libre_parse_limits(call, error) != 0)
        return -1;
    return parse_flags(call, error);
}

int libre_prepare(struct call *call, struct srv_error *error)
{
    return terms_field_glossary(fields_find(&call->fields, "glossary"), &call->dictionary, error);
}

/* ---- Its words ------------------------------------------------------------------------------- */

static const struct phrase phrases[] = {
    {"key_required", false, "Please contact the server operator to get an API key", 400},
    {"too_many_requests", false, "Slowdown: @t", 0},
    {"invalid_key", false, NULL, 0},
    {"quota_exceeded", false, NULL, 0},
    {"missing_parameter", false, "Invalid request: missing @f parameter", 0},
    {"language_not_supported", true, NULL, 0}, /* see below */
    {"file_format_not_supported", false, "Invalid request: @t", 0},
    {"invalid_json", true, "Invalid JSON format: @t", 0},
    {"invalid_json", false,
     "The browser (or proxy) sent a request that this server could not understand. @t", 0},
    {NULL, true, "Invalid request: @f: @t", 0},
    {"bad_form", false, "Invalid request: @t", 0},
    {"request_too_large", false, "Invalid request: @t", 0},
    {"text_too_long", false, "Invalid request: @t", 0},
    {"too_many_texts", false, "Invalid request: @t", 0},
    {NULL},
};

void libre_phrase(const struct call *call, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;

    phrase_error(phrases, error);
    if (strcmp(error->code, "language_not_supported") == 0 && error->field[0])
        snprintf(error->text, sizeof(error->text), "%.60s is not supported",
                 strcmp(error->field, "source") == 0 ? request->source : request->target);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static const struct dialect dialect = {
    .fields = field_names,
    .key_field = "api_key",
    .prepare = libre_prepare,
    .parse = libre_parse,
    .write = libre_write_reply,
    .write_sentence = libre_write_sentence,
    .phrase = libre_phrase,
};

void api_libre_translate(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &dialect);
}

static json_t *list_targets(const struct pairs *pairs, size_t source)
{
    json_t *targets = json_array();

    for (size_t t = 0; t < pairs->n_targets; t++)
        if (pairs_have(pairs, source, t))
            targets = json_list_append(targets, json_string(pairs->targets[t]));
    return targets;
}

/* Takes `targets`. */
static json_t *append_language(json_t *list, const char *code, json_t *targets)
{
    return json_list_append(list, json_pack("{s:s, s:s, s:o}", "code", code, "name",
                                            languages_name(code), "targets", targets));
}

/* Clients choose targets among the codes, too. */
static json_t *list_languages(const struct models *models)
{
    const struct pairs *pairs = &models->pairs;
    json_t *list = json_array();

    for (size_t i = 0; i < pairs->n_sources; i++)
        list = append_language(list, pairs->sources[i], list_targets(pairs, i));
    for (size_t i = 0; i < pairs->n_targets; i++)
        if (!pairs_have_source(pairs, pairs->targets[i]))
            list = append_language(list, pairs->targets[i], json_array());
    return list;
}

void api_libre_languages(struct server *server, struct http_request *request, const char *rest)
{
    struct models *models = &server->models;
    size_t bytes;
    char *text = models_copy_text(models, &models->languages, list_languages, &bytes);

    (void)rest;
    reply_text(request, text, bytes);
}
