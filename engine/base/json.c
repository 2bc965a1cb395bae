/* Getters look a field up, check type and range, and only then write the value; json_fail() words
 * what does not fit. Parsing fails with the line and column of the error. */
#include "base/json.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/room.h"

enum {
    FOUND_BYTES = 64,
    EXPECTED_BYTES = 96,
    HUGE_DIGITS = 19, /* 2^63 has so many */
};

/* What jansson takes, at most: for an object or an array with its first value, and for each other
 * one with its place. */
enum { OBJECT_BYTES = 320, ARRAY_BYTES = 192, VALUE_BYTES = 192 };

/* The memory that parsing may take: a small text can be many small values. Strings are taken for
 * JSON, too, which adds a little. */
static size_t parsing_bytes(const char *text, size_t bytes)
{
    size_t sum = 2 * bytes; /* strings, and the copy of load() */
    for (size_t i = 0; i < bytes; i++)
        sum += text[i] == ','   ? VALUE_BYTES
               : text[i] == '[' ? ARRAY_BYTES
               : text[i] == '{' ? OBJECT_BYTES
                                : 0;
    return sum;
}

/* Behind digits at `at`: whether they are an integer that 64 bits may not hold. */
static bool is_huge(const char *text, size_t bytes, size_t *at)
{
    size_t first = *at;
    while (*at < bytes && text[*at] >= '0' && text[*at] <= '9')
        ++*at;
    char next = *at < bytes ? text[*at] : '\0';
    bool is_fraction = first > 0 && text[first - 1] == '.';
    return *at - first >= HUGE_DIGITS && !is_fraction && next != '.' && next != 'e' && next != 'E';
}

/* Copies JSON, with ".0" behind such integers. Returns the bytes of the copy. */
static size_t copy_with_reals(const char *text, size_t bytes, char *copy)
{
    size_t used = 0;
    bool is_string = false;
    for (size_t at = 0; at < bytes;) {
        size_t first = at;
        bool is_real =
            !is_string && text[at] >= '0' && text[at] <= '9' && is_huge(text, bytes, &at);
        if (at == first)
            at += is_string && text[at] == '\\' && at + 1 < bytes ? 2 : 1;
        if (text[first] == '"')
            is_string = !is_string;
        memcpy(copy + used, text + first, at - first);
        used += at - first;
        if (is_real)
            memcpy(copy + used, ".0", 2);
        used += is_real ? 2 : 0;
    }
    return used;
}

/* transformers writes 10^30 for "no limit", which jansson takes for a real number only. */
static json_t *load(const char *text, size_t bytes, json_error_t *where)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_t *value = json_loadb(text, bytes, flags, where);
    if (value || json_error_code(where) != json_error_numeric_overflow)
        return value;
    char *copy = mem_alloc(bytes + bytes / HUGE_DIGITS * 2 + 2);
    if (!copy)
        return NULL;
    value = json_loadb(copy, copy_with_reals(text, bytes, copy), flags, where);
    mem_free(copy);
    return value;
}

int json_parse(const char *file, const char *text, size_t bytes, json_t **root,
               struct json_object *object, struct acre_err *err)
{
    json_error_t where;
    size_t needed = parsing_bytes(text, bytes);
    int status = room_take(file, needed, err);
    if (status)
        return status;
    json_t *value = load(text, bytes, &where);
    room_filled(needed);
    if (!value)
        return err_set(err, ACRE_EMODEL, "%s: line %d: expected JSON, found: %s", file, where.line,
                       where.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return err_set(err, ACRE_EMODEL, "%s: expected a JSON object, found another value", file);
    }
    *root = value;
    *object = (struct json_object){.value = value, .file = file};
    return 0;
}

/* The longest start of at most `bytes` bytes that does not cut a UTF-8 character. */
static size_t whole_characters(const char *text, size_t bytes)
{
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes--;
    return bytes;
}

/* Control characters do not occur: the dump escapes them. */
static void show(const json_t *value, char out[FOUND_BYTES])
{
    char *dump =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (!dump) {
        snprintf(out, FOUND_BYTES, "%s", value ? "a value that cannot be shown" : "nothing");
        return;
    }
    size_t bytes = strlen(dump);
    if (bytes < FOUND_BYTES) {
        memcpy(out, dump, bytes + 1);
    } else {
        bytes = whole_characters(dump, FOUND_BYTES - 4);
        memcpy(out, dump, bytes);
        memcpy(out + bytes, "...", 4);
    }
    free(dump);
}

int json_fail(const struct json_object *object, const char *field, const char *expected,
              const json_t *found, struct acre_err *err)
{
    char shown[FOUND_BYTES];
    show(found, shown);
    return err_set(err, ACRE_EMODEL, "%s: %s%s: expected %s, found %s", object->file, object->path,
                   field, expected, shown);
}

const json_t *json_find(const struct json_object *object, const char *field)
{
    const json_t *value = json_object_get(object->value, field);
    return json_is_null(value) ? NULL : value;
}

bool json_int_in(const json_t *value, json_int_t min, json_int_t max)
{
    return json_is_integer(value) && json_integer_value(value) >= min &&
           json_integer_value(value) <= max;
}

int json_get_int(const struct json_object *object, const char *field, int min, int max, int *value,
                 struct acre_err *err)
{
    const json_t *found = json_object_get(object->value, field);
    if (!json_int_in(found, min, max)) {
        char expected[EXPECTED_BYTES];
        snprintf(expected, sizeof(expected), "an integer from %d to %d", min, max);
        return json_fail(object, field, expected, found, err);
    }
    *value = (int)json_integer_value(found);
    return 0;
}

int json_opt_int(const struct json_object *object, const char *field, int min, int max, int *value,
                 struct acre_err *err)
{
    return json_find(object, field) ? json_get_int(object, field, min, max, value, err) : 0;
}

int json_opt_bool(const struct json_object *object, const char *field, bool *value,
                  struct acre_err *err)
{
    const json_t *found = json_find(object, field);
    if (!found)
        return 0;
    if (!json_is_boolean(found))
        return json_fail(object, field, "true or false", found, err);
    *value = json_is_true(found);
    return 0;
}

int json_opt_float(const struct json_object *object, const char *field, float min, float max,
                   float *value, struct acre_err *err)
{
    const json_t *found = json_find(object, field);
    if (!found)
        return 0;
    double number = json_number_value(found);
    if (!json_is_number(found) || !(number >= (double)min && number <= (double)max)) {
        char expected[EXPECTED_BYTES];
        snprintf(expected, sizeof(expected), "a number from %g to %g", (double)min, (double)max);
        return json_fail(object, field, expected, found, err);
    }
    *value = (float)number;
    return 0;
}

int json_get_text(const struct json_object *object, const char *field, size_t max_bytes,
                  char *value, struct acre_err *err)
{
    const json_t *found = json_object_get(object->value, field);
    size_t bytes = json_string_length(found); /* 0 if it is no string */
    if (bytes == 0 || bytes >= max_bytes) {
        char expected[EXPECTED_BYTES];
        snprintf(expected, sizeof(expected), "a string of 1 to %zu bytes", max_bytes - 1);
        return json_fail(object, field, expected, found, err);
    }
    memcpy(value, json_string_value(found), bytes + 1);
    return 0;
}

int json_opt_text(const struct json_object *object, const char *field, size_t max_bytes,
                  char *value, struct acre_err *err)
{
    return json_find(object, field) ? json_get_text(object, field, max_bytes, value, err) : 0;
}

int json_opt_object(const struct json_object *object, const char *field, struct json_object *child,
                    struct acre_err *err)
{
    const json_t *found = json_find(object, field);
    if (found && !json_is_object(found))
        return json_fail(object, field, "an object", found, err);
    *child = (struct json_object){.value = found, .file = object->file};
    int bytes = snprintf(child->path, sizeof(child->path), "%s%s.", object->path, field);
    assert(bytes < (int)sizeof(child->path)); /* fields are ours and nest twice at most */
    (void)bytes;
    return 0;
}
