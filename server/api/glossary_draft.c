/* Happy path: glossary_draft_check() -> a name, then for each dictionary its languages and format,
 * whose entries go straight to a dictionary; glossary_draft_merge() joins them to those that a
 * glossary has already, whose translations the new ones take the place of.
 *
 * Failure modes: a field that is missing or wrong, entries that cannot be read, one pair of
 * languages twice: error says which field. What is half made is for glossary_draft_fini(). */
#include "api/glossary_draft.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/terms_field.h"
#include "common/language.h"

const char *const glossary_draft_fields[] = {
    "name",    "dictionaries",   "source_lang", "target_lang",
    "entries", "entries_format", "auth_key",    NULL,
};

static const char *const part_fields[] = {"source_lang", "target_lang", "entries", "entries_format",
                                          NULL};

void glossary_draft_fini(struct glossary_draft *draft)
{
    for (size_t i = 0; i < draft->n_parts; i++)
        dictionary_drop(draft->parts[i].dictionary);
    free(draft->parts);
    *draft = (struct glossary_draft){.name = NULL};
}

/* ---- What may be in the fields --------------------------------------------------------------- */

static int check_texts(const struct fields *fields, const char *const *names,
                       struct srv_error *error)
{
    const char *ignored;

    for (; *names; names++)
        if (strcmp(*names, "dictionaries") != 0 &&
            fields_text(fields, *names, &ignored, error) != 0)
            return -1;
    return 0;
}

static int check_number(const json_t *list, size_t most, struct srv_error *error)
{
    if (json_array_size(list) <= most)
        return 0;
    return error_field(error, "invalid_parameter", "dictionaries",
                       "expected at most %zu, found %zu", most, json_array_size(list));
}

static struct fields fields_of_part(const json_t *list, size_t i)
{
    return (struct fields){.object = json_array_get(list, i), .is_json = true};
}

int glossary_draft_check(const struct fields *fields, struct srv_error *error)
{
    const json_t *list = fields_find(fields, "dictionaries");

    if (check_texts(fields, glossary_draft_fields, error) != 0)
        return -1;
    if (list && !json_is_array(list))
        return fields_refuse(error, "dictionaries", "an array of dictionaries", list);
    if (check_number(list, GLOSSARY_MAX_PARTS, error) != 0)
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct fields of_part = fields_of_part(list, i);

        if (!json_is_object(of_part.object))
            return fields_refuse(error, "dictionaries", "an array of dictionaries", list);
        fields_drop_unknown(of_part.object, part_fields);
        if (check_texts(&of_part, part_fields, error) != 0)
            return -1;
    }
    return 0;
}

int glossary_draft_name(const struct fields *fields, bool is_required, struct glossary_draft *draft,
                        struct srv_error *error)
{
    if (fields_text(fields, "name", &draft->name, error) != 0)
        return -1;
    if (!draft->name && is_required)
        return error_field(error, "missing_parameter", "name", "expected a name, found none");
    if (draft->name && strlen(draft->name) > GLOSSARY_NAME_BYTES)
        return error_field(error, "invalid_parameter", "name",
                           "expected at most %d bytes, found %zu", GLOSSARY_NAME_BYTES,
                           strlen(draft->name));
    return 0;
}

/* ---- Dictionaries ---------------------------------------------------------------------------- */

static int read_code(const struct fields *fields, const char *name, char code[GLOSSARY_CODE_BYTES],
                     struct srv_error *error)
{
    const char *value = NULL;
    size_t n;

    if (fields_required(fields, name, &value, error) != 0)
        return -1;
    n = strcspn(value, "-_");
    if (n == 0 || n >= GLOSSARY_CODE_BYTES)
        return error_field(error, "language_not_supported", name,
                           "expected the code of a language, found %.20s", value);
    for (size_t i = 0; i <= n; i++)
        code[i] = (char)(i < n ? tolower((unsigned char)value[i]) : '\0');
    return 0;
}

int glossary_draft_pair(const struct fields *fields, struct glossary_part *part,
                        struct srv_error *error)
{
    return read_code(fields, "source_lang", part->source, error) != 0
               ? -1
               : read_code(fields, "target_lang", part->target, error);
}

static bool has_pair(const struct glossary_draft *draft, const struct glossary_part *part)
{
    for (size_t i = 0; i < draft->n_parts; i++)
        if (language_is_same(draft->parts[i].source, part->source) &&
            language_is_same(draft->parts[i].target, part->target))
            return true;
    return false;
}

int glossary_draft_part(const struct fields *fields, struct glossary_draft *draft,
                        struct srv_error *error)
{
    const char *format = NULL, *entries = NULL;
    struct glossary_part part = {.dictionary = NULL}, *more;

    if (glossary_draft_pair(fields, &part, error) != 0 ||
        fields_required(fields, "entries", &entries, error) != 0 ||
        fields_required(fields, "entries_format", &format, error) != 0)
        return -1;
    if (strcmp(format, "tsv") != 0 && strcmp(format, "csv") != 0)
        return error_field(error, "invalid_parameter", "entries_format",
                           "expected tsv or csv, found %.20s", format);
    if (has_pair(draft, &part))
        return error_field(error, "invalid_parameter", "dictionaries",
                           "expected one for each pair, found two from %s to %s", part.source,
                           part.target);
    more = realloc(draft->parts, (draft->n_parts + 1) * sizeof(*more));
    if (!more)
        return error_no_memory(error);
    draft->parts = more;
    if (terms_field_entries(format, entries, json_string_length(fields_find(fields, "entries")),
                            part.source, part.target, &part.dictionary, error) != 0)
        return -1;
    draft->parts[draft->n_parts++] = part;
    return 0;
}

int glossary_draft_parts(const struct fields *fields, bool is_required, size_t most,
                         struct glossary_draft *draft, struct srv_error *error)
{
    const json_t *list = fields_find(fields, "dictionaries");

    if (is_required && json_array_size(list) == 0)
        return error_field(error, "missing_parameter", "dictionaries",
                           "expected dictionaries, found none");
    if (check_number(list, most, error) != 0)
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct fields of_part = fields_of_part(list, i);

        if (glossary_draft_part(&of_part, draft, error) != 0)
            return -1;
    }
    return 0;
}

/* ---- Merging --------------------------------------------------------------------------------- */

static int add_entry(struct dictionary *merged, const struct dictionary *of, uint32_t number,
                     const struct dictionary *instead, struct acre_err *err)
{
    struct dictionary_entry entry = dictionary_entry(of, number);
    const uint32_t other =
        instead ? dictionary_find(instead, entry.source, entry.source_bytes) : DICTIONARY_NONE;

    if (other != DICTIONARY_NONE)
        entry = dictionary_entry(instead, other);
    return dictionary_add(merged, entry.source, entry.source_bytes, entry.target,
                          entry.target_bytes, err);
}

int glossary_draft_merge(struct glossary_part *part, const struct dictionary *before,
                         struct srv_error *error)
{
    struct dictionary *merged = dictionary_open(DICTIONARY_MAX_BYTES), *sealed = NULL;
    struct acre_err err;
    int status = 0;

    if (!merged)
        return error_no_memory(error);
    for (uint32_t i = 1; i <= dictionary_entries(before) && status == 0; i++)
        status = add_entry(merged, before, i, part->dictionary, &err);
    for (uint32_t i = 1; i <= dictionary_entries(part->dictionary) && status == 0; i++) {
        const struct dictionary_entry entry = dictionary_entry(part->dictionary, i);

        if (dictionary_find(before, entry.source, entry.source_bytes) == DICTIONARY_NONE)
            status = add_entry(merged, part->dictionary, i, NULL, &err);
    }
    if (terms_field_seal(merged, &sealed, status, &err, error) != 0)
        return -1;
    dictionary_drop(part->dictionary);
    part->dictionary = sealed;
    return 0;
}
