/* Happy path: a byte order mark is skipped, then each line or record becomes one entry.
 *
 * Failure modes: a line without tab, a record with another number of fields, a quote that does not
 * end; whatever the dictionary refuses (dictionary.h). The error has the entry's number. */
#include "content/entries.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"
#include "common/unicode.h"

/* ---- TSV ------------------------------------------------------------------------------------- */

static int read_line(struct dictionary *dictionary, const char *line, size_t bytes,
                     struct acre_err *err)
{
    const char *tab = memchr(line, '\t', bytes);
    const size_t number = dictionary_entries(dictionary) + 1;

    if (!tab)
        return error_set(err, ACRE_EINPUT,
                         "entry %zu: expected a tab between two terms, found none", number);
    if (memchr(tab + 1, '\t', bytes - (size_t)(tab + 1 - line)))
        return error_set(err, ACRE_EINPUT, "entry %zu: expected one tab, found more", number);
    return dictionary_add(dictionary, line, (size_t)(tab - line), tab + 1,
                          bytes - (size_t)(tab + 1 - line), err);
}

int entries_read_tsv(struct dictionary *dictionary, const char *text, size_t bytes,
                     struct acre_err *err)
{
    int rc = 0;

    for (size_t at = unicode_mark_bytes(text, bytes), n; at < bytes && rc == 0; at += n + 1) {
        const char *end = memchr(text + at, '\n', bytes - at);

        n = end ? (size_t)(end - text) - at : bytes - at;
        if (!unicode_is_blank(text + at, n))
            rc = read_line(dictionary, text + at, n, err);
    }
    return rc;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

enum { FIELDS = 4 };

/* One record, cut in place: quotes are taken out of a copy. */
struct record {
    char *fields[FIELDS];
    size_t bytes[FIELDS];
    size_t n;
};

struct csv {
    char *text; /* owned copy */
    size_t bytes, at;
};

/* Reads what stands between quotes to where it began; *at goes behind the closing one. */
static size_t unquote(struct csv *csv, size_t *at)
{
    const size_t begin = *at;
    size_t out = begin, in = begin + 1;

    for (; in < csv->bytes; in++) {
        if (csv->text[in] == '"' && (in + 1 == csv->bytes || csv->text[in + 1] != '"'))
            break;
        in += csv->text[in] == '"';
        csv->text[out++] = csv->text[in];
    }
    *at = in + 1;
    return out - begin;
}

static bool ends_record(const struct csv *csv, size_t at)
{
    return at >= csv->bytes || csv->text[at] == '\n' || csv->text[at] == '\r';
}

/* The next record; NULL, or what is wrong with it. */
static const char *read_record(struct csv *csv, struct record *record)
{
    size_t at = csv->at, begin;

    record->n = 0;
    do {
        if (record->n == FIELDS)
            return "two fields, or four with the languages, found more";
        while (at < csv->bytes && csv->text[at] == ' ')
            at++;
        begin = at;
        record->fields[record->n] = csv->text + begin;
        if (at < csv->bytes && csv->text[at] == '"') {
            record->bytes[record->n] = unquote(csv, &at);
            if (at > csv->bytes)
                return "a quote that closes the field, found none";
            while (at < csv->bytes && csv->text[at] == ' ')
                at++;
            if (!ends_record(csv, at) && csv->text[at] != ',')
                return "a comma behind a quoted field, found something else";
        } else {
            while (!ends_record(csv, at) && csv->text[at] != ',')
                at++;
            record->bytes[record->n] = at - begin;
        }
        record->n++;
    } while (!ends_record(csv, at++));
    csv->at = at;
    return NULL;
}

static bool is_code(const struct record *record, size_t field, const char *code)
{
    return record->n <= field || record->bytes[field] == 0 ||
           (record->bytes[field] == strlen(code) &&
            strncasecmp(record->fields[field], code, strlen(code)) == 0);
}

static int read_records(struct csv *csv, struct dictionary *dictionary, const char *source,
                        const char *target, struct acre_err *err)
{
    struct record record;
    int rc = 0;

    while (csv->at < csv->bytes && rc == 0) {
        const char *wrong = read_record(csv, &record);

        if (!wrong && record.n == 1 && unicode_is_blank(record.fields[0], record.bytes[0]))
            continue; /* an empty line */
        if (!wrong && record.n == 1)
            wrong = "a comma between two terms, found none";
        if (wrong)
            return error_set(err, ACRE_EINPUT, "entry %zu: expected %s",
                             dictionary_entries(dictionary) + 1, wrong);
        if (!is_code(&record, 2, source) || !is_code(&record, 3, target))
            continue;
        rc = dictionary_add(dictionary, record.fields[0], record.bytes[0], record.fields[1],
                            record.bytes[1], err);
    }
    return rc;
}

int entries_read_csv(struct dictionary *dictionary, const char *text, size_t bytes,
                     const char *source, const char *target, struct acre_err *err)
{
    struct csv csv = {
        .text = malloc(bytes ? bytes : 1), .bytes = bytes, .at = unicode_mark_bytes(text, bytes)};
    int rc;

    if (!csv.text)
        return error_set_no_memory(err);
    memcpy(csv.text, text, bytes);
    rc = read_records(&csv, dictionary, source, target, err);
    free(csv.text);
    return rc;
}
