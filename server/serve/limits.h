/* limits.h - who may ask, and how much: keys, their quotas, requests a minute.
 *
 * A request's grant goes through three: limits_identify() finds its key and takes a token of the
 * key's bucket, or of its address's if it has no key; limits_admit() reserves its characters of
 * the key's quota, and asks whether other replicas leave it both; limits_settle() charges them, or
 * gives them back. Refusals say what, not in which words: those are the dialects'. Loop thread
 * only.
 */
#ifndef SERVER_SERVE_LIMITS_H
#define SERVER_SERVE_LIMITS_H

#include "common/error.h"
#include "serve/keyring.h"
#include "serve/settings.h"
#include "serve/shared_limits.h"

enum limits_refusal {
    LIMITS_NO_KEY,
    LIMITS_BAD_KEY,
    LIMITS_KEY_RATE,
    LIMITS_ADDRESS_RATE,
    LIMITS_QUOTA,
    LIMITS_REFUSALS
};
extern const char *const limits_refusal_names[LIMITS_REFUSALS];

struct limits {
    const struct settings *settings;
    struct keyring *keyring;   /* owned; NULL: there is no store, and keys mean nothing */
    struct buckets *addresses; /* owned; NULL: rate_limit was never set */
    struct shared *shared;     /* owned; NULL: there are no other replicas */
    char replica[KEYS_REPLICA_BYTES];
    uv_timer_t timer; /* tells them what was counted while nobody could be asked */
    bool was_up, is_telling;
    size_t told;
    uint64_t n_refused[LIMITS_REFUSALS];
};

/* 0, or refused and why. */
typedef void limits_done_fn(void *user, int rc, const struct srv_error *error);

/* What a request is allowed; all 0 before. */
struct grant {
    struct key *key; /* NULL: it has none */
    uint64_t address;
    int64_t per_minute; /* of its bucket; 0: no limit */
    int64_t characters; /* reserved */

    /* While others are asked. */
    struct limits *limits;
    struct shared_ask ask;
    limits_done_fn *done;
    void *user;
};

/* `store` is open and not started, or NULL. */
int limits_open(struct limits *limits, const struct settings *settings, struct store *store,
                struct acre_err *err);
int limits_start(struct limits *limits, uv_loop_t *loop, struct acre_err *err);
void limits_stop(struct limits *limits); /* then store_stop(), and run the loop once */
void limits_close(struct limits *limits);

/* `text` is what the client has sent as its key, or NULL; `address` is where it is, or 0. Errors:
 * 429 too_many_requests, with the limit in the text; 403 invalid_key, 403 key_required. */
int limits_identify(struct limits *limits, const char *text, uint64_t address, struct grant *grant,
                    struct srv_error *error);

/* The key alone, for what costs nothing; but guesses do, a token of the address's bucket. */
int limits_check_key(struct limits *limits, const char *text, uint64_t address, struct key **key,
                     struct srv_error *error);

/* LIMITS_LATER: others are asked, and done() comes, in SHARED_WAIT_MS at most. Errors: 429
 * quota_exceeded, too_many_requests. */
enum { LIMITS_LATER = 1 };
int limits_admit(struct limits *limits, struct grant *grant, int64_t characters,
                 limits_done_fn *done, void *user, struct srv_error *error);

/* The request ends. May be called for a grant that is all 0. */
void limits_settle(struct limits *limits, struct grant *grant, bool is_charged);

#endif
