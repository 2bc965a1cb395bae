/* Happy path: fields_read(): a JSON body is parsed, any other request becomes an object of strings
 * -> what the dialect does not read is dropped -> typed readers take the rest.
 *
 * Failure modes: a body that is neither (where, for JSON, by line and column), too many fields; a
 * value of another type or out of range: the error names the field, expected and found. */
#include "api/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/options.h" /* one meaning of "a number" everywhere */
#include "common/unicode.h"

/* ---- Forms ----------------------------------------------------------------------------------- */

static bool says(const char *content_type, const char *type)
{
    size_t n = strcspn(content_type, "; \t");

    return n == strlen(type) && strncasecmp(content_type, type, n) == 0;
}

/* A body of any other type is none of a form's. NULL, or what is wrong. */
static const char *read_form_body(struct form *form, const struct http_request *request)
{
    const char *content_type = http_header(request, "Content-Type");
    size_t bytes;
    const char *body = http_body(request, &bytes);

    if (bytes == 0 || !content_type)
        return NULL;
    if (says(content_type, "application/x-www-form-urlencoded"))
        form_add_urlencoded(form, body, bytes);
    else if (says(content_type, "multipart/form-data"))
        return form_add_multipart(form, content_type, body, bytes);
    return NULL;
}

static size_t crlf_to_lf(char *text, size_t bytes)
{
    size_t out = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n')
            continue;
        text[out++] = text[i] == '\r' ? '\n' : text[i];
    }
    text[out] = '\0';
    return out;
}

/* An array that is there, or a new one; NULL: no memory. */
static json_t *array_in(json_t *object, const char *key)
{
    json_t *list = json_object_get(object, key);

    if (json_is_array(list))
        return list;
    return json_object_set_new(object, key, json_array()) == 0 ? json_object_get(object, key)
                                                               : NULL;
}

/* Objects before it that have no member are empty. */
static json_t *object_in(json_t *list, size_t i)
{
    while (list && json_array_size(list) <= i)
        if (json_array_append_new(list, json_object()) != 0)
            return NULL;
    return json_array_get(list, i);
}

/* Takes `value`. */
static int set_value(json_t *object, const struct form_shape *shape, const char *key, json_t *value)
{
    size_t i;
    const char *member = form_member(shape, key, &i);

    if (form_is_repeated(shape, key))
        return json_array_append_new(array_in(object, key), value);
    if (!member)
        return json_object_set_new(object, key, value);
    return json_object_set_new(object_in(array_in(object, shape->list), i), member, value);
}

/* Not a text: its bytes stay as they are. */
static void take_file(struct fields *fields, struct form *form, struct form_entry *e)
{
    fields->file.data = e->value;
    fields->file.bytes = e->value_bytes;
    fields->file.name = form->file_name;
    e->value = NULL;
    form->file_name = NULL;
}

static int form_to_object(struct fields *fields, struct form *form, struct srv_error *error)
{
    json_t *object = fields->object;

    for (size_t i = 0; i < form->n_entries; i++) {
        struct form_entry *e = &form->entries[i];
        size_t bytes;

        if (form->shape.file && strcmp(e->key, form->shape.file) == 0) {
            take_file(fields, form, e);
            continue;
        }
        bytes = form_is_repeated(&form->shape, e->key) ? e->value_bytes
                                                       : crlf_to_lf(e->value, e->value_bytes);
        unicode_scrub(e->key);
        if (unicode_valid_bytes(e->value, bytes) != bytes || memchr(e->value, '\0', bytes))
            return error_field(error, "invalid_parameter", e->key,
                               "expected UTF-8 text, found other bytes");
        if (set_value(object, &form->shape, e->key, json_stringn(e->value, bytes)) != 0)
            return error_from_engine(error, ACRE_ENOMEM, NULL);
    }
    return 0;
}

static int read_form(struct fields *fields, const struct http_request *request,
                     const struct form_shape *shape, struct srv_error *error)
{
    struct form form = {.n_entries = 0};
    const char *query = http_query(request), *wrong;
    int rc;

    if (shape)
        form.shape = *shape;
    form_add_urlencoded(&form, query, strlen(query));
    wrong = read_form_body(&form, request);
    fields->object = json_object();
    if (form.no_memory || !fields->object)
        rc = error_from_engine(error, ACRE_ENOMEM, NULL);
    else if (form.has_too_many)
        rc = error_http(error, 400, "bad_form", "expected at most %d different fields, found more",
                        FORM_MAX_KEYS);
    else if (wrong)
        rc = error_http(error, 400, "bad_form", "%s", wrong);
    else
        rc = form_to_object(fields, &form, error);
    form_fini(&form);
    if (rc != 0)
        fields_fini(fields);
    return rc;
}

/* A value, for people. */
static void describe(const json_t *value, char *text, size_t text_bytes)
{
    char *dump;

    if (json_is_object(value) || json_is_array(value)) {
        snprintf(text, text_bytes, "%s", json_is_object(value) ? "an object" : "an array");
        return;
    }
    if (json_is_string(value)) {
        snprintf(text, text_bytes, "\"%.60s\"", json_string_value(value));
        return;
    }
    dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    snprintf(text, text_bytes, "%s", dump ? dump : "something else");
    free(dump);
}

static int read_json(struct fields *fields, const struct http_request *request,
                     struct srv_error *error)
{
    size_t bytes;
    const char *body = http_body(request, &bytes);
    json_error_t why;
    char found[128];

    fields->object = json_loadb(body, bytes, JSON_DECODE_ANY, &why);
    /* An integer beyond 64 bits: once more, with all integers as doubles. */
    if (!fields->object && json_error_code(&why) == json_error_numeric_overflow)
        fields->object = json_loadb(body, bytes, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &why);
    if (!fields->object && json_error_code(&why) == json_error_out_of_memory)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    if (!fields->object) /* columns are characters */
        return error_http(error, 400, "invalid_json", "JSON, line %d, column %d: %s", why.line,
                          why.column, why.text);
    if (json_is_object(fields->object))
        return 0;
    describe(fields->object, found, sizeof(found));
    fields_fini(fields);
    return error_field(error, "invalid_json", "body", "expected an object, found %s", found);
}

/* application/json or anything+json, with or without parameters. */
static bool says_json(const char *content_type)
{
    size_t n = content_type ? strcspn(content_type, "; \t") : 0;

    return (n == 16 && strncasecmp(content_type, "application/json", n) == 0) ||
           (n > 5 && strncasecmp(content_type + n - 5, "+json", 5) == 0);
}

/* Many clients put the type on every request, some a body, too: where by its method a request has
 * none, what its query says counts. */
static bool is_json(const struct http_request *request)
{
    const char *method = http_method(request);
    const bool has_none =
        strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "DELETE") == 0;
    size_t bytes;

    http_body(request, &bytes);
    return says_json(http_header(request, "Content-Type")) &&
           (!has_none || (bytes > 0 && !http_query(request)[0]));
}

/* What nobody reads is not kept: a body of many small values takes fifty times its size. */
void fields_drop_unknown(json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(object, next, key, value)
    {
        const char *const *name = names;

        while (*name && strcmp(*name, key) != 0)
            name++;
        if (!*name)
            json_object_del(object, key);
    }
}

/* jansson reads no tree that is deeper than 2,048. */
static size_t bytes_of(const json_t *value)
{
    size_t bytes = sizeof(json_t), i;
    const char *key;
    json_t *each;

    if (json_is_string(value))
        bytes += json_string_length(value);
    json_array_foreach((json_t *)value, i, each) bytes += bytes_of(each);
    json_object_foreach((json_t *)value, key, each) bytes += strlen(key) + bytes_of(each);
    return bytes;
}

static void flatten_list(json_t *list, size_t most)
{
    const size_t n = json_array_size(list);

    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);

        if (i >= most)
            json_array_set(list, i, json_null());
        else if (json_is_array(item))
            json_array_set_new(list, i, json_array());
        else if (json_is_object(item))
            json_array_set_new(list, i, json_object());
    }
}

static void count_held(struct fields *fields)
{
    fields->held_bytes = bytes_of(fields->object) + fields->file.bytes;
}

void fields_flatten(struct fields *fields, size_t most)
{
    const char *key;
    json_t *value;

    json_object_foreach(fields->object, key, value)
    {
        if (json_is_object(value))
            json_object_clear(value);
        else if (json_is_array(value))
            flatten_list(value, most);
    }
    count_held(fields);
}

int fields_read(struct fields *fields, const struct http_request *request, const char *const *names,
                const struct form_shape *shape, struct srv_error *error)
{
    int rc;

    *fields = (struct fields){.is_json = is_json(request)};
    rc = fields->is_json ? read_json(fields, request, error)
                         : read_form(fields, request, shape, error);
    if (rc != 0)
        return rc;
    fields_drop_unknown(fields->object, names);
    count_held(fields);
    return 0;
}

void fields_fini(struct fields *fields)
{
    json_decref(fields->object);
    free(fields->file.data);
    free(fields->file.name);
    *fields = (struct fields){.object = NULL};
}

/* ---- Typed fields ---------------------------------------------------------------------------- */

json_t *fields_find(const struct fields *fields, const char *name)
{
    json_t *value = json_object_get(fields->object, name);

    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ? NULL
                                                                                            : value;
}

int fields_refuse(struct srv_error *error, const char *name, const char *expected,
                  const json_t *found)
{
    char text[128];

    describe(found, text, sizeof(text));
    return error_field(error, "invalid_parameter", name, "expected %s, found %s", expected, text);
}

int fields_text(const struct fields *fields, const char *name, const char **value,
                struct srv_error *error)
{
    const json_t *found = fields_find(fields, name);

    if (!found)
        return 0;
    if (!json_is_string(found))
        return fields_refuse(error, name, "a string", found);
    *value = json_string_value(found);
    return 0;
}

/* In JSON 1.0 is an integer, too; who asks for one looks. A form has no numbers: their digits are
 * read by the rules of the options. */
static bool number_of(const struct fields *fields, const json_t *found, enum option_type type,
                      double *value)
{
    if (json_is_number(found)) {
        *value = json_number_value(found);
        return true;
    }
    return !fields->is_json && json_is_string(found) &&
           options_number(json_string_value(found), type, value);
}

int fields_required(const struct fields *fields, const char *name, const char **value,
                    struct srv_error *error)
{
    *value = NULL;
    if (fields_text(fields, name, value, error) != 0)
        return -1;
    return *value ? 0
                  : error_field(error, "missing_parameter", name, "expected a value, found none");
}

int fields_int(const struct fields *fields, const char *name, int64_t min, int64_t max, int *value,
               struct srv_error *error)
{
    const json_t *found = fields_find(fields, name);
    char expected[80];
    double number;

    if (!found)
        return 0;
    snprintf(expected, sizeof(expected), "an integer from %lld to %lld", (long long)min,
             (long long)max);
    if (!number_of(fields, found, OPTION_INT, &number) || number < (double)min ||
        number > (double)max || number != (double)(int64_t)number)
        return fields_refuse(error, name, expected, found);
    *value = (int)number;
    return 0;
}

int fields_real(const struct fields *fields, const char *name, double min, double max,
                double *value, struct srv_error *error)
{
    const json_t *found = fields_find(fields, name);
    char expected[80];
    double number;

    if (!found)
        return 0;
    snprintf(expected, sizeof(expected), "a number from %g to %g", min, max);
    if (!number_of(fields, found, OPTION_REAL, &number) || !(number >= min && number <= max))
        return fields_refuse(error, name, expected, found);
    *value = number;
    return 0;
}

int fields_decoding(const struct fields *fields, const struct acre_decoding *most,
                    struct decoding_wish *wish, struct srv_error *error)
{
    int value;

#define READ_INT(name, least, greatest, help)                                                      \
    value = DECODING_UNSET;                                                                        \
    if (fields_int(fields, #name, least, most->name, &value, error) != 0)                          \
        return -1;                                                                                 \
    if (value != DECODING_UNSET)                                                                   \
        wish->name = value;
#define READ_REAL(name, least, greatest, help)                                                     \
    if (fields_real(fields, #name, least, (double)most->name, &wish->name, error) != 0)            \
        return -1;
    ACRE_DECODING_OPTIONS(READ_INT, READ_REAL)
    return 0;
}

int fields_flag(const struct fields *fields, const char *name, bool *value, struct srv_error *error)
{
    const json_t *found = fields_find(fields, name);
    const char *text;

    if (!found)
        return 0;
    text = fields->is_json ? NULL : json_string_value(found);
    if (json_is_true(found) || (text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)))
        *value = true;
    else if (json_is_false(found) ||
             (text && (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)))
        *value = false;
    else
        return fields_refuse(error, name, "true or false", found);
    return 0;
}
