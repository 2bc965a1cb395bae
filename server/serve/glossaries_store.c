/* Glossaries in the store: a row for each, and one for each dictionary, whose entries are TSV. */
#include <stdlib.h>
#include <string.h>

#include "content/entries.h"
#include "serve/glossaries.h"

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

static int erase_parts(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    return store_do(db, err, "DELETE FROM dictionaries WHERE glossary = ?", "s", g->id);
}

static int erase(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    int rc = erase_parts(db, g, err);

    return rc == 0 ? store_do(db, err, "DELETE FROM glossaries WHERE id = ?", "s", g->id) : rc;
}

static int write_new(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    return store_do(db, err,
                    "INSERT INTO glossaries (id, owner, name, created) VALUES (?, ?, ?, ?)", "sisi",
                    g->id, g->owner, g->name, g->created_ms);
}

static int write_name(sqlite3 *db, const struct glossary *g, struct acre_err *err)
{
    return store_do(db, err, "UPDATE glossaries SET name = ? WHERE id = ?", "ss", g->name, g->id);
}

int glossaries_write(sqlite3 *db, const struct glossary *before, const struct glossary *after,
                     struct acre_err *err)
{
    int rc;

    if (!after)
        return erase(db, before, err);
    rc = before ? erase_parts(db, before, err) : write_new(db, after, err);
    if (rc == 0 && before)
        rc = write_name(db, after, err);
    return rc == 0 ? write_parts(db, after, err) : rc;
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
        return error_set(err, ACRE_ENOMEM, "out of memory");
    snprintf(part.source, sizeof(part.source), "%s", text_of(row, 0));
    snprintf(part.target, sizeof(part.target), "%s", text_of(row, 1));
    rc = entries_read_tsv(part.dictionary, text, (size_t)sqlite3_column_bytes(row, 2), err);
    if (rc == 0)
        rc = dictionary_seal(part.dictionary, err);
    if (rc == 0 && !glossary_add(g, &part))
        rc = error_set(err, ACRE_ENOMEM, "out of memory");
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

static int read_glossary(sqlite3 *db, struct glossaries *glossaries, sqlite3_stmt *row,
                         struct acre_err *err)
{
    struct glossary *g = glossary_new(text_of(row, 2), sqlite3_column_int64(row, 1));
    int rc;

    if (!g)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    snprintf(g->id, sizeof(g->id), "%s", text_of(row, 0));
    g->created_ms = sqlite3_column_int64(row, 3);
    rc = read_parts(db, g, err);
    if (rc == 0 && !glossaries_append(glossaries, g))
        rc = error_set(err, ACRE_ENOMEM, "out of memory");
    if (rc != 0)
        glossary_free(g);
    return rc;
}

int glossaries_load(struct glossaries *glossaries, sqlite3 *db, struct acre_err *err)
{
    sqlite3_stmt *rows;
    int rc = store_prepare(db, &rows, err,
                           "SELECT id, owner, name, created FROM glossaries ORDER BY number", "");

    while (rc == 0 && (rc = store_step(rows, err)) == 1)
        rc = read_glossary(db, glossaries, rows, err);
    sqlite3_finalize(rows);
    return rc;
}
