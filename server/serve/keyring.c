/* Happy path: on_tick() takes what was used -> save() in the store's thread -> on_saved(); likewise
 * read_changes() -> on_read() puts in place what `acre keys` has changed, and what other servers on
 * the store have used.
 *
 * Failure modes: what the store refuses is kept and tried again a second later; the log says so
 * once, and when it is over. A disk that takes nothing does not keep keys from being revoked. */
#include "serve/keyring.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/grow.h"
#include "serve/store_log.h"

enum { TICK_MS = 1000, N_BUCKETS = 16384 };

struct use {
    struct key *key;
    int64_t id, characters, requests, total;
};

/* What the store's thread has while one of them runs. */
struct saving {
    struct store_task task;
    struct keyring *keyring;
    int64_t month;
    struct use *uses; /* owned, [n_uses] */
    size_t n_uses, capacity;
    bool is_queued, is_failing;
};

struct reading {
    struct store_task task;
    struct keyring *keyring;
    int64_t month, version, version_now;
    struct key_row *rows; /* owned, [n_rows]: keys that changed */
    size_t n_rows, capacity;
    bool is_queued, is_failing;
};

struct keyring {
    struct store *store;
    struct key *buckets[N_BUCKETS]; /* by hash */
    struct key *ids[N_BUCKETS];     /* by id */
    size_t n_keys;                  /* not revoked */
    struct key *used;
    uv_timer_t timer;
    struct saving saving;
    struct reading reading;
};

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Nobody can choose what SHA-256 gives, nor learn from the time of this search what to send. */
static struct key **bucket_of(struct keyring *keyring, const unsigned char hash[KEYS_HASH_BYTES])
{
    return &keyring->buckets[(hash[0] << 8 | hash[1]) % N_BUCKETS];
}

static struct key *find_hash(struct keyring *keyring, const unsigned char hash[KEYS_HASH_BYTES])
{
    struct key *key = *bucket_of(keyring, hash);

    while (key && CRYPTO_memcmp(key->hash, hash, KEYS_HASH_BYTES) != 0)
        key = key->next;
    return key;
}

struct key *keyring_find(struct keyring *keyring, const char *text, size_t bytes)
{
    unsigned char hash[KEYS_HASH_BYTES];
    struct key *key;

    if (bytes != KEYS_TEXT_BYTES - 1)
        return NULL;
    keys_hash(text, bytes, hash);
    key = find_hash(keyring, hash);
    return key && !key->is_revoked ? key : NULL;
}

size_t keyring_count(const struct keyring *keyring)
{
    return keyring->n_keys;
}

/* The store counts them up: each bucket has as many. */
static struct key **bucket_of_id(struct keyring *keyring, int64_t id)
{
    return &keyring->ids[id % N_BUCKETS];
}

static struct key *find_id(struct keyring *keyring, int64_t id)
{
    struct key *key = *bucket_of_id(keyring, id);

    while (key && key->id != id)
        key = key->next_id;
    return key;
}

static void enter(struct keyring *keyring, struct key *key, const struct key_row *row)
{
    struct key **bucket = bucket_of(keyring, row->hash);

    memcpy(key->hash, row->hash, KEYS_HASH_BYTES);
    key->next = *bucket;
    *bucket = key;
}

static void leave(struct keyring *keyring, const struct key *key)
{
    struct key **at = bucket_of(keyring, key->hash);

    while (*at != key)
        at = &(*at)->next;
    *at = key->next;
}

/* A new month begins with nothing used. What was not stored by then counts in the new one. */
static void roll(struct key *key)
{
    const int64_t month = keys_month();

    if (key->month == month)
        return;
    key->month = month;
    key->stored = key->others = 0;
}

/* Other servers on this store have added to it. What was read before a save that has yet to come
 * back is in that one's total. */
static void raise_stored(struct key *key, int64_t characters, int64_t month)
{
    roll(key);
    if (key->month == month && key->saving == 0 && characters > key->stored)
        key->stored = characters;
}

static struct key *add(struct keyring *keyring, const struct key_row *row, int64_t month)
{
    struct key **bucket = bucket_of_id(keyring, row->id), *key = calloc(1, sizeof(*key));

    if (!key)
        return NULL;
    key->id = row->id;
    strcpy(key->name, row->name);
    key->month = month;
    key->is_revoked = true; /* not counted yet */
    key->next_id = *bucket;
    *bucket = key;
    enter(keyring, key, row);
    return key;
}

static int take_row(struct keyring *keyring, const struct key_row *row, int64_t month,
                    struct acre_err *err)
{
    struct key *key = find_id(keyring, row->id);

    if (key && memcmp(key->hash, row->hash, KEYS_HASH_BYTES) != 0) {
        leave(keyring, key);
        enter(keyring, key, row);
    } else if (!key && !(key = add(keyring, row, month))) {
        return error_set_no_memory(err);
    }
    keyring->n_keys -= !key->is_revoked;
    key->characters_per_month = row->characters_per_month;
    key->requests_per_minute = row->requests_per_minute;
    key->is_revoked = row->revoked[0] != '\0';
    keyring->n_keys += !key->is_revoked;
    raise_stored(key, row->characters, month);
    return 0;
}

void keyring_visit(struct keyring *keyring, size_t *at, size_t most, keyring_visit_fn *visit,
                   void *user)
{
    size_t n = 0;

    while (*at < N_BUCKETS && n < most) {
        for (struct key *key = keyring->buckets[*at]; key; key = key->next, n++)
            if (key_own(key) > 0)
                visit(user, key);
        ++*at;
        n++;
    }
    if (*at == N_BUCKETS)
        *at = 0;
}

/* ---- Usage ----------------------------------------------------------------------------------- */

int64_t key_own(struct key *key)
{
    roll(key);
    return key->stored + key->saving + key->unsaved + key->reserved;
}

int64_t key_claimed(struct key *key)
{
    const int64_t own = key_own(key);

    return own + key->others;
}

int64_t key_used(struct key *key)
{
    return key_claimed(key) - key->reserved;
}

void key_reserve(struct key *key, int64_t characters)
{
    roll(key);
    key->reserved += characters;
}

static void mark_used(struct keyring *keyring, struct key *key)
{
    if (key->is_used)
        return;
    key->is_used = true;
    key->next_used = keyring->used;
    keyring->used = key;
}

void key_settle(struct keyring *keyring, struct key *key, int64_t characters, bool is_charged)
{
    roll(key);
    key->reserved -= characters;
    if (!is_charged)
        return;
    key->unsaved += characters;
    key->requests_unsaved++;
    mark_used(keyring, key);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* Store's thread. */
static int save(sqlite3 *db, struct store_task *task)
{
    struct saving *saving = (struct saving *)(void *)task;
    int64_t version = 0;
    int rc = keys_begin_usage(db, &version, &task->err);

    for (size_t i = 0; i < saving->n_uses && rc == 0; i++) {
        struct use *use = &saving->uses[i];

        rc = keys_add_usage(db, version, use->id, saving->month, use->characters, use->requests,
                            &use->total, &task->err);
    }
    return rc;
}

/* Without memory for all, what is left waits for the next time. */
static void take_used(struct keyring *keyring)
{
    struct saving *saving = &keyring->saving;

    saving->n_uses = 0;
    saving->month = keys_month();
    while (keyring->used &&
           grow(&saving->uses, sizeof(saving->uses[0]), saving->n_uses + 1, &saving->capacity)) {
        struct key *key = keyring->used;

        keyring->used = key->next_used;
        key->is_used = false;
        key->saving = key->unsaved;
        key->requests_saving = key->requests_unsaved;
        key->unsaved = key->requests_unsaved = 0;
        saving->uses[saving->n_uses++] = (struct use){
            .key = key, .id = key->id, .characters = key->saving, .requests = key->requests_saving};
    }
}

static void on_saved(struct store_task *task)
{
    struct saving *saving = (struct saving *)(void *)task;
    struct keyring *keyring = saving->keyring;

    saving->is_queued = false;
    store_log(task, "what keys use is counted in memory alone", &saving->is_failing);
    for (size_t i = 0; i < saving->n_uses; i++) {
        struct key *key = saving->uses[i].key;

        if (task->rc != 0) {
            key->unsaved += key->saving;
            key->requests_unsaved += key->requests_saving;
            mark_used(keyring, key);
        } else if (key->month == saving->month) {
            key->stored = saving->uses[i].total;
        }
        key->saving = key->requests_saving = 0;
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int keep_row(void *user, const struct key_row *row, struct acre_err *err)
{
    struct reading *reading = user;

    if (!grow(&reading->rows, sizeof(reading->rows[0]), reading->n_rows + 1, &reading->capacity))
        return error_set_no_memory(err);
    reading->rows[reading->n_rows++] = *row;
    return 0;
}

/* Store's thread. */
static int read_changes(sqlite3 *db, struct store_task *task)
{
    struct reading *reading = (struct reading *)(void *)task;

    reading->n_rows = 0;
    reading->month = keys_month();
    reading->version_now = reading->version;
    return keys_read(db, &reading->version_now, reading->month, keep_row, reading, &task->err);
}

static int take_rows(struct keyring *keyring, struct acre_err *err)
{
    struct reading *reading = &keyring->reading;
    int rc = 0;

    for (size_t i = 0; i < reading->n_rows && rc == 0; i++)
        rc = take_row(keyring, &reading->rows[i], reading->month, err);
    if (rc == 0)
        reading->version = reading->version_now;
    return rc;
}

static void on_read(struct store_task *task)
{
    struct reading *reading = (struct reading *)(void *)task;
    struct keyring *keyring = reading->keyring;

    reading->is_queued = false;
    if (task->rc == 0)
        task->rc = take_rows(keyring, &task->err);
    store_log(task, "changes of keys are not seen", &reading->is_failing);
}

static void on_tick(uv_timer_t *timer)
{
    struct keyring *keyring = timer->data;

    if (!keyring->saving.is_queued && keyring->used) {
        keyring->saving.is_queued = true;
        take_used(keyring);
        store_queue(keyring->store, &keyring->saving.task);
    }
    if (!keyring->reading.is_queued) {
        keyring->reading.is_queued = true;
        store_queue(keyring->store, &keyring->reading.task);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int keyring_open(struct store *store, struct keyring **out, struct acre_err *err)
{
    struct keyring *keyring = calloc(1, sizeof(*keyring));
    struct reading *reading;

    if (!keyring)
        return error_set_no_memory(err);
    keyring->store = store;
    keyring->saving.keyring = keyring->reading.keyring = keyring;
    keyring->saving.task = (struct store_task){.run = save, .done = on_saved};
    reading = &keyring->reading;
    reading->task = (struct store_task){.run = read_changes, .done = on_read};
    reading->task.rc = read_changes(store_db(store), &reading->task);
    if (reading->task.rc == 0)
        reading->task.rc = take_rows(keyring, &reading->task.err);
    if (reading->task.rc == 0) {
        *out = keyring;
        return 0;
    }
    *err = reading->task.err;
    keyring_close(keyring);
    return err->code;
}

void keyring_start(struct keyring *keyring, uv_loop_t *loop)
{
    uv_timer_init(loop, &keyring->timer);
    keyring->timer.data = keyring;
    uv_timer_start(&keyring->timer, on_tick, TICK_MS, TICK_MS);
}

void keyring_stop(struct keyring *keyring)
{
    if (keyring && keyring->timer.data)
        uv_close((uv_handle_t *)&keyring->timer, NULL);
}

/* Nobody else has the store any more. */
static void save_rest(struct keyring *keyring)
{
    struct saving *saving = &keyring->saving;
    sqlite3 *db = store_db(keyring->store);
    struct store_task *task = &saving->task;

    take_used(keyring);
    task->rc = store_execute(db, "BEGIN IMMEDIATE", &task->err);
    if (task->rc == 0)
        task->rc = save(db, task);
    if (task->rc == 0)
        task->rc = store_execute(db, "COMMIT", &task->err);
    on_saved(task);
}

void keyring_close(struct keyring *keyring)
{
    if (!keyring)
        return;
    if (keyring->store && keyring->used)
        save_rest(keyring);
    for (size_t i = 0; i < N_BUCKETS; i++)
        for (struct key *key = keyring->buckets[i], *next; key; key = next) {
            next = key->next;
            free(key);
        }
    free(keyring->saving.uses);
    free(keyring->reading.rows);
    free(keyring);
}
