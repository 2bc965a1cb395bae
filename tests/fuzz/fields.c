/* The parameters of a request: JSON, a query, an urlencoded or a multipart body.
 *
 * The input is a kind (one byte), a query or the value of Content-Type (a line), and the body. What
 * was read of a form is written again, both ways, and must be read as the same. */
#include "api/fields.h"

#include <stdlib.h>
#include <string.h>

#include "input.h"

struct http_request {
    const char *content_type, *query, *body;
    size_t body_bytes;
};

static const char *const names[] = {"q", "source", "target", "a", "b", "", NULL};

/* ---- What the server has for a request ------------------------------------------------------- */

const char *http_header(const struct http_request *request, const char *name)
{
    return strcmp(name, "Content-Type") == 0 ? request->content_type : NULL;
}

const char *http_method(const struct http_request *request)
{
    return request->body_bytes % 2 ? "POST" : "GET";
}

const char *http_query(const struct http_request *request)
{
    return request->query;
}

const char *http_body(const struct http_request *request, size_t *bytes)
{
    *bytes = request->body_bytes;
    return request->body;
}

/* ---- Reading what was read ------------------------------------------------------------------- */

struct text {
    char *at;
    size_t bytes;
};

static void add(struct text *text, const char *at, size_t bytes)
{
    text->at = realloc(text->at, text->bytes + bytes + 1);
    if (!text->at)
        abort();
    memcpy(text->at + text->bytes, at, bytes);
    text->bytes += bytes;
}

static void add_string(struct text *text, const char *string)
{
    add(text, string, strlen(string));
}

static void add_percents(struct text *text, const char *at, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)at[i];
        const char percent[] = {'%', digits[c >> 4], digits[c & 15]};

        add(text, percent, 3);
    }
}

static struct text urlencode(json_t *object)
{
    struct text text = {NULL, 0};
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        add_string(&text, "&");
        add_percents(&text, key, strlen(key));
        add_string(&text, "=");
        add_percents(&text, json_string_value(value), json_string_length(value));
    }
    return text;
}

static struct text make_multipart(json_t *object)
{
    struct text text = {NULL, 0};
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        add_string(&text, "--BoUnDaRy\r\nContent-Disposition: form-data; name=\"");
        add_string(&text, key);
        add_string(&text, "\"\r\n\r\n");
        add(&text, json_string_value(value), json_string_length(value));
        add_string(&text, "\r\n");
    }
    add_string(&text, "--BoUnDaRy--\r\n");
    return text;
}

static void expect(json_t *object, const struct http_request *request)
{
    struct fields again;
    struct srv_error error;

    if (fields_read(&again, request, names, NULL, &error) != 0 || !json_equal(again.object, object))
        abort();
    fields_fini(&again);
}

/* A boundary is one that no part has in it. */
static bool is_in_a_part(const struct text *parts, const char *boundary, size_t n_parts)
{
    const char *at = parts->at, *end = parts->at + parts->bytes;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), boundary, strlen(boundary)))) {
        at += strlen(boundary);
        n++;
    }
    return n > n_parts + 1;
}

static void check_form(json_t *object)
{
    struct text encoded = urlencode(object), parts = make_multipart(object);
    const struct http_request first = {"application/x-www-form-urlencoded", "", encoded.at,
                                       encoded.bytes},
                              second = {"multipart/form-data; boundary=BoUnDaRy", "", parts.at,
                                        parts.bytes};

    expect(object, &first);
    if (json_object_size(object) > 0 && !is_in_a_part(&parts, "BoUnDaRy", json_object_size(object)))
        expect(object, &second);
    free(encoded.at);
    free(parts.at);
}

/* ---- The target ------------------------------------------------------------------------------ */

static void read_typed(const struct fields *fields)
{
    const char *text = NULL;
    bool flag = false;
    int integer = 0;
    double real = 0;
    struct srv_error error;

    for (size_t i = 0; names[i]; i++) {
        (void)fields_text(fields, names[i], &text, &error);
        (void)fields_flag(fields, names[i], &flag, &error);
        if (fields_int(fields, names[i], -5, 1000, &integer, &error) != 0 && !*error.text)
            abort();
        if (integer < -5 || integer > 1000)
            abort();
        if (fields_real(fields, names[i], -1, 2, &real, &error) == 0 && !(real >= -1 && real <= 2))
            abort();
    }
}

/* What may come several times is an array in a form, of one at least. */
static void check_repeated(const struct http_request *request)
{
    static const char *const repeated[] = {"a", NULL};
    const struct form_shape shape = {.repeated = repeated, .list = "b"};
    struct fields fields;
    struct srv_error error;
    json_t *found;

    if (fields_read(&fields, request, names, &shape, &error) != 0)
        return;
    found = json_object_get(fields.object, "a");
    if (!fields.is_json && found && !json_array_size(found))
        abort();
    fields_fini(&fields);
}

/* A file is what came, byte by byte, and its name is a text. */
static void check_file(const struct http_request *request)
{
    struct fields fields;
    struct srv_error error;

    if (fields_read(&fields, request, names, &(struct form_shape){.file = "b"}, &error) != 0)
        return;
    if (fields.file.name && !fields.file.data)
        abort();
    if (fields.file.data && strncmp(request->content_type, "multipart", 9) == 0 &&
        !memmem(request->query, strlen(request->query), "b=", 2) && fields.file.bytes > 0 &&
        !memmem(request->body, request->body_bytes, fields.file.data, fields.file.bytes))
        abort();
    if (json_object_get(fields.object, "b") && !fields.is_json)
        abort();
    fields_fini(&fields);
}

static void check(const struct http_request *request)
{
    struct fields fields;
    struct srv_error error;

    if (fields_read(&fields, request, names, NULL, &error) != 0) {
        if (fields.object || error.status < 400 || !error.text[0])
            abort();
        return;
    }
    read_typed(&fields);
    if (!fields.is_json)
        check_form(fields.object);
    fields_fini(&fields);
    check_repeated(request);
    check_file(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {"application/json", "application/x-www-form-urlencoded",
                                        "multipart/form-data; boundary=x",
                                        "multipart/form-data; boundary=-----", NULL};
    struct http_request request = {.query = ""};
    const uint8_t *end;
    char *line, *body;

    if (size < 2 || !(end = memchr(data + 1, '\n', size - 1)))
        return 0;
    line = strndup((const char *)data + 1, (size_t)(end - data) - 1);
    request.body_bytes = size - (size_t)(end + 1 - data);
    body = malloc(request.body_bytes); /* of its own, so that reading beyond it is seen */
    if (!line || (request.body_bytes > 0 && !body))
        abort();
    memcpy(body, end + 1, request.body_bytes);
    request.body = body;
    request.content_type = types[data[0] % 5];
    if (!request.content_type)
        request.content_type = line;
    else
        request.query = line;
    check(&request);
    free(line);
    free(body);
    return 0;
}
