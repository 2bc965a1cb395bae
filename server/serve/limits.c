/* Happy path: limits_identify() -> limits_admit() -> with other replicas, shared_ask() ->
 * on_answered() -> the call goes on -> limits_settle().
 *
 * Failure modes: a wrong key, a spent rate or quota: the grant is refused, with the time to wait.
 * Other replicas that do not answer in time: this one's own limits count. */
#include "serve/limits.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "serve/buckets.h"

const char *const limits_refusal_names[LIMITS_REFUSALS] = {"no_key", "bad_key", "key_rate",
                                                           "address_rate", "quota"};

enum { TICK_MS = 500, TELLS_PER_TICK = 1000, NAMED_HASH_BYTES = 16 };

static void hex(const unsigned char *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int limits_open(struct limits *limits, const struct settings *settings, struct store *store,
                struct acre_err *err)
{
    unsigned char bytes[8] = {0};

    limits->settings = settings;
    if (store)
        return keyring_open(store, &limits->keyring, err) == 0
                   ? keys_replica(store_db(store), limits->replica, err)
                   : err->code;
    if (getrandom(bytes, sizeof(bytes), 0) < 0)
        return error_set(err, ACRE_EIO, "the system has no random numbers");
    hex(bytes, sizeof(bytes), limits->replica);
    return 0;
}

static void on_tick(uv_timer_t *timer);

int limits_start(struct limits *limits, uv_loop_t *loop, struct acre_err *err)
{
    if (limits->keyring)
        keyring_start(limits->keyring, loop);
    if (!limits->settings->shared_limits[0])
        return 0;
    uv_timer_init(loop, &limits->timer);
    limits->timer.data = limits;
    uv_timer_start(&limits->timer, on_tick, TICK_MS, TICK_MS);
    if (shared_open(loop, limits->settings->shared_limits, limits->replica, &limits->shared, err) ==
        0)
        return 0;
    uv_close((uv_handle_t *)&limits->timer, NULL);
    return err->code;
}

void limits_stop(struct limits *limits)
{
    keyring_stop(limits->keyring);
    if (!limits->shared)
        return;
    uv_close((uv_handle_t *)&limits->timer, NULL);
    shared_stop(limits->shared);
}

void limits_close(struct limits *limits)
{
    keyring_close(limits->keyring);
    shared_close(limits->shared);
    buckets_close(limits->addresses);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int refuse_key(struct limits *limits, const char *text, struct srv_error *error)
{
    limits->n_refused[text ? LIMITS_BAD_KEY : LIMITS_NO_KEY]++;
    return text ? error_http(error, 403, "invalid_key", "Invalid API key")
                : error_http(error, 403, "key_required", "An API key is required");
}

static int check_key(struct limits *limits, const char *text, struct key **key,
                     struct srv_error *error)
{
    *key = limits->keyring && text ? keyring_find(limits->keyring, text, strlen(text)) : NULL;
    if (*key || !limits->keyring || (!text && !limits->settings->keys_required))
        return 0;
    return refuse_key(limits, text, error);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static int refuse_rate(struct limits *limits, const struct grant *grant, uint64_t wait_ns,
                       struct srv_error *error)
{
    limits->n_refused[grant->key ? LIMITS_KEY_RATE : LIMITS_ADDRESS_RATE]++;
    error_http(error, 429, "too_many_requests", "%lld per 1 minute", (long long)grant->per_minute);
    error->retry_after_s = 1 + (int)((wait_ns - 1) / 1000000000);
    return -1;
}

static int take_token(struct limits *limits, struct grant *grant, struct srv_error *error)
{
    uint64_t wait_ns = 0;
    bool is_taken;

    grant->per_minute = limits->settings->rate_limit;
    if (grant->key && grant->key->requests_per_minute)
        grant->per_minute = grant->key->requests_per_minute;
    if (!grant->key && !grant->address)
        grant->per_minute = 0;
    if (grant->per_minute == 0)
        return 0;
    if (!grant->key && !limits->addresses)
        limits->addresses = buckets_open();
    if (!grant->key && !limits->addresses)
        return error_no_memory(error);
    is_taken = grant->key
                   ? bucket_take(&grant->key->full_ns, grant->per_minute, uv_hrtime(), &wait_ns)
                   : buckets_take(limits->addresses, grant->address, grant->per_minute, uv_hrtime(),
                                  &wait_ns);
    return is_taken ? 0 : refuse_rate(limits, grant, wait_ns, error);
}

/* A request without a good key counts for its address: so do guesses at keys. */
int limits_identify(struct limits *limits, const char *text, uint64_t address, struct grant *grant,
                    struct srv_error *error)
{
    struct srv_error refusal;
    const int rc = check_key(limits, text, &grant->key, &refusal);

    grant->address = address;
    if (take_token(limits, grant, error) != 0)
        return -1;
    if (rc != 0)
        *error = refusal;
    return rc;
}

int limits_check_key(struct limits *limits, const char *text, uint64_t address, struct key **key,
                     struct srv_error *error)
{
    struct grant grant = {.address = address};
    struct srv_error refusal;

    if (check_key(limits, text, key, &refusal) == 0)
        return 0;
    if (!text || take_token(limits, &grant, error) == 0)
        *error = refusal;
    return -1;
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

static int refuse_quota(struct limits *limits, struct key *key, struct srv_error *error)
{
    limits->n_refused[LIMITS_QUOTA]++;
    error_http(error, 429, "quota_exceeded", "%lld of %lld characters of this month are used",
               (long long)key_used(key), (long long)key->characters_per_month);
    error->retry_after_s = (int)keys_month_left_s();
    return -1;
}

static bool is_over(struct key *key, int64_t more)
{
    return key->characters_per_month && key_claimed(key) + more > key->characters_per_month;
}

static void reserve(struct grant *grant, int64_t characters)
{
    if (grant->key)
        key_reserve(grant->key, characters);
    grant->characters = characters;
}

/* ---- Other replicas -------------------------------------------------------------------------- */

static void name_usage(const struct key *key, char name[SHARED_NAME_BYTES])
{
    const int n = snprintf(name, SHARED_NAME_BYTES, "acre:used:%lld:", (long long)key->month);

    hex(key->hash, NAMED_HASH_BYTES, name + n);
}

static void fill_ask(struct grant *grant)
{
    struct shared_ask *ask = &grant->ask;

    ask->bucket[0] = ask->usage[0] = '\0';
    ask->per_minute = grant->per_minute;
    if (grant->key) {
        ask->own = key_own(grant->key); /* and the month is this one */
        name_usage(grant->key, ask->usage);
    }
    if (grant->per_minute && grant->key) {
        strcpy(ask->bucket, "acre:rate:key:");
        hex(grant->key->hash, NAMED_HASH_BYTES, ask->bucket + strlen(ask->bucket));
    } else if (grant->per_minute) {
        snprintf(ask->bucket, sizeof(ask->bucket), "acre:rate:address:%016llx",
                 (unsigned long long)grant->address);
    }
}

static void tell(void *user, struct key *key)
{
    struct limits *limits = user;
    const int64_t own = key_own(key);
    char name[SHARED_NAME_BYTES];

    name_usage(key, name);
    shared_tell(limits->shared, name, own);
}

/* When it is back, it hears of all keys, some at a time. */
static void on_tick(uv_timer_t *timer)
{
    struct limits *limits = timer->data;
    const bool is_up = shared_is_up(limits->shared);

    if (is_up && !limits->was_up && limits->keyring) {
        limits->is_telling = true;
        limits->told = 0;
    }
    limits->was_up = is_up;
    if (!limits->is_telling)
        return;
    keyring_visit(limits->keyring, &limits->told, TELLS_PER_TICK, tell, limits);
    limits->is_telling = limits->told != 0;
}

static void on_answered(struct shared_ask *ask)
{
    struct grant *grant = (struct grant *)(void *)((char *)ask - offsetof(struct grant, ask));
    struct key *key = grant->key;
    struct srv_error error;
    int rc = 0;

    if (ask->is_answered && key)
        key->others = ask->others;
    if (ask->is_answered && ask->wait_ns > 0)
        rc = refuse_rate(grant->limits, grant, ask->wait_ns, &error);
    else if (key && grant->characters > 0 && is_over(key, 0))
        rc = refuse_quota(grant->limits, key, &error);
    grant->done(grant->user, rc, &error);
}

int limits_admit(struct limits *limits, struct grant *grant, int64_t characters,
                 limits_done_fn *done, void *user, struct srv_error *error)
{
    if (grant->key && characters > 0 && is_over(grant->key, characters))
        return refuse_quota(limits, grant->key, error);
    reserve(grant, characters);
    if (!limits->shared || (!grant->key && !grant->per_minute))
        return 0;
    fill_ask(grant);
    grant->limits = limits;
    grant->ask.done = on_answered;
    grant->done = done;
    grant->user = user;
    return shared_ask(limits->shared, &grant->ask) ? LIMITS_LATER : 0;
}

void limits_settle(struct limits *limits, struct grant *grant, bool is_charged)
{
    struct key *key = grant->key;

    if (!key)
        return;
    key_settle(limits->keyring, key, grant->characters, is_charged);
    if (!is_charged && grant->characters > 0 && limits->shared)
        tell(limits, key);
    grant->key = NULL;
}
