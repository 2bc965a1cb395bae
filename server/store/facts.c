#include "store/facts.h"

#include <stdio.h>

#include "common/error.h"

static int find(sqlite3 *db, const char *name, sqlite3_stmt **statement, struct acre_err *err)
{
    int rc = store_prepare(db, statement, err, "SELECT value FROM facts WHERE name = ?", "s", name);

    if (rc == 0)
        rc = store_step(*statement, err);
    if (rc == 0)
        rc = error_set(err, ACRE_EIO, "facts: expected %s, found none", name);
    return rc < 0 ? rc : 0;
}

int facts_number(sqlite3 *db, const char *name, int64_t *value, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = find(db, name, &statement, err);

    if (rc == 0)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc;
}

int facts_word(sqlite3 *db, const char *name, char *word, size_t bytes, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = find(db, name, &statement, err);

    if (rc == 0) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);

        snprintf(word, bytes, "%s", text ? text : "");
    }
    sqlite3_finalize(statement);
    return rc;
}

int facts_count(sqlite3 *db, const char *name, int64_t *value, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = store_prepare(db, &statement, err,
                           "UPDATE facts SET value = value + 1 WHERE name = ? RETURNING value", "s",
                           name);

    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1) {
        *value = sqlite3_column_int64(statement, 0);
        rc = store_step(statement, err); /* its end, which is when the change is made */
    }
    sqlite3_finalize(statement);
    return rc;
}
