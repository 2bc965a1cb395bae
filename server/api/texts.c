#include "api/texts.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/upload.h"
#include "common/unicode.h"

static int parse_text(struct call *call, const json_t *value, const char *name,
                      struct srv_text *text, struct srv_error *error)
{
    const struct server *server = call->pending.server;
    size_t n_chars;

    if (!json_is_string(value))
        return fields_refuse(error, name, "a string", value);
    text->data = json_string_value(value);
    text->bytes = json_string_length(value);
    n_chars = unicode_chars(text->data, text->bytes);
    if (n_chars > (size_t)server->settings->max_text_chars)
        return error_http(error, 400, "text_too_long", "request (%zu) exceeds text limit (%lld)",
                          n_chars, (long long)server->settings->max_text_chars);
    call->n_characters += (int64_t)n_chars;
    return 0;
}

int texts_parse(struct call *call, const char *field, struct srv_error *error)
{
    const json_t *found = fields_find(&call->fields, field);
    const size_t limit = call->max_texts;
    struct srv_translate *request = &call->request;
    char name[32];

    call->texts_field = field;
    call->is_array = json_is_array(found);
    if (!found || (call->is_array && json_array_size(found) == 0))
        return error_field(error, "missing_parameter", field, "expected a text, found none");
    if (!call->is_array && !json_is_string(found))
        return fields_refuse(error, field, "a string or an array of strings", found);
    request->n_texts = call->is_array ? json_array_size(found) : 1;
    if (request->n_texts > limit)
        return error_http(error, 400, "too_many_texts", "request (%zu) exceeds text limit (%zu)",
                          request->n_texts, limit);
    request->texts = calloc(request->n_texts, sizeof(request->texts[0]));
    if (!request->texts)
        return error_no_memory(error);
    if (!call->is_array)
        return parse_text(call, found, field, &request->texts[0], error);
    for (size_t i = 0; i < request->n_texts; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", field, i);
        if (parse_text(call, json_array_get(found, i), name, &request->texts[i], error))
            return -1;
    }
    return 0;
}

int texts_parse_file(struct call *call, struct srv_error *error)
{
    struct srv_translate *request = &call->request;
    const struct upload *upload = call->upload;

    if (upload->rc != 0) {
        *error = upload->error;
        return -1;
    }
    request->texts = calloc(1, sizeof(request->texts[0]));
    if (!request->texts)
        return error_no_memory(error);
    request->n_texts = 1;
    request->texts[0] = (struct srv_text){upload->text.data, upload->text.bytes};
    request->format = upload->kind->format;
    call->n_characters = (int64_t)upload->n_chars;
    return 0;
}
