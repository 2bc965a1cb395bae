/* Happy path: keys_make_text() -> keys_add() stores its hash; servers read what changed since they
 * last looked, and add up usage by month and replica.
 *
 * Failure modes: a name or a text that is taken, a name that is not there; an error of SQLite, as
 * it says it. */
#include "store/keys.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/error.h"
#include "store/facts.h"

#define TEXT_START "acre-"
enum { RANDOM_BYTES = 20, START_BYTES = sizeof(TEXT_START) - 1 };

bool keys_name_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._@-";
    const size_t n = strspn(name, letters);

    return n > 0 && n < KEYS_NAME_BYTES && !name[n];
}

bool keys_text_valid(const char *text, size_t bytes)
{
    return bytes == KEYS_TEXT_BYTES - 1 && strncmp(text, TEXT_START, START_BYTES) == 0 &&
           strspn(text + START_BYTES, "0123456789abcdef") == 2 * RANDOM_BYTES;
}

void keys_hash(const char *text, size_t bytes, unsigned char hash[KEYS_HASH_BYTES])
{
    SHA256((const unsigned char *)text, bytes, hash);
}

int64_t keys_month(void)
{
    const time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    return 12 * ((int64_t)utc.tm_year + 1900) + utc.tm_mon;
}

int64_t keys_month_left_s(void)
{
    const time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    utc.tm_mon++;
    utc.tm_mday = 1;
    utc.tm_hour = utc.tm_min = utc.tm_sec = 0;
    return (int64_t)(timegm(&utc) - now);
}

/* ---- Adding, changing and revoking ----------------------------------------------------------- */

int keys_make_text(char text[KEYS_TEXT_BYTES], struct acre_err *err)
{
    unsigned char bytes[RANDOM_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != RANDOM_BYTES)
        return error_set(err, ACRE_EIO, "the system has no random numbers");
    strcpy(text, TEXT_START);
    for (size_t i = 0; i < RANDOM_BYTES; i++)
        sprintf(text + START_BYTES + 2 * i, "%02x", bytes[i]);
    return 0;
}

/* *id is 0 if there is none that is not revoked. */
static int find(sqlite3 *db, const char *name, int64_t *id, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = store_prepare(db, &statement, err,
                           "SELECT id FROM keys WHERE name = ? AND revoked IS NULL", "s", name);

    *id = 0;
    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1)
        *id = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc < 0 ? rc : 0;
}

/* A change of the key of that name begins. */
static int begin_change(sqlite3 *db, const char *name, int64_t *id, int64_t *version,
                        struct acre_err *err)
{
    if (find(db, name, id, err) != 0)
        return err->code;
    if (!*id)
        return error_set(err, ACRE_EOPTION,
                         "expected the name of a key that is not revoked, found %s", name);
    return facts_count(db, "keys", version, err);
}

/* Hashes `text`, which no other key may have, not even a revoked one: that one would be back. */
static int hash_new(sqlite3 *db, int64_t id, const char *text, unsigned char hash[KEYS_HASH_BYTES],
                    struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc;

    keys_hash(text, strlen(text), hash);
    rc = store_prepare(db, &statement, err, "SELECT name FROM keys WHERE hash = ? AND id <> ?",
                       "bi", hash, (size_t)KEYS_HASH_BYTES, id);
    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1)
        rc = error_set(err, ACRE_EOPTION, "expected a new key, found that of %s",
                       (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return rc;
}

/* 1: the key has this text. */
static int has_text(sqlite3 *db, int64_t id, const char *text, struct acre_err *err)
{
    unsigned char hash[KEYS_HASH_BYTES];
    sqlite3_stmt *statement;
    int rc;

    keys_hash(text, strlen(text), hash);
    rc = store_prepare(db, &statement, err, "SELECT 1 FROM keys WHERE hash = ? AND id = ?", "bi",
                       hash, (size_t)KEYS_HASH_BYTES, id);
    if (rc == 0)
        rc = store_step(statement, err);
    sqlite3_finalize(statement);
    return rc;
}

int keys_add(sqlite3 *db, const char *name, int64_t characters_per_month,
             int64_t requests_per_minute, const char *text, struct acre_err *err)
{
    unsigned char hash[KEYS_HASH_BYTES];
    int64_t version = 0, id;
    int rc;

    if (find(db, name, &id, err) != 0)
        return err->code;
    rc = id ? has_text(db, id, text, err) : 0;
    if (rc == 1)
        return keys_set(db, name, characters_per_month, requests_per_minute, err);
    if (id)
        return rc < 0 ? rc
                      : error_set(err, ACRE_EOPTION,
                                  "expected a new name, found %s, which has a key", name);
    if (hash_new(db, id, text, hash, err) != 0 || facts_count(db, "keys", &version, err) != 0)
        return err->code;
    return store_do(
        db, err,
        "INSERT INTO keys (hash, name, characters_per_month, requests_per_minute, "
        "created, changed) VALUES (?, ?, max(?, 0), max(?, 0), strftime('%Y-%m-%dT%H:%M:%SZ'), ?)",
        "bsiii", hash, sizeof(hash), name, characters_per_month, requests_per_minute, version);
}

int keys_set(sqlite3 *db, const char *name, int64_t characters_per_month,
             int64_t requests_per_minute, struct acre_err *err)
{
    int64_t version = 0, id;

    if (begin_change(db, name, &id, &version, err) != 0)
        return err->code;
    return store_do(db, err,
                    "UPDATE keys SET changed = ?1, "
                    "characters_per_month = iif(?2 < 0, characters_per_month, ?2), "
                    "requests_per_minute = iif(?3 < 0, requests_per_minute, ?3) WHERE id = ?4",
                    "iiii", version, characters_per_month, requests_per_minute, id);
}

int keys_renew(sqlite3 *db, const char *name, const char *text, struct acre_err *err)
{
    unsigned char hash[KEYS_HASH_BYTES];
    int64_t version = 0, id;

    if (begin_change(db, name, &id, &version, err) != 0 || hash_new(db, id, text, hash, err) != 0)
        return err->code;
    return store_do(db, err, "UPDATE keys SET hash = ?, changed = ? WHERE id = ?", "bii", hash,
                    sizeof(hash), version, id);
}

/* Nobody could find or delete them any more, and they would take room for good. */
static int drop_glossaries(sqlite3 *db, int64_t owner, struct acre_err *err)
{
    int64_t version;
    int rc = store_do(db, err,
                      "DELETE FROM dictionaries WHERE glossary IN "
                      "(SELECT id FROM glossaries WHERE owner = ?)",
                      "i", owner);

    if (rc == 0)
        rc = store_do(db, err, "DELETE FROM glossaries WHERE owner = ?", "i", owner);
    return rc == 0 ? facts_count(db, "glossaries", &version, err) : rc;
}

int keys_revoke(sqlite3 *db, const char *name, struct acre_err *err)
{
    int64_t version = 0, id;

    if (begin_change(db, name, &id, &version, err) != 0 || drop_glossaries(db, id, err) != 0)
        return err->code;
    return store_do(db, err,
                    "UPDATE keys SET revoked = strftime('%Y-%m-%dT%H:%M:%SZ'), changed = ? "
                    "WHERE id = ?",
                    "ii", version, id);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t to_bytes, sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    snprintf(to, to_bytes, "%s", text ? text : "");
}

static int read_row(sqlite3_stmt *statement, struct key_row *row, struct acre_err *err)
{
    row->id = sqlite3_column_int64(statement, 0);
    if (sqlite3_column_bytes(statement, 1) != KEYS_HASH_BYTES)
        return error_set(err, ACRE_EIO, "key %lld: expected a hash of %d bytes, found %d",
                         (long long)row->id, KEYS_HASH_BYTES, sqlite3_column_bytes(statement, 1));
    memcpy(row->hash, sqlite3_column_blob(statement, 1), KEYS_HASH_BYTES);
    copy_text(row->name, sizeof(row->name), statement, 2);
    row->characters_per_month = sqlite3_column_int64(statement, 3);
    row->requests_per_minute = sqlite3_column_int64(statement, 4);
    copy_text(row->created, sizeof(row->created), statement, 5);
    copy_text(row->revoked, sizeof(row->revoked), statement, 6);
    row->characters = sqlite3_column_int64(statement, 7);
    row->requests = sqlite3_column_int64(statement, 8);
    return 0;
}

static int read_changed(sqlite3 *db, int64_t since, int64_t month, keys_visit_fn *visit, void *user,
                        struct acre_err *err)
{
    sqlite3_stmt *statement;
    struct key_row row;
    int rc = store_prepare(db, &statement, err,
                           "SELECT id, hash, name, characters_per_month, requests_per_minute, "
                           "created, revoked, coalesce(characters, 0), coalesce(requests, 0) "
                           "FROM keys LEFT JOIN usage ON usage.key = id AND month = ? "
                           "WHERE changed > ? ORDER BY id",
                           "ii", month, since);

    if (rc != 0)
        return rc;
    while ((rc = store_step(statement, err)) == 1) {
        rc = read_row(statement, &row, err);
        if (rc == 0)
            rc = visit(user, &row, err);
        if (rc != 0)
            break;
    }
    sqlite3_finalize(statement);
    return rc;
}

int keys_read(sqlite3 *db, int64_t *version, int64_t month, keys_visit_fn *visit, void *user,
              struct acre_err *err)
{
    int64_t now = 0;
    int rc = facts_number(db, "keys", &now, err);

    if (rc == 0 && now != *version)
        rc = read_changed(db, *version, month, visit, user, err);
    if (rc == 0)
        *version = now;
    return rc;
}

int keys_replica(sqlite3 *db, char name[KEYS_REPLICA_BYTES], struct acre_err *err)
{
    return facts_word(db, "replica", name, KEYS_REPLICA_BYTES, err);
}

/* ---- Usage ----------------------------------------------------------------------------------- */

int keys_begin_usage(sqlite3 *db, int64_t *version, struct acre_err *err)
{
    return facts_count(db, "keys", version, err);
}

int keys_add_usage(sqlite3 *db, int64_t version, int64_t id, int64_t month, int64_t characters,
                   int64_t requests, int64_t *total, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = store_prepare(db, &statement, err,
                           "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                           "characters = characters + excluded.characters, "
                           "requests = requests + excluded.requests RETURNING characters",
                           "iiii", id, month, characters, requests);

    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1) {
        *total = sqlite3_column_int64(statement, 0);
        rc = store_step(statement, err);
    }
    sqlite3_finalize(statement);
    return rc ? rc
              : store_do(db, err, "UPDATE keys SET changed = ? WHERE id = ?", "ii", version, id);
}
