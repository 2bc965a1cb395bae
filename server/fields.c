#include "fields.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "options.h" /* one meaning of "a number" everywhere */
#include "unicode.h"

enum { MAX_FORM_KEYS = 64, FORM_BUFFER_BYTES = 65536 };

/* A form while it is read: the values so far. */
struct form {
    struct form_entry {
        char *key, *value; /* owned */
        size_t bytes;
    } entries[MAX_FORM_KEYS];
    size_t n_entries;
    struct form_entry *open; /* the body's value being read; NULL: it is dropped */
    bool no_memory;
};

static struct form_entry *find_entry(struct form *form, const char *key)
{
    for (size_t i = 0; i < form->n_entries; i++)
        if (strcmp(form->entries[i].key, key) == 0)
            return &form->entries[i];
    return NULL;
}

/* NULL if there are too many keys, or no memory. */
static struct form_entry *add_entry(struct form *form, const char *key)
{
    struct form_entry *entry = &form->entries[form->n_entries];

    if (form->n_entries == MAX_FORM_KEYS)
        return NULL;
    entry->bytes = 0;
    entry->key = strdup(key);
    entry->value = strdup("");
    if (!entry->key || !entry->value) {
        free(entry->key);
        free(entry->value);
        form->no_memory = true;
        return NULL;
    }
    form->n_entries++;
    return entry;
}

static void append(struct form *form, struct form_entry *entry, const char *data, size_t bytes)
{
    char *grown = realloc(entry->value, entry->bytes + bytes + 1);

    if (!grown) {
        form->no_memory = true;
        return;
    }
    memcpy(grown + entry->bytes, data, bytes);
    entry->bytes += bytes;
    grown[entry->bytes] = '\0';
    entry->value = grown;
}

static enum MHD_Result on_query(void *user, enum MHD_ValueKind kind, const char *key,
                                size_t key_bytes, const char *value, size_t value_bytes)
{
    struct form *form = user;
    struct form_entry *entry;

    (void)kind;
    (void)key_bytes;
    if (find_entry(form, key))
        return MHD_YES;
    entry = add_entry(form, key);
    if (entry && value)
        append(form, entry, value, value_bytes);
    return MHD_YES;
}

/* `offset` 0 starts a value, whose pieces follow each other. */
static enum MHD_Result on_form(void *user, enum MHD_ValueKind kind, const char *key,
                               const char *filename, const char *content_type,
                               const char *transfer_encoding, const char *data, uint64_t offset,
                               size_t bytes)
{
    struct form *form = user;

    (void)kind;
    (void)filename;
    (void)content_type;
    (void)transfer_encoding;
    if (offset == 0)
        form->open = key && !find_entry(form, key) ? add_entry(form, key) : NULL;
    if (form->open && bytes)
        append(form, form->open, data, bytes);
    return MHD_YES;
}

/* The type whose parser is refused for want of memory only; a multipart body may lack a boundary.
 */
static bool says_urlencoded(const char *content_type)
{
    static const char type[] = MHD_HTTP_POST_ENCODING_FORM_URLENCODED;

    return content_type && strncasecmp(content_type, type, sizeof(type) - 1) == 0;
}

static void read_form_body(struct form *form, struct http_request *request)
{
    struct MHD_PostProcessor *processor;
    size_t bytes;
    const char *body = http_body(request, &bytes);

    if (bytes == 0)
        return;
    processor =
        MHD_create_post_processor(http_connection(request), FORM_BUFFER_BYTES, on_form, form);
    if (!processor) {
        form->no_memory = says_urlencoded(http_header(request, MHD_HTTP_HEADER_CONTENT_TYPE));
        return;
    }
    MHD_post_process(processor, body, bytes);
    MHD_destroy_post_processor(processor);
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

static int form_to_object(struct form *form, json_t *object, struct srv_error *error)
{
    for (size_t i = 0; i < form->n_entries; i++) {
        struct form_entry *e = &form->entries[i];
        size_t bytes = crlf_to_lf(e->value, e->bytes);

        unicode_scrub(e->key);
        if (unicode_valid_bytes(e->value, bytes) != bytes || memchr(e->value, '\0', bytes))
            return error_reply(error, 400, "invalid_parameter",
                               "Invalid request: %.40s: expected UTF-8 text, found other bytes",
                               e->key);
        if (json_object_set_new(object, e->key, json_stringn(e->value, bytes)) != 0)
            return error_from_engine(error, ACRE_ENOMEM, NULL);
    }
    return 0;
}

static int read_form(struct fields *fields, struct http_request *request, struct srv_error *error)
{
    struct form form = {.n_entries = 0};
    int rc;

    MHD_get_connection_values_n(http_connection(request), MHD_GET_ARGUMENT_KIND, on_query, &form);
    read_form_body(&form, request);
    fields->object = json_object();
    if (form.no_memory || !fields->object)
        rc = error_from_engine(error, ACRE_ENOMEM, NULL);
    else
        rc = form_to_object(&form, fields->object, error);
    for (size_t i = 0; i < form.n_entries; i++) {
        free(form.entries[i].key);
        free(form.entries[i].value);
    }
    if (rc != 0)
        fields_fini(fields);
    return rc;
}

static int read_json(struct fields *fields, struct http_request *request, struct srv_error *error)
{
    size_t bytes;
    const char *body = http_body(request, &bytes);
    json_error_t why;

    fields->object = json_loadb(body, bytes, JSON_DECODE_ANY, &why);
    if (!fields->object && json_error_code(&why) == json_error_out_of_memory)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    if (!fields->object)
        return error_reply(
            error, 400, "invalid_json",
            "The browser (or proxy) sent a request that this server could not understand.");
    if (json_is_object(fields->object))
        return 0;
    fields_fini(fields);
    return error_reply(error, 400, "invalid_json", "Invalid JSON format");
}

/* application/json or anything+json, with or without parameters. */
static bool says_json(const char *content_type)
{
    size_t n = content_type ? strcspn(content_type, "; \t") : 0;

    return (n == 16 && strncasecmp(content_type, "application/json", n) == 0) ||
           (n > 5 && strncasecmp(content_type + n - 5, "+json", 5) == 0);
}

int fields_read(struct fields *fields, struct http_request *request, struct srv_error *error)
{
    fields->object = NULL;
    fields->is_json = says_json(http_header(request, MHD_HTTP_HEADER_CONTENT_TYPE));
    return fields->is_json ? read_json(fields, request, error) : read_form(fields, request, error);
}

void fields_fini(struct fields *fields)
{
    json_decref(fields->object);
    fields->object = NULL;
}

/* ---- Typed fields ---------------------------------------------------------------------------- */

json_t *fields_find(const struct fields *fields, const char *name)
{
    json_t *value = json_object_get(fields->object, name);

    return json_is_null(value) ? NULL : value;
}

static void describe(const json_t *value, char *text, size_t text_bytes)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        snprintf(text, text_bytes, "an object");
        break;
    case JSON_ARRAY:
        snprintf(text, text_bytes, "an array");
        break;
    case JSON_STRING:
        snprintf(text, text_bytes, "\"%.60s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(text, text_bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(text, text_bytes, "%g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(text, text_bytes, "%s", json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        snprintf(text, text_bytes, "null");
        break;
    }
}

int fields_refuse(struct srv_error *error, const char *name, const char *expected,
                  const json_t *found)
{
    char text[128];

    describe(found, text, sizeof(text));
    return error_reply(error, 400, "invalid_parameter",
                       "Invalid request: %s: expected %s, found %s", name, expected, text);
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

/* A form has no numbers: their digits are read by the rules of the options. */
static bool number_of(const struct fields *fields, const json_t *found, enum option_type type,
                      double *value)
{
    const struct option any = {.key = "", .type = OPTION_REAL, .min = -1e18, .max = 1e18};

    if (type == OPTION_INT ? json_is_integer(found) : json_is_number(found)) {
        *value = json_number_value(found);
        return true;
    }
    return !fields->is_json && json_is_string(found) &&
           options_set(&any, value, json_string_value(found), NULL) == 0;
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
