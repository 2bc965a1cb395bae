/* Happy path: on_tick() -> look(), in the store's thread: has the store's count of changes moved?
 * then what is new there, and the numbers of all -> on_looked() puts it in place, on the loop.
 *
 * Failure modes: the store cannot be read: all stays as it was until it can, and the log says so
 * once. What this server is changing itself at that moment stays, too, and is looked at again.
 * Where much is new at once, it comes in parts, and what is gone leaves after the last. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"
#include "serve/glossaries.h"
#include "serve/store_log.h"

/* PART_: of what is new, so that other tasks of the store come between. */
enum { TICK_MS = 1000, PART_GLOSSARIES = 64, PART_BYTES = 32 << 20 };

struct follower {
    struct store_task task;
    struct glossaries *glossaries;
    uv_timer_t timer;
    struct glossaries_seen from, seen;       /* before it looks, and then */
    struct glossary *fresh[PART_GLOSSARIES]; /* owned */
    size_t n_fresh, bytes;
    int64_t *numbers; /* owned, of all that the store has, in order */
    size_t n_numbers;
    bool is_whole; /* all that is new is in `fresh` */
    bool is_queued, is_failing;
};

static void drop_fresh(struct follower *follower)
{
    while (follower->n_fresh > 0)
        glossary_drop(follower->fresh[--follower->n_fresh]);
    follower->bytes = 0;
}

/* ---- Looking: the store's thread ------------------------------------------------------------- */

static int keep(void *user, struct glossary *g, struct acre_err *err)
{
    struct follower *follower = user;

    (void)err;
    follower->fresh[follower->n_fresh++] = g;
    follower->seen.newest = g->number;
    for (size_t i = 0; i < g->n_parts; i++)
        follower->bytes += dictionary_memory(g->parts[i].dictionary);
    follower->is_whole = follower->n_fresh < PART_GLOSSARIES && follower->bytes < PART_BYTES;
    return follower->is_whole ? 0 : 1;
}

static int look(sqlite3 *db, struct store_task *task)
{
    struct follower *follower = (struct follower *)(void *)task;
    int64_t version = 0;
    int rc = glossaries_read_version(db, &version, &task->err);

    follower->seen = follower->from;
    follower->is_whole = true;
    if (rc != 0 || version == follower->from.version)
        return rc;
    rc = glossaries_read(db, follower->from.newest, keep, follower, &task->err);
    if (rc == 0)
        rc = glossaries_read_numbers(db, &follower->numbers, &follower->n_numbers, &task->err);
    if (rc == 0)
        follower->seen.version = version;
    return rc;
}

/* ---- Putting in place: the loop -------------------------------------------------------------- */

static struct glossary *find(const struct glossaries *glossaries, const char *id)
{
    for (size_t i = 0; i < glossaries->n_items; i++)
        if (strcasecmp(glossaries->items[i]->id, id) == 0)
            return glossaries->items[i];
    return NULL;
}

/* Takes it; false: not now. */
static bool put(struct glossaries *glossaries, struct glossary *g)
{
    struct glossary *before = find(glossaries, g->id);
    const bool is_changing = glossaries_are_changing(glossaries, g->id);
    const bool is_known = !is_changing && before && before->number == g->number;

    if (is_changing || is_known || !glossaries_swap(glossaries, before, g)) {
        glossary_drop(g);
        return is_known;
    }
    glossary_drop(before);
    return true;
}

static bool put_fresh(struct follower *follower)
{
    bool is_done = true;

    for (size_t i = 0; i < follower->n_fresh; i++)
        is_done &= put(follower->glossaries, follower->fresh[i]);
    follower->n_fresh = follower->bytes = 0;
    return is_done;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Those whose number the store has not. */
static bool drop_gone(const struct follower *follower)
{
    struct glossaries *glossaries = follower->glossaries;
    bool is_done = true;

    for (size_t i = glossaries->n_items; i-- > 0;) {
        struct glossary *g = glossaries->items[i];

        if (glossaries_are_changing(glossaries, g->id))
            is_done = false;
        else if ((follower->n_numbers == 0 ||
                  !bsearch(&g->number, follower->numbers, follower->n_numbers, sizeof(g->number),
                           compare)) &&
                 glossaries_swap(glossaries, g, NULL))
            glossary_drop(g);
    }
    return is_done;
}

static void queue(struct follower *follower)
{
    follower->is_queued = true;
    follower->from = follower->glossaries->seen;
    store_queue(follower->glossaries->store, &follower->task);
}

static void on_looked(struct store_task *task)
{
    struct follower *follower = (struct follower *)(void *)task;
    struct glossaries_seen *seen = &follower->glossaries->seen;

    follower->is_queued = false;
    store_log(task, "glossaries of other servers are not seen", &follower->is_failing);
    if (task->rc != 0) {
        drop_fresh(follower);
        return;
    }
    if (follower->seen.version == follower->from.version || !put_fresh(follower))
        return;
    if (!follower->is_whole) {
        seen->newest = follower->seen.newest;
        queue(follower);
    } else if (drop_gone(follower)) {
        *seen = follower->seen;
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct follower *follower = timer->data;

    if (!follower->is_queued)
        queue(follower);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

int glossaries_start(struct glossaries *glossaries, uv_loop_t *loop, struct acre_err *err)
{
    struct follower *follower;

    if (!glossaries->store)
        return 0;
    follower = calloc(1, sizeof(*follower));
    if (!follower)
        return error_set_no_memory(err);
    follower->glossaries = glossaries;
    follower->task = (struct store_task){.run = look, .done = on_looked};
    uv_timer_init(loop, &follower->timer);
    follower->timer.data = follower;
    uv_timer_start(&follower->timer, on_tick, TICK_MS, TICK_MS);
    glossaries->follower = follower;
    return 0;
}

void glossaries_stop(struct glossaries *glossaries)
{
    if (glossaries->follower)
        uv_close((uv_handle_t *)&glossaries->follower->timer, NULL);
}

void follower_free(struct follower *follower)
{
    if (!follower)
        return;
    drop_fresh(follower);
    free(follower->numbers);
    free(follower);
}
