/* Happy path: each pair or part is cut out, decoded, and added. Failure modes: too many keys or
 * values, or no memory: a flag is set and the rest is left out; a multipart body that is not one is
 * told apart from a form without fields. */
#include "api/form.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/percent.h"

void form_fini(struct form *form)
{
    for (size_t i = 0; i < form->n_entries; i++) {
        free(form->entries[i].key);
        free(form->entries[i].value);
    }
    free(form->file_name);
    form->file_name = NULL;
    form->n_entries = 0;
}

static char *copy(const char *text, size_t bytes)
{
    char *out = malloc(bytes + 1);

    if (out) {
        memcpy(out, text, bytes);
        out[bytes] = '\0';
    }
    return out;
}

static bool has_key(const struct form *form, const char *key)
{
    for (size_t i = 0; i < form->n_entries; i++)
        if (strcmp(form->entries[i].key, key) == 0)
            return true;
    return false;
}

bool form_is_repeated(const struct form_shape *shape, const char *key)
{
    const char *const *each = shape->repeated;

    while (each && *each && strcmp(*each, key) != 0)
        each++;
    return each && *each;
}

const char *form_member(const struct form_shape *shape, const char *key, size_t *object)
{
    const size_t n = shape->list ? strlen(shape->list) : 0;
    unsigned long number;
    char *end;

    if (n == 0 || strncmp(key, shape->list, n) != 0 || key[n] != '[')
        return NULL;
    key += n + 1;
    number = strtoul(key, &end, 10);
    if (*key < '0' || *key > '9' || strncmp(end, "].", 2) != 0)
        return NULL;
    *object = number < FORM_MAX_VALUES ? number : FORM_MAX_VALUES;
    return end + 2;
}

/* A key with a NUL byte is none that anybody asks for. */
static bool is_wanted(const struct form *form, const char *key, size_t key_bytes, bool *is_new)
{
    const bool is_repeated = form_is_repeated(&form->shape, key);
    size_t object;

    *is_new = !is_repeated && !form_member(&form->shape, key, &object);
    return strlen(key) == key_bytes && (is_repeated || !has_key(form, key));
}

/* Takes both; NULL is no memory. may_add() said that there is an entry for them. NULL if they are
 * not wanted, else the entry. */
static const struct form_entry *add(struct form *form, char *key, size_t key_bytes, char *value,
                                    size_t value_bytes)
{
    struct form_entry *entry = &form->entries[form->n_entries];
    bool is_new;

    if (!key || !value) {
        form->no_memory = true;
    } else if (is_wanted(form, key, key_bytes, &is_new)) {
        if (form->n_keys + is_new <= FORM_MAX_KEYS) {
            *entry = (struct form_entry){key, value, value_bytes};
            form->n_entries++;
            form->n_keys += is_new;
            return entry;
        }
        form->has_too_many = true;
    }
    free(key);
    free(value);
    return NULL;
}

/* Whether one more value may be added. */
static bool may_add(struct form *form)
{
    if (++form->n_values > FORM_MAX_VALUES)
        form->has_too_many = true;
    return !form->has_too_many && !form->no_memory;
}

/* ---- Urlencoded ------------------------------------------------------------------------------ */

/* A copy in which "%XX" is a byte, and "+" what `plus` says. */
static char *decode(const char *text, size_t bytes, char plus, size_t *out_bytes)
{
    char *out = malloc(bytes + 1);

    *out_bytes = 0;
    for (size_t i = 0; out && i < bytes; i++) {
        const int byte = percent_byte(text + i, bytes - i);

        out[(*out_bytes)++] = byte >= 0 ? (char)byte : text[i] == '+' ? plus : text[i];
        i += byte >= 0 ? 2 : 0;
    }
    if (out)
        out[*out_bytes] = '\0';
    return out;
}

static void add_pair(struct form *form, const char *pair, size_t bytes)
{
    const char *equals = memchr(pair, '=', bytes);
    const size_t key_bytes = equals ? (size_t)(equals - pair) : bytes;
    size_t decoded_key, decoded_value = 0;
    char *key = decode(pair, key_bytes, ' ', &decoded_key);
    char *value =
        equals ? decode(equals + 1, bytes - key_bytes - 1, ' ', &decoded_value) : copy("", 0);

    add(form, key, decoded_key, value, decoded_value);
}

void form_add_urlencoded(struct form *form, const char *text, size_t bytes)
{
    const char *end = text + bytes, *next;

    for (const char *pair = text; pair < end; pair = next + 1) {
        next = memchr(pair, '&', (size_t)(end - pair));
        next = next ? next : end;
        if (next == pair)
            continue;
        if (!may_add(form))
            return;
        add_pair(form, pair, (size_t)(next - pair));
    }
}

/* ---- Multipart ------------------------------------------------------------------------------- */

/* The value of a parameter of a header, e.g. of "; name=x" or "; NAME=\"x y\"", in which a
 * backslash takes the next character as it is. NULL if there is none; else owned. */
static char *find_parameter(const char *header, size_t bytes, const char *name, size_t *out_bytes)
{
    const size_t name_bytes = strlen(name);
    const char *at = memchr(header, ';', bytes), *end = header + bytes;

    while (at) {
        bool is_it, is_quoted;
        char *value, *out;

        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        is_it = (size_t)(end - at) > name_bytes && strncasecmp(at, name, name_bytes) == 0 &&
                at[name_bytes] == '=';
        while (at < end && *at != '=' && *at != ';')
            at++;
        if (at < end && *at == '=')
            at++;
        is_quoted = at < end && *at == '"';
        at += is_quoted;
        value = out = is_it ? malloc((size_t)(end - at) + 1) : NULL;
        while (at < end && *at != (is_quoted ? '"' : ';')) {
            if (is_quoted && *at == '\\' && at + 1 < end)
                at++;
            if (out)
                *out++ = *at;
            at++;
        }
        if (value) {
            *out = '\0';
            *out_bytes = (size_t)(out - value);
            return value;
        }
        at = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
    }
    return NULL;
}

/* A part's headers: "Content-Disposition: form-data; name=..." among them. NULL if it is not. */
static char *find_name(const char *headers, size_t bytes, const char *name, size_t *name_bytes)
{
    static const char disposition[] = "content-disposition:";
    const char *end = headers + bytes, *next;

    for (const char *line = headers; line < end; line = next + 2) {
        next = memmem(line, (size_t)(end - line), "\r\n", 2);
        next = next ? next : end;
        if ((size_t)(next - line) >= sizeof(disposition) &&
            strncasecmp(line, disposition, sizeof(disposition) - 1) == 0)
            return find_parameter(line, (size_t)(next - line), name, name_bytes);
    }
    return NULL;
}

/* By RFC 8187: "utf-8''%C3%9Cbersicht.txt". NULL if it is something else; else owned. */
static char *decode_extended(const char *value)
{
    const char *quote = strncasecmp(value, "utf-8'", 6) == 0 ? strchr(value + 6, '\'') : NULL;
    size_t bytes;

    return quote ? decode(quote + 1, strlen(quote + 1), '+', &bytes) : NULL;
}

/* By RFC 2047, as .NET has it: "=?utf-8?B?w5xiZXJzaWNodC50eHQ=?=". Takes `value`, which it gives
 * back if it is something else. */
static char *decode_word(char *value)
{
    const size_t n = strlen(value);
    char *decoded;

    if (n < 12 || strncasecmp(value, "=?utf-8?B?", 10) != 0 || strcmp(value + n - 2, "?=") != 0)
        return value;
    decoded = calloc(1, n);
    if (!decoded ||
        EVP_DecodeBlock((unsigned char *)decoded, (unsigned char *)value + 10, (int)(n - 12)) < 0) {
        free(decoded);
        return value;
    }
    free(value);
    return decoded;
}

/* Owned; NULL if there is none. */
static char *find_file_name(const char *headers, size_t bytes)
{
    size_t n;
    char *value = find_name(headers, bytes, "filename*", &n);
    char *name = value ? decode_extended(value) : NULL;

    free(value);
    if (name && name[0])
        return name;
    free(name);
    value = find_name(headers, bytes, "filename", &n);
    return value ? decode_word(value) : NULL;
}

/* One part, between two boundaries. False: it is none of a form. */
static bool add_part(struct form *form, const char *part, size_t bytes)
{
    const char *blank = memmem(part, bytes, "\r\n\r\n", 4);
    const struct form_entry *added;
    size_t key_bytes = 0, value_bytes;
    char *key;

    if (!blank)
        return false;
    key = find_name(part, (size_t)(blank - part), "name", &key_bytes);
    if (!key)
        return false;
    value_bytes = bytes - (size_t)(blank - part) - 4;
    added = add(form, key, key_bytes, copy(blank + 4, value_bytes), value_bytes);
    if (added && form->shape.file && strcmp(added->key, form->shape.file) == 0)
        form->file_name = find_file_name(part, (size_t)(blank - part));
    return true;
}

/* "--boundary CRLF part CRLF --boundary CRLF part ... CRLF --boundary--" */
static bool add_parts(struct form *form, const char *delimiter, size_t delimiter_bytes,
                      const char *body, size_t bytes)
{
    const char *end = body + bytes, *at, *next;

    if (bytes + 2 >= delimiter_bytes && memcmp(body, delimiter + 2, delimiter_bytes - 2) == 0) {
        at = body + delimiter_bytes - 2; /* no CRLF before the first */
    } else {
        at = memmem(body, bytes, delimiter, delimiter_bytes);
        at = at ? at + delimiter_bytes : NULL;
    }
    while (at && end - at >= 2 && memcmp(at, "\r\n", 2) == 0) {
        next = memmem(at, (size_t)(end - at), delimiter, delimiter_bytes);
        if (!next)
            return false;
        if (!may_add(form))
            return true;
        if (!add_part(form, at, (size_t)(next - at)))
            return false;
        at = next + delimiter_bytes;
    }
    return at && end - at >= 2 && memcmp(at, "--", 2) == 0;
}

const char *form_add_multipart(struct form *form, const char *content_type, const char *body,
                               size_t bytes)
{
    size_t boundary_bytes = 0, delimiter_bytes;
    char *boundary =
        find_parameter(content_type, strlen(content_type), "boundary", &boundary_bytes);
    char *delimiter;
    bool is_good;

    if (!boundary || boundary_bytes < 1 || boundary_bytes > 70) { /* RFC 2046, 5.1.1 */
        free(boundary);
        return "Content-Type: expected multipart/form-data; boundary=TEXT, of 1 to 70 characters, "
               "found something else";
    }
    delimiter_bytes = boundary_bytes + 4;
    delimiter = malloc(delimiter_bytes);
    if (delimiter) {
        memcpy(delimiter, "\r\n--", 4);
        memcpy(delimiter + 4, boundary, boundary_bytes);
    }
    form->no_memory = form->no_memory || !delimiter;
    is_good = !delimiter || add_parts(form, delimiter, delimiter_bytes, body, bytes);
    free(delimiter);
    free(boundary);
    return is_good && (form->n_values > 0 || form->no_memory)
               ? NULL
               : "multipart/form-data: expected parts that have names and end with the boundary, "
                 "found something else";
}
