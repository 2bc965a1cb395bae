/* Glossaries in the store: a row for each, and one for each dictionary, whose entries are TSV.
 * Their numbers grow with each change, so that what is new has a number above all that were seen.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/grow.h"
#include "content/entries.h"
#include "serve/glossaries.h"
#include "store/facts.h"

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_parts(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < g->n_parts && rc == 0; i++) {
        const struct glossary_part *part = &g->parts[i];
        size_t bytes;
        const char *text = dictionary_text(part->dictionary, &bytes);

        rc = store_do(db, err, "INSERT INTO dictionaries VALUES (?, ?, ?, ?, ?)", "sissb", g->id,
                      (int64_t)i, part->source, part->target, text, bytes);
    }
    return rc;
}

/* Nothing where another has taken its place: each has a number of its own. */
static int erase(sqlite3 *db, const struct glossary *g, bool *is_erased, struct acre_err *err)
{
    int rc = store_do(db, err,
                      "DELETE FROM dictionaries WHERE glossary = "
                      "(SELECT id FROM glossaries WHERE id = ? AND number = ?)",
                      "si", g->id, g->number);

    if (rc == 0)
        rc = store_do(db, err, "DELETE FROM glossaries WHERE id = ? AND number = ?", "si", g->id,
                      g->number);
    *is_erased = rc == 0 && sqlite3_changes(db) > 0;
    return rc;
}

/* Not for a key that is revoked by now, whose glossaries are deleted. */
static int write_new(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    const int rc = store_do(db, err,
                            "INSERT INTO glossaries (id, owner, name, created) "
                            "SELECT ?1, ?2, ?3, ?4 WHERE ?2 NOT IN "
                            "(SELECT id FROM keys WHERE revoked IS NOT NULL)",
                            "sisi", g->id, g->owner, g->name, g->created_ms);

    if (rc == 0 && sqlite3_changes(db) == 0)
        return error_set(err, ACRE_EOPTION, "its key has been revoked");
    return rc;
}

/* What takes another's place is written anew, and has a new number. */
int glossaries_write(sqlite3 *db, const struct glossary *before, struct glossary *after,
                     struct glossaries_seen *seen, bool *is_outdated, struct acre_err *err)
{
    bool is_erased = true;
    int rc = facts_count(db, "glossaries", &seen->version, err);

    if (rc == 0 && before)
        rc = erase(db, before, &is_erased, err);
    *is_outdated = rc == 0 && !is_erased;
    if (*is_outdated)
        rc = error_set(err, ACRE_EIO, "another server has changed glossary %s", before->id);
    if (rc == 0 && after)
        rc = write_new(db, after, err);
    if (rc == 0 && after) {
        after->number = seen->newest = sqlite3_last_insert_rowid(db);
        rc = write_parts(db, after, err);
    }
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const char *text_of(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);

    return text ? (const char *)text : "";
}

static int read_part(sqlite3_stmt *row, struct glossary *g, struct acre_err *err)
{
    struct glossary_part part = {.dictionary = dictionary_open(DICTIONARY_MAX_BYTES)};
    const char *text = sqlite3_column_blob(row, 2);
    int rc;

    if (!part.dictionary)
        return error_set_no_memory(err);
    snprintf(part.source, sizeof(part.source), "%s", text_of(row, 0));
    snprintf(part.target, sizeof(part.target), "%s", text_of(row, 1));
    rc = entries_read_tsv(part.dictionary, text, (size_t)sqlite3_column_bytes(row, 2), err);
    if (rc == 0)
        rc = dictionary_seal(part.dictionary, err);
    if (rc == 0 && !glossary_add(g, &part))
        rc = error_set_no_memory(err);
    dictionary_drop(part.dictionary);
    return rc == 0 ? 0
                   : error_prefix(err, "glossary %s: %s to %s: ", g->id, part.source, part.target);
}

static int read_parts(sqlite3 *db, struct glossary *g, struct acre_err *err)
{
    sqlite3_stmt *rows;
    int rc = store_prepare(
        db, &rows, err,
        "SELECT source, target, entries FROM dictionaries WHERE glossary = ? ORDER BY place", "s",
        g->id);

    while (rc == 0 && (rc = store_step(rows, err)) == 1)
        rc = read_part(rows, g, err);
    sqlite3_finalize(rows);
    return rc;
}

/* *out is the caller's. */
static int read_glossary(sqlite3 *db, sqlite3_stmt *row, struct glossary **out,
                         struct acre_err *err)
{
    struct glossary *g = glossary_new(text_of(row, 2), sqlite3_column_int64(row, 1));
    int rc;

    if (!g)
        return error_set_no_memory(err);
    snprintf(g->id, sizeof(g->id), "%s", text_of(row, 0));
    g->created_ms = sqlite3_column_int64(row, 3);
    g->number = sqlite3_column_int64(row, 4);
    rc = read_parts(db, g, err);
    if (rc == 0)
        *out = g;
    else
        glossary_drop(g);
    return rc;
}

#define SELECT_GLOSSARIES "SELECT id, owner, name, created, number FROM glossaries "

int glossaries_read_one(sqlite3 *db, const char *id, struct glossary **glossary,
                        struct acre_err *err)
{
    sqlite3_stmt *rows;
    int rc = store_prepare(db, &rows, err, SELECT_GLOSSARIES "WHERE id = ?", "s", id);

    *glossary = NULL;
    if (rc == 0 && (rc = store_step(rows, err)) == 1)
        rc = read_glossary(db, rows, glossary, err);
    sqlite3_finalize(rows);
    return rc;
}

int glossaries_read(sqlite3 *db, int64_t after, glossaries_visit_fn *visit, void *user,
                    struct acre_err *err)
{
    struct glossary *g = NULL;
    sqlite3_stmt *rows;
    int rc = store_prepare(db, &rows, err, SELECT_GLOSSARIES "WHERE number > ? ORDER BY number",
                           "i", after);

    while (rc == 0 && (rc = store_step(rows, err)) == 1) {
        rc = read_glossary(db, rows, &g, err);
        if (rc == 0)
            rc = visit(user, g, err);
    }
    sqlite3_finalize(rows);
    return rc < 0 ? rc : 0;
}

int glossaries_read_version(sqlite3 *db, int64_t *version, struct acre_err *err)
{
    return facts_number(db, "glossaries", version, err);
}

int glossaries_read_numbers(sqlite3 *db, int64_t **numbers, size_t *n, struct acre_err *err)
{
    size_t capacity = 0;
    sqlite3_stmt *rows;
    int rc = store_prepare(db, &rows, err, "SELECT number FROM glossaries ORDER BY number", "");

    *n = 0;
    while (rc == 0 && (rc = store_step(rows, err)) == 1) {
        rc = grow(numbers, sizeof(**numbers), *n + 1, &capacity) ? 0 : error_set_no_memory(err);
        if (rc == 0)
            (*numbers)[(*n)++] = sqlite3_column_int64(rows, 0);
    }
    sqlite3_finalize(rows);
    return rc;
}

static int take(void *user, struct glossary *g, struct acre_err *err)
{
    struct glossaries *glossaries = user;

    if (glossaries_append(glossaries, g)) {
        glossaries->seen.newest = g->number;
        return 0;
    }
    glossary_drop(g);
    return error_set_no_memory(err);
}

int glossaries_load(struct glossaries *glossaries, sqlite3 *db, struct acre_err *err)
{
    int rc = glossaries_read_version(db, &glossaries->seen.version, err);

    return rc == 0 ? glossaries_read(db, 0, take, glossaries, err) : rc;
}
