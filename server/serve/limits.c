#include "serve/limits.h"

#include <string.h>

#include "serve/buckets.h"

const char *const limits_refusal_names[LIMITS_REFUSALS] = {"no_key", "bad_key", "key_rate",
                                                           "address_rate", "quota"};

/* ---- Opening and closing --------------------------------------------------------------------- */

int limits_open(struct limits *limits, const struct settings *settings, struct store *store,
                struct acre_err *err)
{
    limits->settings = settings;
    return store ? keyring_open(store, &limits->keyring, err) : 0;
}

void limits_start(struct limits *limits, uv_loop_t *loop)
{
    if (limits->keyring)
        keyring_start(limits->keyring, loop);
}

void limits_stop(struct limits *limits)
{
    keyring_stop(limits->keyring);
}

void limits_close(struct limits *limits)
{
    keyring_close(limits->keyring);
    buckets_close(limits->addresses);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int refuse_key(struct limits *limits, const char *text, struct srv_error *error)
{
    limits->n_refused[text ? LIMITS_BAD_KEY : LIMITS_NO_KEY]++;
    return text ? error_reply(error, 403, "invalid_key", "Invalid API key")
                : error_reply(error, 403, "key_required", "An API key is required");
}

int limits_check_key(struct limits *limits, const char *text, struct key **key,
                     struct srv_error *error)
{
    *key = limits->keyring && text ? keyring_find(limits->keyring, text, strlen(text)) : NULL;
    if (*key || !limits->keyring || (!text && !limits->settings->keys_required))
        return 0;
    return refuse_key(limits, text, error);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static int refuse_rate(struct limits *limits, enum limits_refusal which, int64_t per_minute,
                       uint64_t wait_ns, struct srv_error *error)
{
    limits->n_refused[which]++;
    error_reply(error, 429, "too_many_requests", "%lld per 1 minute", (long long)per_minute);
    error->retry_after_s = 1 + (int)((wait_ns - 1) / 1000000000);
    return -1;
}

static int take_of_address(struct limits *limits, uint64_t address, struct srv_error *error)
{
    const int64_t per_minute = limits->settings->rate_limit;
    uint64_t wait_ns;

    if (per_minute == 0 || address == 0)
        return 0;
    if (!limits->addresses)
        limits->addresses = buckets_open();
    if (!limits->addresses)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    if (buckets_take(limits->addresses, address, per_minute, uv_hrtime(), &wait_ns))
        return 0;
    return refuse_rate(limits, LIMITS_ADDRESS_RATE, per_minute, wait_ns, error);
}

static int take_of_key(struct limits *limits, struct key *key, struct srv_error *error)
{
    const int64_t per_minute =
        key->requests_per_minute ? key->requests_per_minute : limits->settings->rate_limit;
    uint64_t wait_ns;

    if (per_minute == 0 || bucket_take(&key->full_ns, per_minute, uv_hrtime(), &wait_ns))
        return 0;
    return refuse_rate(limits, LIMITS_KEY_RATE, per_minute, wait_ns, error);
}

/* Who has no good key asks from an address, also while guessing. */
int limits_identify(struct limits *limits, const char *text, uint64_t address, struct grant *grant,
                    struct srv_error *error)
{
    struct srv_error refusal;
    const int rc = limits_check_key(limits, text, &grant->key, &refusal);

    if (grant->key)
        return take_of_key(limits, grant->key, error);
    if (take_of_address(limits, address, error) != 0)
        return -1;
    if (rc != 0)
        *error = refusal;
    return rc;
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

int limits_admit(struct limits *limits, struct grant *grant, int64_t characters,
                 struct srv_error *error)
{
    struct key *key = grant->key;

    if (!key)
        return 0;
    if (key->characters_per_month && key_claimed(key) + characters > key->characters_per_month) {
        limits->n_refused[LIMITS_QUOTA]++;
        error_reply(error, 429, "quota_exceeded", "%lld of %lld characters of this month are used",
                    (long long)key_used(key), (long long)key->characters_per_month);
        error->retry_after_s = (int)keys_month_left_s();
        return -1;
    }
    key_reserve(key, characters);
    grant->characters = characters;
    return 0;
}

void limits_settle(struct limits *limits, struct grant *grant, bool is_charged)
{
    if (grant->key)
        key_settle(limits->keyring, grant->key, grant->characters, is_charged);
    *grant = (struct grant){.key = NULL};
}
