/* GET and POST /attention: the areas of the source that each token of a translation attended to, of
 * every layer and head. They are computed in another pass, token by token, on one thread: so texts
 * are short, one is computed at a time (call.h), and few may wait. */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/libre.h"
#include "api/routes.h"
#include "api/texts.h"
#include "common/json.h"
#include "common/unicode.h"
#include "attention/json.h"

enum { MAX_CHARS = 500 };

static const char *const field_names[] = {"text",  "source",     "target",  "level",
                                          "model", "timeout_ms", "api_key", NULL};

static int parse_text(struct call *call, struct srv_error *error)
{
    const json_t *found = fields_find(&call->fields, "text");
    size_t n_chars;

    if (found && !json_is_string(found))
        return fields_refuse(error, "text", "a string", found);
    if (texts_parse(call, "text", error) != 0)
        return -1;
    n_chars = unicode_chars(call->request.texts[0].data, call->request.texts[0].bytes);
    if (n_chars > MAX_CHARS)
        return error_field(error, "text_too_long", "text",
                           "expected at most %d characters, found %zu", MAX_CHARS, n_chars);
    return 0;
}

static int parse(struct call *call, struct srv_error *error)
{
    const struct acre_err busy = {.text = "too many requests for attention are waiting"};

    if (parse_text(call, error) != 0 || libre_parse_languages(call, error) != 0 ||
        libre_parse_limits(call, error) != 0)
        return -1;
    if (!call_take_slot(call))
        return error_from_engine(error, ACRE_EBUSY, &busy);
    call->request.is_raw = true;
    return 0;
}

static bool put_sentence(const struct call *call, const struct acre_job *job, size_t i, FILE *out,
                         struct acre_err *err)
{
    struct acre_attention *attention;
    bool is_whole;

    if (atomic_load(&call->pending.is_given_up) ||
        acre_attention_open(job, i, ATTENTION_JSON_LEAST, &attention, err) != 0)
        return false;
    if (i > 0)
        putc(',', out);
    is_whole = attention_json_write(attention, out);
    acre_attention_close(attention);
    return is_whole;
}

static bool write_reply(const struct call *call, FILE *out, struct acre_err *err)
{
    const struct acre_job *job = translate_job(call->translate, 0);
    const struct acre_result *result = translate_result(call->translate, 0);
    const char *text = translate_text(call->translate, 0, 0);
    struct json_object body;

    json_object_begin(&body, out);
    json_object_key(&body, "attention");
    putc('[', out);
    for (size_t i = 0; result && i < result->n_sentences; i++)
        if (!put_sentence(call, job, i, out, err))
            return false;
    putc(']', out);
    if (call->is_detected)
        json_object_member(&body, "detectedLanguage",
                           json_pack("{s:i, s:s}", "confidence", call->found->confidence,
                                     "language", call->found->code));
    json_object_member(&body, "translatedText",
                       json_string(text ? text : call->request.texts[0].data));
    return json_object_end(&body);
}

static const struct dialect dialect = {
    .fields = field_names,
    .key_field = "api_key",
    .parse = parse,
    .write = write_reply,
    .is_heavy = true,
    .phrase = libre_phrase,
};

void api_attention(struct server *server, struct http_request *request, const char *rest)
{
    (void)rest;
    call_start(server, request, NULL, &dialect);
}
