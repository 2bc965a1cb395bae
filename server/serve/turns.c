/* Happy path: turns_wait() puts a turn behind all others -> start_next(): the turn of the caller
 * who has waited longest -> work_in_pool() -> on_done() puts the caller's others behind, starts the
 * next and tells.
 *
 * Failure modes: none of its own. */
#include "serve/turns.h"

static void start_next(struct turns *turns);

void turns_init(struct turns *turns, uv_loop_t *loop, size_t most_at_work, size_t *n_working)
{
    *turns = (struct turns){.loop = loop, .most_at_work = most_at_work, .n_working = n_working};
}

static struct turn *turn_of(uv_work_t *work)
{
    return (struct turn *)(void *)((char *)work - offsetof(struct turn, uv));
}

/* Pool thread. */
static void work_in_pool(uv_work_t *work)
{
    struct turn *turn = turn_of(work);

    turn->goes_on = false;
    turn->work(turn->user);
}

/* As if they had come only now: later ones stand behind them in the list. */
static void put_behind(struct turns *turns, uint64_t caller)
{
    turns->n_done++;
    for (struct turn *turn = turns->waiting; turn; turn = turn->next)
        if (turn->caller == caller)
            turn->since = turns->n_done;
}

/* The next is at work already when this one's owner hears, and may want another turn. */
static void on_done(uv_work_t *work, int status)
{
    struct turn *turn = turn_of(work);
    struct turns *turns = turn->turns;

    (void)status;
    if (turn->goes_on) {
        uv_queue_work(turns->loop, work, work_in_pool, on_done);
        return;
    }
    turn->is_working = false;
    turns->n_at_work--;
    --*turns->n_working;
    put_behind(turns, turn->caller);
    start_next(turns);
    turn->done(turn->user);
}

static void start_next(struct turns *turns)
{
    struct turn **first = &turns->waiting, *turn;

    if (turns->n_at_work == turns->most_at_work || !turns->waiting)
        return;
    for (struct turn **link = first; *link; link = &(*link)->next)
        if ((*link)->since < (*first)->since)
            first = link;
    turn = *first;
    *first = turn->next;
    turn->is_waiting = false;
    turns->n_at_work++;
    turn->is_working = true;
    ++*turns->n_working;
    if (turn->begin)
        turn->begin(turn->user);
    uv_queue_work(turns->loop, &turn->uv, work_in_pool, on_done);
}

void turns_wait(struct turns *turns, struct turn *turn, uint64_t caller)
{
    struct turn **end = &turns->waiting;

    turn->turns = turns;
    turn->caller = caller;
    turn->since = turns->n_done;
    turn->next = NULL;
    turn->is_waiting = true;
    while (*end)
        end = &(*end)->next;
    *end = turn;
    start_next(turns);
}

bool turn_leave(struct turn *turn)
{
    struct turn **link;

    if (!turn->is_waiting)
        return false;
    link = &turn->turns->waiting;
    while (*link != turn)
        link = &(*link)->next;
    *link = turn->next;
    turn->is_waiting = false;
    return true;
}
