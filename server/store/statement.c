/* What tasks of the store say to SQLite. */
#include <stdarg.h>

#include "common/error.h"
#include "store/store.h"

int store_refuse(sqlite3 *db, struct acre_err *err)
{
    return error_set(err, ACRE_EIO, "%s", sqlite3_errmsg(db));
}

int store_execute(sqlite3 *db, const char *sql, struct acre_err *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_refuse(db, err);
}

static int bind_all(sqlite3_stmt *statement, const char *types, va_list args)
{
    int rc = SQLITE_OK;

    for (int i = 0; types[i] && rc == SQLITE_OK; i++) {
        if (types[i] == 'i') {
            rc = sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t));
        } else if (types[i] == 's') {
            rc = sqlite3_bind_text(statement, i + 1, va_arg(args, const char *), -1, SQLITE_STATIC);
        } else {
            const void *bytes = va_arg(args, const void *);

            rc = sqlite3_bind_blob64(statement, i + 1, bytes, va_arg(args, size_t), SQLITE_STATIC);
        }
    }
    return rc;
}

static int prepare(sqlite3 *db, sqlite3_stmt **statement, struct acre_err *err, const char *sql,
                   const char *types, va_list args)
{
    if (sqlite3_prepare_v2(db, sql, -1, statement, NULL) == SQLITE_OK &&
        bind_all(*statement, types, args) == SQLITE_OK)
        return 0;
    store_refuse(db, err);
    sqlite3_finalize(*statement);
    *statement = NULL;
    return err->code;
}

int store_prepare(sqlite3 *db, sqlite3_stmt **statement, struct acre_err *err, const char *sql,
                  const char *types, ...)
{
    va_list args;
    int rc;

    va_start(args, types);
    rc = prepare(db, statement, err, sql, types, args);
    va_end(args);
    return rc;
}

int store_step(sqlite3_stmt *statement, struct acre_err *err)
{
    switch (sqlite3_step(statement)) {
    case SQLITE_ROW:
        return 1;
    case SQLITE_DONE:
        return 0;
    default:
        return store_refuse(sqlite3_db_handle(statement), err);
    }
}

int store_do(sqlite3 *db, struct acre_err *err, const char *sql, const char *types, ...)
{
    sqlite3_stmt *statement;
    va_list args;
    int rc;

    va_start(args, types);
    rc = prepare(db, &statement, err, sql, types, args);
    va_end(args);
    if (rc != 0)
        return rc;
    do
        rc = store_step(statement, err);
    while (rc == 1);
    sqlite3_finalize(statement);
    return rc;
}
