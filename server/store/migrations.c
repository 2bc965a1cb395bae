#include "store/migrations.h"

#include <stdio.h>

#include "common/error.h"
#include "store/store.h"

/* "Acre", in the file's header: what SQLite has for programs to know their files by. */
enum { APPLICATION_ID = 0x41637265 };

static const char *const steps[] = {
    /* facts: `replica` is what this file is called where replicas share counters; `keys` grows
     * with each change of a key or its usage, and keys.changed is what it was then. */
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "INSERT INTO facts VALUES ('replica', lower(hex(randomblob(8)))), ('keys', 0);"

    /* hash: SHA-256 of the key. 0 of a limit is none. Revoked keys stay, for their usage. */
    "CREATE TABLE keys ("
    "    id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "    hash BLOB NOT NULL UNIQUE,"
    "    name TEXT NOT NULL,"
    "    characters_per_month INTEGER NOT NULL,"
    "    requests_per_minute INTEGER NOT NULL,"
    "    created TEXT NOT NULL,"
    "    revoked TEXT,"
    "    changed INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked IS NULL;"
    "CREATE INDEX keys_by_change ON keys (changed);"

    /* month: 12 * year + month, from 0, in UTC. */
    "CREATE TABLE usage ("
    "    key INTEGER NOT NULL REFERENCES keys (id),"
    "    month INTEGER NOT NULL,"
    "    characters INTEGER NOT NULL,"
    "    requests INTEGER NOT NULL,"
    "    PRIMARY KEY (key, month)) WITHOUT ROWID;",

    /* owner: a key, 0: nobody's; created: ms since 1970; entries: TSV. */
    "CREATE TABLE glossaries ("
    "    number INTEGER PRIMARY KEY AUTOINCREMENT,"
    "    id TEXT NOT NULL UNIQUE,"
    "    owner INTEGER NOT NULL,"
    "    name TEXT NOT NULL,"
    "    created INTEGER NOT NULL);"
    "CREATE TABLE dictionaries ("
    "    glossary TEXT NOT NULL REFERENCES glossaries (id),"
    "    place INTEGER NOT NULL,"
    "    source TEXT NOT NULL,"
    "    target TEXT NOT NULL,"
    "    entries BLOB NOT NULL,"
    "    PRIMARY KEY (glossary, place));",

    /* `glossaries` grows with each change of a glossary, which gets a new number thereby. */
    "INSERT INTO facts VALUES ('glossaries', 0);",
};
enum { VERSION = sizeof(steps) / sizeof(steps[0]) };

/* One statement sees one state of the file; between two, another process may make its tables. */
static int read_version(sqlite3 *db, int64_t *version, struct acre_err *err)
{
    int64_t application = 0, n_tables = 0;
    sqlite3_stmt *statement;
    int rc = store_prepare(db, &statement, err,
                           "SELECT application_id, user_version, (SELECT count(*) FROM "
                           "sqlite_master) FROM pragma_application_id, pragma_user_version",
                           "");

    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1) {
        application = sqlite3_column_int64(statement, 0);
        *version = sqlite3_column_int64(statement, 1);
        n_tables = sqlite3_column_int64(statement, 2);
    }
    sqlite3_finalize(statement);
    if (rc < 0)
        return rc;
    if (application == 0 && n_tables == 0 && *version == 0)
        return 0; /* a new file */
    if (application != APPLICATION_ID)
        return error_set(err, ACRE_EOPTION,
                         "expected a store of acre, found a database of another program");
    if (*version > VERSION)
        return error_set(err, ACRE_EOPTION,
                         "expected a store of version %d at most, found version %lld: it belongs "
                         "to a later acre",
                         VERSION, (long long)*version);
    return 0;
}

int migrations_check(sqlite3 *db, struct acre_err *err)
{
    int64_t version = 0;

    return read_version(db, &version, err);
}

static int migrate(sqlite3 *db, struct acre_err *err)
{
    char pragmas[96];
    int64_t version = 0;

    if (read_version(db, &version, err) != 0)
        return err->code;
    if (version == VERSION)
        return 0;
    for (int64_t i = version; i < VERSION; i++)
        if (store_execute(db, steps[i], err) != 0)
            return err->code;
    snprintf(pragmas, sizeof(pragmas), "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, VERSION);
    return store_execute(db, pragmas, err);
}

int migrations_run(sqlite3 *db, struct acre_err *err)
{
    int rc = store_execute(db, "BEGIN IMMEDIATE", err);

    if (rc != 0)
        return rc;
    rc = migrate(db, err);
    if (rc == 0)
        rc = store_execute(db, "COMMIT", err);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
