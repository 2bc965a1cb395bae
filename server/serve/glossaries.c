/* Happy path: glossaries_change() swaps glossaries in the list -> the store's thread writes the new
 * one (write_change) -> on_written() frees the old one and tells.
 *
 * Failure modes: too many, or too large, refused before anything changes. The store fails: the old
 * one comes back; where a later change has already taken the place of the new one, it comes back if
 * that one fails, too. Another server has changed or deleted the old one: what the store has comes
 * instead of it, likewise. */
#include "serve/glossaries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "common/grow.h"
#include "common/language.h"
#include "common/log.h"
#include "serve/keyring.h"

/* Each holds what it replaces in memory; the store writes some hundreds in a second. */
enum { MAX_CHANGES = 64 };

struct glossary_change {
    struct store_task task;
    struct glossaries *glossaries;
    struct glossary *before, *after; /* `before` owned */
    struct glossary *back;           /* owned: comes back in place of a `before` that failed */
    bool has_back;
    bool is_outdated;       /* `found` is in the store, not `before` */
    struct glossary *found; /* owned; or NULL */
    glossaries_done_fn *done;
    void *user;
    struct glossaries_seen seen; /* once it is written */
    struct glossary_change *next;
};

/* ---- One glossary ---------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* RFC 9562, version 4. */
static bool make_id(char id[GLOSSARY_ID_BYTES])
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        return false;
    b[6] = (unsigned char)((b[6] & 0x0F) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
    snprintf(id, GLOSSARY_ID_BYTES,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
    return true;
}

struct glossary *glossary_new(const char *name, int64_t owner)
{
    struct glossary *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->n_references = 1;
    g->owner = owner;
    g->created_ms = now_ms();
    g->name = strdup(name);
    if (!g->name || !make_id(g->id)) {
        glossary_drop(g);
        return NULL;
    }
    return g;
}

void glossary_hold(struct glossary *g)
{
    g->n_references++;
}

void glossary_drop(struct glossary *g)
{
    if (!g || --g->n_references > 0)
        return;
    for (size_t i = 0; i < g->n_parts; i++)
        dictionary_drop(g->parts[i].dictionary);
    free(g->parts);
    free(g->name);
    free(g);
}

bool glossary_add(struct glossary *g, const struct glossary_part *part)
{
    struct glossary_part *more = realloc(g->parts, (g->n_parts + 1) * sizeof(*more));

    if (!more)
        return false;
    g->parts = more;
    g->parts[g->n_parts++] = *part;
    dictionary_hold(part->dictionary);
    return true;
}

struct glossary_part *glossary_find_part(const struct glossary *g, const char *source,
                                         const char *target)
{
    for (size_t i = 0; i < g->n_parts; i++)
        if (language_is_same(g->parts[i].source, source) &&
            language_is_same(g->parts[i].target, target))
            return &g->parts[i];
    return NULL;
}

/* The same, with `instead` in the place of one part. */
static struct glossary *copy(const struct glossary *g, const char *name,
                             const struct glossary_part *but, const struct glossary_part *instead)
{
    struct glossary *after = glossary_new(name, g->owner);
    bool is_done = after;

    for (size_t i = 0; is_done && i < g->n_parts; i++)
        if (&g->parts[i] != but)
            is_done = glossary_add(after, &g->parts[i]);
        else if (instead)
            is_done = glossary_add(after, instead);
    if (is_done && !but && instead)
        is_done = glossary_add(after, instead);
    if (!is_done) {
        glossary_drop(after);
        return NULL;
    }
    memcpy(after->id, g->id, sizeof(after->id));
    after->created_ms = g->created_ms;
    return after;
}

struct glossary *glossary_with(const struct glossary *g, const char *name,
                               const struct glossary_part *part)
{
    return copy(g, name ? name : g->name,
                part ? glossary_find_part(g, part->source, part->target) : NULL, part);
}

struct glossary *glossary_without(const struct glossary *g, const struct glossary_part *part)
{
    return copy(g, g->name, part, NULL);
}

int64_t glossary_owner(const struct key *key)
{
    return key ? key->id : GLOSSARY_NOBODY;
}

/* ---- The list -------------------------------------------------------------------------------- */

int glossaries_open(struct glossaries *glossaries, const struct settings *settings,
                    struct store *store, const struct keyring *keyring, struct acre_err *err)
{
    *glossaries = (struct glossaries){.settings = settings, .store = store, .keyring = keyring};
    return store ? glossaries_load(glossaries, store_db(store), err) : 0;
}

void glossaries_close(struct glossaries *glossaries)
{
    for (size_t i = 0; i < glossaries->n_items; i++)
        glossary_drop(glossaries->items[i]);
    free(glossaries->items);
    follower_free(glossaries->follower);
    glossaries->follower = NULL;
    glossaries->items = NULL;
    glossaries->n_items = glossaries->capacity = 0;
}

struct glossary *glossaries_find(const struct glossaries *glossaries, const char *id, int64_t owner)
{
    for (size_t i = 0; i < glossaries->n_items; i++)
        if (glossaries->items[i]->owner == owner && strcasecmp(glossaries->items[i]->id, id) == 0)
            return glossaries->items[i];
    return NULL;
}

static size_t count_of(const struct glossaries *glossaries, int64_t owner)
{
    size_t n = 0;

    for (size_t i = 0; i < glossaries->n_items; i++)
        n += glossaries->items[i]->owner == owner;
    return n;
}

bool glossaries_list(const struct glossaries *glossaries, int64_t owner, struct glossary ***list,
                     size_t *n)
{
    *n = 0;
    *list = calloc(count_of(glossaries, owner) + 1, sizeof(**list));
    for (size_t i = 0; *list && i < glossaries->n_items; i++) {
        if (glossaries->items[i]->owner != owner)
            continue;
        glossary_hold(glossaries->items[i]);
        (*list)[(*n)++] = glossaries->items[i];
    }
    return *list;
}

void glossaries_drop_list(struct glossary **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        glossary_drop(list[i]);
    free(list);
}

static size_t memory_of(const struct glossary *g)
{
    size_t bytes = 0;

    for (size_t i = 0; g && i < g->n_parts; i++)
        bytes += dictionary_memory(g->parts[i].dictionary);
    return bytes;
}

bool glossaries_append(struct glossaries *glossaries, struct glossary *g)
{
    if (!grow(&glossaries->items, sizeof(glossaries->items[0]), glossaries->n_items + 1,
              &glossaries->capacity))
        return false;
    glossaries->items[glossaries->n_items++] = g;
    glossaries->bytes += memory_of(g);
    return true;
}

/* `before` is in the list, or NULL; `after` may be NULL. */
bool glossaries_swap(struct glossaries *glossaries, const struct glossary *before,
                     struct glossary *after)
{
    size_t i = 0;

    if (!before)
        return glossaries_append(glossaries, after);
    while (i < glossaries->n_items && glossaries->items[i] != before)
        i++;
    if (i == glossaries->n_items)
        return false;
    glossaries->bytes += memory_of(after) - memory_of(before);
    glossaries->items[i] = after;
    if (after)
        return true;
    glossaries->n_items--;
    memmove(&glossaries->items[i], &glossaries->items[i + 1],
            (glossaries->n_items - i) * sizeof(glossaries->items[0]));
    return true;
}

/* ---- Changes --------------------------------------------------------------------------------- */

static size_t memory_of_owner(const struct glossaries *glossaries, int64_t owner)
{
    size_t bytes = 0;

    for (size_t i = 0; i < glossaries->n_items; i++)
        if (glossaries->items[i]->owner == owner)
            bytes += memory_of(glossaries->items[i]);
    return bytes;
}

/* Nobody takes more than is left free then, so that there is always room for one more owner. Those
 * without a key are one; where there are no keys, they are all there is. `bytes` is what all take,
 * and no more than there may be. */
static int check_share(const struct glossaries *glossaries, const struct glossary *before,
                       const struct glossary *after, size_t bytes, struct srv_error *error)
{
    const size_t most = (size_t)glossaries->settings->max_glossary_bytes;
    const size_t own =
        memory_of_owner(glossaries, after->owner) - memory_of(before) + memory_of(after);

    if (!glossaries->keyring || keyring_count(glossaries->keyring) == 0 || own <= most - bytes)
        return 0;
    return error_http(error, 456, "glossary_share_exceeded",
                      "Your glossaries would take %zu bytes of memory: expected at most %zu, so "
                      "that as much is left for others",
                      own, (most - (bytes - own)) / 2);
}

/* What takes the place of something as large always has room. */
static int check_bytes(const struct glossaries *glossaries, const struct glossary *before,
                       const struct glossary *after, struct srv_error *error)
{
    const size_t most = (size_t)glossaries->settings->max_glossary_bytes;
    const size_t bytes = glossaries->bytes - memory_of(before) + memory_of(after);

    if (memory_of(after) <= memory_of(before))
        return 0;
    if (bytes > most)
        return error_http(error, 413, "glossary_too_large",
                          "The glossaries of this server would take more than %zu bytes of memory",
                          most);
    return check_share(glossaries, before, after, bytes, error);
}

static int check_room(const struct glossaries *glossaries, const struct glossary *before,
                      const struct glossary *after, struct srv_error *error)
{
    const size_t most = (size_t)glossaries->settings->max_glossaries;

    if (!after)
        return 0;
    if (!before && count_of(glossaries, after->owner) >= most)
        return error_http(error, most > 0 ? 456 : 403,
                          most > 0 ? "too_many_glossaries" : "glossaries_disabled",
                          most > 0 ? "Too many glossaries: expected at most %zu"
                                   : "Glossaries are disabled on this server.",
                          most);
    return check_bytes(glossaries, before, after, error);
}

/* Store's thread. Neither glossary changes, and neither is freed before on_written(). */
static int write_change(sqlite3 *db, struct store_task *task)
{
    struct glossary_change *change = (struct glossary_change *)task;
    int rc = glossaries_write(db, change->before, change->after, &change->seen,
                              &change->is_outdated, &task->err);

    if (change->is_outdated &&
        glossaries_read_one(db, change->before->id, &change->found, &task->err) != 0)
        change->is_outdated = false;
    return rc;
}

/* The change that replaces what this one brought; NULL: none does. */
static struct glossary_change *find_later(const struct glossary_change *change)
{
    struct glossary_change *later = change->glossaries->first;

    while (later && later->before != change->after)
        later = later->next;
    return later;
}

static struct glossary **find_back(struct glossary_change *change)
{
    if (change->is_outdated)
        return &change->found;
    return change->has_back ? &change->back : &change->before;
}

/* The store's thread may be reading the later change's `before`: that one stays as it is. */
static void undo(struct glossary_change *change)
{
    struct glossary **back = find_back(change);
    struct glossary_change *later = change->after ? find_later(change) : NULL;

    if (later) {
        later->back = *back;
        later->has_back = true;
        *back = NULL;
    } else if (!change->after) {
        if (*back && glossaries_append(change->glossaries, *back))
            *back = NULL;
    } else if (glossaries_swap(change->glossaries, change->after, *back)) {
        glossary_drop(change->after);
        *back = NULL;
    }
}

static bool is_of(const struct glossary *glossary, const char *id)
{
    return glossary && strcasecmp(glossary->id, id) == 0;
}

bool glossaries_are_changing(const struct glossaries *glossaries, const char *id)
{
    const struct glossary_change *change = glossaries->first;

    while (change && !is_of(change->before, id) && !is_of(change->after, id))
        change = change->next;
    return change;
}

static void enter(struct glossary_change *change)
{
    struct glossary_change **end = &change->glossaries->first;

    while (*end)
        end = &(*end)->next;
    *end = change;
    change->glossaries->n_changes++;
}

static void leave(struct glossary_change *change)
{
    struct glossary_change **at = &change->glossaries->first;

    while (*at != change)
        at = &(*at)->next;
    *at = change->next;
    change->glossaries->n_changes--;
}

/* What it changed need not be read, if all that others changed before has been. */
static void note_written(struct glossary_change *change)
{
    struct glossaries_seen *seen = &change->glossaries->seen;

    if (change->seen.version != seen->version + 1)
        return;
    seen->version = change->seen.version;
    if (change->after)
        seen->newest = change->seen.newest;
}

static void on_written(struct store_task *task)
{
    struct glossary_change *change = (struct glossary_change *)task;
    struct srv_error error;

    leave(change);
    if (task->rc == 0) {
        note_written(change);
    } else {
        undo(change);
        if (!change->is_outdated)
            log_warning("glossaries: %s", task->err.text);
        error_http(&error, 503, "store_failed", "The change cannot be kept: %.400s",
                   task->err.text);
    }
    change->done(change->user, change->is_outdated, task->rc != 0 ? &error : NULL);
    glossary_drop(change->before);
    glossary_drop(change->back);
    glossary_drop(change->found);
    free(change);
}

static int64_t owner_of(const struct glossary *before, const struct glossary *after)
{
    return before ? before->owner : after->owner;
}

/* Nobody may have more changes than are left free: one owner alone has half of them. */
static int check_busy(const struct glossaries *glossaries, int64_t owner, struct srv_error *error)
{
    size_t n_own = 0;

    for (const struct glossary_change *c = glossaries->first; c; c = c->next)
        n_own += owner_of(c->before, c->after) == owner;
    if (n_own < MAX_CHANGES - glossaries->n_changes)
        return 0;
    error_http(error, 503, "server_busy", "Too many changes of glossaries wait to be written");
    error->retry_after_s = 1;
    return -1;
}

int glossaries_change(struct glossaries *glossaries, struct glossary *before,
                      struct glossary *after, glossaries_done_fn *done, void *user,
                      struct srv_error *error)
{
    struct glossary_change *change = NULL;
    int rc = check_busy(glossaries, owner_of(before, after), error);

    if (rc == 0)
        rc = check_room(glossaries, before, after, error);
    if (rc == 0 && !(change = malloc(sizeof(*change))))
        rc = error_no_memory(error);
    if (rc == 0 && !glossaries_swap(glossaries, before, after))
        rc = error_no_memory(error);
    if (rc != 0) {
        free(change);
        glossary_drop(after);
        return rc;
    }
    *change = (struct glossary_change){.task = {.run = write_change, .done = on_written},
                                       .glossaries = glossaries,
                                       .before = before,
                                       .after = after,
                                       .done = done,
                                       .user = user};
    enter(change);
    if (glossaries->store)
        store_queue(glossaries->store, &change->task);
    else
        on_written(&change->task);
    return 0;
}
