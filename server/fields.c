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
    struct form_entry *open; /* the part being read; NULL: it is dropped */
    bool has_parts;          /* multipart only */
    bool has_too_many;
    bool no_memory;
};

static struct form_entry *find_entry(struct form *form, const char *key)
{
    for (size_t i = 0; i < form->n_entries; i++)
        if (strcmp(form->entries[i].key, key) == 0)
            return &form->entries[i];
    return NULL;
}

/* A new value, or NULL where it is to be dropped: the key is there already, or there is no room. */
static struct form_entry *add_entry(struct form *form, const char *key)
{
    struct form_entry *entry = &form->entries[form->n_entries];

    if (find_entry(form, key))
        return NULL;
    if (form->n_entries == MAX_FORM_KEYS) {
        form->has_too_many = true;
        return NULL;
    }
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

/* A key with a NUL byte is none that anybody asks for. */
static void add_pair(struct form *form, const char *key, size_t key_bytes, const char *value,
                     size_t value_bytes)
{
    struct form_entry *entry = strlen(key) == key_bytes ? add_entry(form, key) : NULL;

    if (entry)
        append(form, entry, value, value_bytes);
}

static enum MHD_Result on_query(void *user, enum MHD_ValueKind kind, const char *key,
                                size_t key_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    add_pair(user, key, key_bytes, value ? value : "", value_bytes);
    return MHD_YES;
}

/* ---- Urlencoded bodies ----------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place: "+" is a blank, "%XX" a byte, anything else itself. Returns the length, terminated. */
static size_t decode_percent(char *text, size_t bytes)
{
    size_t out = 0;

    for (size_t i = 0; i < bytes; i++) {
        int high = text[i] == '%' && i + 2 < bytes ? hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

        if (low >= 0)
            i += 2;
        text[out++] = low >= 0 ? (char)(high << 4 | low) : text[i] == '+' ? ' ' : text[i];
    }
    text[out] = '\0';
    return out;
}

/* libmicrohttpd's post-processor ends a value at a newline and at a second "="; Flask does not. */
static void read_urlencoded(struct form *form, const char *body, size_t bytes)
{
    char *copy = malloc(bytes + 1), *next;

    if (!copy) {
        form->no_memory = true;
        return;
    }
    memcpy(copy, body, bytes);
    copy[bytes] = '&';
    for (char *key = copy; key <= copy + bytes && !form->has_too_many; key = next) {
        char *end = memchr(key, '&', (size_t)(copy + bytes + 1 - key));
        char *value = memchr(key, '=', (size_t)(end - key));
        size_t key_bytes = (size_t)((value ? value : end) - key);
        size_t value_bytes = value ? (size_t)(end - value - 1) : 0;

        next = end + 1;
        if (next == key + 1)
            continue;
        value = value ? value + 1 : end;
        value_bytes = decode_percent(value, value_bytes);
        add_pair(form, key, decode_percent(key, key_bytes), value, value_bytes);
    }
    free(copy);
}

/* ---- Multipart bodies ------------------------------------------------------------------------ */

/* `offset` 0 starts a value, whose pieces follow each other. */
static enum MHD_Result on_part(void *user, enum MHD_ValueKind kind, const char *key,
                               const char *filename, const char *content_type,
                               const char *transfer_encoding, const char *data, uint64_t offset,
                               size_t bytes)
{
    struct form *form = user;

    (void)kind;
    (void)filename;
    (void)content_type;
    (void)transfer_encoding;
    if (!key)
        return MHD_NO;
    form->has_parts = true;
    if (offset == 0)
        form->open = add_entry(form, key);
    if (form->open && bytes)
        append(form, form->open, data, bytes);
    return MHD_YES;
}

/* NULL, or what is wrong. libmicrohttpd knows a boundary only where it stands last, spelled in
 * small letters, and is no shorter than two characters. */
static const char *read_multipart(struct form *form, struct http_request *request,
                                  const char *content_type, const char *body, size_t bytes)
{
    const char *boundary = strstr(content_type, "boundary=");
    struct MHD_PostProcessor *processor = NULL;
    bool is_good;

    if (boundary && !strpbrk(boundary, ";, \t"))
        processor =
            MHD_create_post_processor(http_connection(request), FORM_BUFFER_BYTES, on_part, form);
    if (!processor) /* or without memory, which it does not tell */
        return "Content-Type: expected multipart/form-data; boundary=TEXT, of two characters or "
               "more and nothing after it, found something else";
    is_good = MHD_post_process(processor, body, bytes) == MHD_YES;
    is_good = MHD_destroy_post_processor(processor) == MHD_YES && is_good; /* NO: unfinished */
    if (!is_good || !form->has_parts)
        return "multipart/form-data: expected parts that have names and end with the boundary, "
               "found something else";
    return NULL;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static bool says(const char *content_type, const char *type)
{
    size_t n = strcspn(content_type, "; \t");

    return n == strlen(type) && strncasecmp(content_type, type, n) == 0;
}

/* A body of any other type is none of a form's. NULL, or what is wrong. */
static const char *read_form_body(struct form *form, struct http_request *request)
{
    const char *content_type = http_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    size_t bytes;
    const char *body = http_body(request, &bytes);

    if (bytes == 0 || !content_type)
        return NULL;
    if (says(content_type, MHD_HTTP_POST_ENCODING_FORM_URLENCODED))
        read_urlencoded(form, body, bytes);
    else if (says(content_type, MHD_HTTP_POST_ENCODING_MULTIPART_FORMDATA))
        return read_multipart(form, request, content_type, body, bytes);
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
    const char *wrong;
    int rc;

    MHD_get_connection_values_n(http_connection(request), MHD_GET_ARGUMENT_KIND, on_query, &form);
    wrong = read_form_body(&form, request);
    fields->object = json_object();
    if (form.no_memory || !fields->object)
        rc = error_from_engine(error, ACRE_ENOMEM, NULL);
    else if (form.has_too_many)
        rc = error_reply(error, 400, "bad_form",
                         "Invalid request: expected at most %d different fields, found more",
                         MAX_FORM_KEYS);
    else if (wrong)
        rc = error_reply(error, 400, "bad_form", "Invalid request: %s", wrong);
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

    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ? NULL
                                                                                            : value;
}

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
    if (type == OPTION_INT ? json_is_integer(found) : json_is_number(found)) {
        *value = json_number_value(found);
        return true;
    }
    return !fields->is_json && json_is_string(found) &&
           options_number(json_string_value(found), type, value);
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
