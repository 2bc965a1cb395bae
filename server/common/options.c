/* Happy path: options_init() sets defaults; a text, or a value of JSON, is checked against the row
 * of its key and stored at its place.
 *
 * Failure modes: an unknown key, another type, out of range, a file that is no JSON: the error has
 * the file if there is one, the key, what was expected and what was found. */
#include "common/options.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/error.h"

static void *field(const struct option *option, void *base)
{
    return (char *)base + option->offset;
}

void options_init(const struct option *table, void *base)
{
    for (; table->key; table++) {
        if (!table->default_text)
            continue;
        int rc = options_set(table, base, table->default_text, NULL);
        assert(rc == 0);
        (void)rc;
    }
}

/* Not of lists, which are not in files. */
static size_t field_bytes(const struct option *option)
{
    switch (option->type) {
    case OPTION_INT:
        return sizeof(int64_t);
    case OPTION_REAL:
        return sizeof(double);
    case OPTION_FLAG:
        return sizeof(bool);
    default:
        return OPTION_TEXT_BYTES;
    }
}

bool options_same(const struct option *option, const void *a, const void *b)
{
    const char *of_a = (const char *)a + option->offset, *of_b = (const char *)b + option->offset;

    return option->type == OPTION_TEXT ? strcmp(of_a, of_b) == 0
                                       : memcmp(of_a, of_b, field_bytes(option)) == 0;
}

void options_copy(const struct option *option, void *to, const void *from)
{
    memcpy(field(option, to), (const char *)from + option->offset, field_bytes(option));
}

const struct option *options_find(const struct option *table, const char *key)
{
    for (; table->key; table++)
        if (strcmp(table->key, key) == 0)
            return table;
    return NULL;
}

void options_expected(const struct option *option, char *text, size_t text_bytes)
{
    switch (option->type) {
    case OPTION_INT:
        snprintf(text, text_bytes, "an integer from %.0f to %.0f", option->min, option->max);
        break;
    case OPTION_REAL:
        snprintf(text, text_bytes, "a number from %g to %g", option->min, option->max);
        break;
    case OPTION_TEXT:
        if (option->expected)
            snprintf(text, text_bytes, "%s", option->expected);
        else
            snprintf(text, text_bytes, "a string of at most %d bytes", OPTION_TEXT_BYTES - 1);
        break;
    case OPTION_FLAG:
        snprintf(text, text_bytes, "true or false");
        break;
    case OPTION_LIST:
        snprintf(text, text_bytes, "at most %d of them", OPTION_LIST_ITEMS);
        break;
    }
}

static int refuse(const struct option *option, struct acre_err *err, const char *found)
{
    char expected[256];

    options_expected(option, expected, sizeof(expected));
    return error_set(err, ACRE_EOPTION, "expected %s, found %.200s", expected,
                     option->is_secret ? "something else" : found);
}

static int set_int(const struct option *option, void *base, double value, const char *found,
                   struct acre_err *err)
{
    if (!(value >= option->min && value <= option->max) || value != floor(value))
        return refuse(option, err, found);
    *(int64_t *)field(option, base) = (int64_t)value;
    return 0;
}

static int set_real(const struct option *option, void *base, double value, const char *found,
                    struct acre_err *err)
{
    if (!(value >= option->min && value <= option->max))
        return refuse(option, err, found);
    *(double *)field(option, base) = value;
    return 0;
}

static int set_text(const struct option *option, void *base, const char *text, const char *found,
                    struct acre_err *err)
{
    if (strlen(text) >= OPTION_TEXT_BYTES || (option->valid && !option->valid(text)))
        return refuse(option, err, found);
    strcpy(field(option, base), text);
    return 0;
}

static int set_list(const struct option *option, void *base, const char *text, struct acre_err *err)
{
    struct option_list *list = field(option, base);

    if (list->n_items == OPTION_LIST_ITEMS)
        return refuse(option, err, "more");
    list->items[list->n_items++] = text;
    return 0;
}

bool options_is_filled(const char *text)
{
    return text[0] != '\0';
}

bool options_number(const char *text, enum option_type type, double *value)
{
    char *end;

    if (!text[0] || text[strspn(text, type == OPTION_INT ? "+-0123456789" : "+-.0123456789eE")])
        return false;
    errno = 0;
    *value = strtod(text, &end);
    return !*end && errno == 0 && isfinite(*value);
}

int options_set(const struct option *option, void *base, const char *text, struct acre_err *err)
{
    char found[256];
    double number;

    snprintf(found, sizeof(found), "\"%.200s\"", text);
    switch (option->type) {
    case OPTION_INT:
        if (!options_number(text, OPTION_INT, &number))
            return refuse(option, err, found);
        return set_int(option, base, number, found, err);
    case OPTION_REAL:
        if (!options_number(text, OPTION_REAL, &number))
            return refuse(option, err, found);
        return set_real(option, base, number, found, err);
    case OPTION_TEXT:
        return set_text(option, base, text, found, err);
    case OPTION_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return refuse(option, err, found);
        *(bool *)field(option, base) = text[0] == 't';
        return 0;
    case OPTION_LIST:
        return set_list(option, base, text, err);
    }
    return refuse(option, err, found);
}

static void describe(const json_t *value, char *text, size_t text_bytes)
{
    char *dump;

    if (json_is_object(value) || json_is_array(value)) {
        snprintf(text, text_bytes, "%s", json_is_object(value) ? "an object" : "an array");
        return;
    }
    dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    snprintf(text, text_bytes, "%.200s", dump ? dump : "something else");
    free(dump);
}

/* ["a", "b"] as "a,b". */
static int set_array(const struct option *option, void *base, const json_t *array,
                     struct acre_err *err)
{
    char text[OPTION_TEXT_BYTES] = "";
    size_t index;
    json_t *item;

    json_array_foreach(array, index, item)
    {
        const char *value = json_string_value(item);
        const size_t used = strlen(text);

        if (!value || !value[0] || strchr(value, ',') || used + strlen(value) + 2 > sizeof(text))
            return refuse(option, err, "an array of something else");
        snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "", value);
    }
    return set_text(option, base, text, "an empty array", err);
}

static int set_json(const struct option *option, void *base, const json_t *value,
                    struct acre_err *err)
{
    char found[256];

    describe(value, found, sizeof(found));
    if (option->type == OPTION_INT && json_is_integer(value))
        return set_int(option, base, (double)json_integer_value(value), found, err);
    if (option->type == OPTION_REAL && json_is_number(value))
        return set_real(option, base, json_number_value(value), found, err);
    if (option->type == OPTION_TEXT && json_is_string(value))
        return set_text(option, base, json_string_value(value), found, err);
    if (option->type == OPTION_TEXT && option->is_list && json_is_array(value))
        return set_array(option, base, value, err);
    if (option->type == OPTION_FLAG && json_is_boolean(value)) {
        *(bool *)field(option, base) = json_is_true(value);
        return 0;
    }
    return refuse(option, err, found);
}

static int set_object(const struct option *table, void *base, json_t *object, const char *path,
                      struct acre_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        const struct option *option = options_find(table, key);

        if (!option)
            return error_set(err, ACRE_EOPTION,
                             "%s: %.100s: expected a known key (acre serve --help-config), "
                             "found %.100s",
                             path, key, key);
        if (set_json(option, base, value, err) != 0)
            return error_prefix(err, "%s: %s: ", path, key);
    }
    return 0;
}

int options_load(const struct option *table, void *base, const char *path, struct acre_err *err)
{
    json_error_t where;
    struct stat found;
    json_t *root;
    int rc;

    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return error_set(err, ACRE_EIO, "%s: expected a JSON file, found a folder", path);
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!root && where.line <= 0)
        return error_set(err, ACRE_EIO, "%s: expected a readable JSON file, found: %s", path,
                         where.text);
    if (!root)
        return error_set(err, ACRE_EOPTION, "%s:%d: expected valid JSON, found: %s", path,
                         where.line, where.text);
    if (json_is_object(root))
        rc = set_object(table, base, root, path, err);
    else
        rc = error_set(err, ACRE_EOPTION, "%s: expected an object, found an array", path);
    json_decref(root);
    return rc;
}
