/* keys.h - API keys in the store: who may ask, how much, and how much that was.
 *
 * A key is "acre-" and 160 random bits. It is shown once, when it is made; the store has its
 * SHA-256, from which nobody gets it back: what is that random needs no slow hash. A revoked key
 * stays in the store, for what it used; its glossaries do not. Any thread that has the database, in
 * a transaction where it changes something.
 */
#ifndef SERVER_STORE_KEYS_H
#define SERVER_STORE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum { KEYS_TEXT_BYTES = 46, KEYS_HASH_BYTES = 32, KEYS_NAME_BYTES = 65, KEYS_TIME_BYTES = 21 };

struct key_row {
    int64_t id;
    unsigned char hash[KEYS_HASH_BYTES];
    char name[KEYS_NAME_BYTES];
    int64_t characters_per_month, requests_per_minute;       /* 0: no limit; the server's */
    int64_t characters, requests;                            /* of the month asked for */
    char created[KEYS_TIME_BYTES], revoked[KEYS_TIME_BYTES]; /* in UTC; "": it is not */
};

#define KEYS_NAME_EXPECTED "a name of 1 to 64 letters, digits and any of . _ @ -"
bool keys_name_valid(const char *name);

#define KEYS_TEXT_EXPECTED "\"acre-\" and 40 of 0123456789abcdef"
bool keys_text_valid(const char *text, size_t bytes);

void keys_hash(const char *text, size_t bytes, unsigned char hash[KEYS_HASH_BYTES]);

/* The month that it is, in UTC: 12 * year + month from 0; and seconds until the next. */
int64_t keys_month(void);
int64_t keys_month_left_s(void);

/* What no other key is. */
int keys_make_text(char text[KEYS_TEXT_BYTES], struct acre_err *err);

/* The name must not belong to another key that is not revoked, nor the text to any. Of the same
 * key, which is added again, it changes the limits. Limits below 0 are not given. */
int keys_add(sqlite3 *db, const char *name, int64_t characters_per_month,
             int64_t requests_per_minute, const char *text, struct acre_err *err);

/* Changes its limits, where they are not below 0. */
int keys_set(sqlite3 *db, const char *name, int64_t characters_per_month,
             int64_t requests_per_minute, struct acre_err *err);

/* Puts another text in the place of its own: all that belongs to the key stays. */
int keys_renew(sqlite3 *db, const char *name, const char *text, struct acre_err *err);

/* Deletes its glossaries, too. */
int keys_revoke(sqlite3 *db, const char *name, struct acre_err *err);

/* Each key that has changed since *version, which becomes that of now; from 0, each there is.
 * `visit` may fail: then so does this. */
typedef int keys_visit_fn(void *user, const struct key_row *row, struct acre_err *err);
int keys_read(sqlite3 *db, int64_t *version, int64_t month, keys_visit_fn *visit, void *user,
              struct acre_err *err);

/* What keys use is a change of them, too: servers that share the store read it. It has a version
 * that is made first. */
int keys_begin_usage(sqlite3 *db, int64_t *version, struct acre_err *err);

/* Adds to what a key used in a month; *total is what it has used then. */
int keys_add_usage(sqlite3 *db, int64_t version, int64_t id, int64_t month, int64_t characters,
                   int64_t requests, int64_t *total, struct acre_err *err);

/* What this store is called among those of other replicas. */
enum { KEYS_REPLICA_BYTES = 17 };
int keys_replica(sqlite3 *db, char name[KEYS_REPLICA_BYTES], struct acre_err *err);

#endif
