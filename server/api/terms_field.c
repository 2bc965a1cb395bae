#include "api/terms_field.h"

#include <string.h>

#include "api/fields.h"
#include "content/entries.h"

enum { MAX_OWN_BYTES = 65536 }; /* of entries in a request to translate: some ms, each time */

int terms_field_seal(struct dictionary *filled, struct dictionary **dictionary, int status,
                     struct acre_err *err, struct srv_error *error)
{
    if (status == 0)
        status = dictionary_seal(filled, err);
    if (status == 0) {
        *dictionary = filled;
        return 0;
    }
    dictionary_drop(filled);
    if (status == ACRE_ENOMEM)
        return error_from_engine(error, status, err);
    return error_http(error, status == ACRE_ETOOLARGE ? 413 : 400,
                      status == ACRE_ETOOLARGE ? "glossary_too_large" : "invalid_entries",
                      "Invalid glossary entries provided: %s", err->text);
}

int terms_field_entries(const char *format, const char *entries, size_t bytes, const char *source,
                        const char *target, struct dictionary **dictionary, struct srv_error *error)
{
    struct dictionary *filled = dictionary_open(DICTIONARY_MAX_BYTES);
    struct acre_err err;
    int status;

    if (!filled)
        return error_no_memory(error);
    status = strcmp(format, "csv") == 0
                 ? entries_read_csv(filled, entries, bytes, source, target, &err)
                 : entries_read_tsv(filled, entries, bytes, &err);
    return terms_field_seal(filled, dictionary, status, &err, error);
}

/* ---- Of /translate --------------------------------------------------------------------------- */

static int add(struct dictionary *d, const json_t *source, const json_t *target,
               struct acre_err *err)
{
    if (!json_is_string(source) || !json_is_string(target)) {
        err->code = ACRE_EINPUT;
        snprintf(err->text, sizeof(err->text),
                 "entry %zu: expected a text, or a term and its translation, found something else",
                 dictionary_entries(d) + 1);
        return err->code;
    }
    return dictionary_add(d, json_string_value(source), json_string_length(source),
                          json_string_value(target), json_string_length(target), err);
}

static int read_object(struct dictionary *d, const json_t *value, struct acre_err *err)
{
    const char *key;
    const json_t *target;
    void *at = json_object_iter((json_t *)value);

    for (; at; at = json_object_iter_next((json_t *)value, at)) {
        key = json_object_iter_key(at);
        target = json_object_iter_value(at);
        if (!json_is_string(target))
            return add(d, NULL, target, err);
        if (dictionary_add(d, key, strlen(key), json_string_value(target),
                           json_string_length(target), err) != 0)
            return err->code;
    }
    return 0;
}

static int read_array(struct dictionary *d, const json_t *value, struct acre_err *err)
{
    int status = 0;

    for (size_t i = 0; i < json_array_size(value) && status == 0; i++) {
        const json_t *item = json_array_get(value, i);

        if (json_is_array(item) && json_array_size(item) == 2)
            status = add(d, json_array_get(item, 0), json_array_get(item, 1), err);
        else
            status = add(d, item, item, err);
    }
    return status;
}

int terms_field_glossary(const json_t *value, struct dictionary **dictionary,
                         struct srv_error *error)
{
    struct dictionary *filled;
    struct acre_err err;
    int status;

    if (!value || (json_is_object(value) && json_object_size(value) == 0) ||
        (json_is_array(value) && json_array_size(value) == 0))
        return 0;
    if (!json_is_object(value) && !json_is_array(value) && !json_is_string(value))
        return fields_refuse(error, "glossary",
                             "an object, an array of pairs and strings, or text in TSV", value);
    filled = dictionary_open(MAX_OWN_BYTES);
    if (!filled)
        return error_no_memory(error);
    status = json_is_object(value)  ? read_object(filled, value, &err)
             : json_is_array(value) ? read_array(filled, value, &err)
                                    : entries_read_tsv(filled, json_string_value(value),
                                                       json_string_length(value), &err);
    return terms_field_seal(filled, dictionary, status, &err, error);
}
