/* keyring.h - the API keys of a running server: found by what clients send, and what each used.
 *
 * The store has them, and memory all of them; once a second a task of the store writes what has
 * been used and reads which keys have changed, or have been used by others. So the loop waits for
 * no disk, `acre keys revoke` counts within two seconds, and a crash loses the usage of as long.
 * Several servers may share one store. Loop thread only.
 */
#ifndef SERVER_SERVE_KEYRING_H
#define SERVER_SERVE_KEYRING_H

#include "store/keys.h"

struct key {
    int64_t id;
    unsigned char hash[KEYS_HASH_BYTES];
    char name[KEYS_NAME_BYTES];
    int64_t characters_per_month, requests_per_minute; /* 0: no limit; the server's */
    bool is_revoked;
    uint64_t full_ns; /* its bucket, see buckets.h */

    /* Characters of this month: in the store; on their way there; not yet; of requests that are
     * not replied to; what other replicas say that they have counted. */
    int64_t month, stored, saving, unsaved, reserved, others;
    int64_t requests_saving, requests_unsaved;

    struct key *next, *next_id; /* in its buckets */
    struct key *next_used;
    bool is_used; /* in the list of those that the store has to hear of */
};

struct keyring;

/* Reads all keys; waits for the disk. Before store_start(). */
int keyring_open(struct store *store, struct keyring **keyring, struct acre_err *err);

/* From then on it follows the store, which is started. */
void keyring_start(struct keyring *keyring, uv_loop_t *loop);

/* Follows no more, if it was started; then run the loop once. NULL is allowed, also below. */
void keyring_stop(struct keyring *keyring);

/* Stores what is not stored yet, which waits for the disk: after store_stop(). */
void keyring_close(struct keyring *keyring);

/* NULL: no key, or one that is revoked. */
struct key *keyring_find(struct keyring *keyring, const char *text, size_t bytes);

size_t keyring_count(const struct keyring *keyring); /* those that are not revoked */

/* Each of them that has used something this month, `most` at a time: *at is 0 first, and 0 again
 * after the last. */
typedef void keyring_visit_fn(void *user, struct key *key);
void keyring_visit(struct keyring *keyring, size_t *at, size_t most, keyring_visit_fn *visit,
                   void *user);

/* Characters used this month, here and elsewhere: as its owner is told; and as its quota counts
 * them, with those of requests that are not replied to yet. */
int64_t key_used(struct key *key);
int64_t key_claimed(struct key *key);

/* The part of key_claimed() that is of this store. */
int64_t key_own(struct key *key);

/* A request begins with so many characters, and ends: with them, or with none. */
void key_reserve(struct key *key, int64_t characters);
void key_settle(struct keyring *keyring, struct key *key, int64_t characters, bool is_charged);

#endif
