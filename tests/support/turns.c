#include "turns.h"

#include <stdarg.h>
#include <stdbool.h>
#include <setjmp.h>
#include <cmocka.h>

size_t turns_class(const struct sentence *sentence)
{
    size_t class = sentence->n_source / QUEUE_CLASS_TOKENS;
    return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

size_t turns_distance(const struct sentence *a, const struct sentence *b)
{
    size_t x = turns_class(a), y = turns_class(b);
    return x > y ? x - y : y - x;
}

size_t turns_rows(const struct sentence *sentence)
{
    return sentence->n_source + 1;
}

/* Of one caller, or NULL. */
static const struct sentence *earliest(const struct turns *turns, uint64_t caller, bool by_turn)
{
    const struct sentence *first = NULL;
    for (size_t i = 0; i < turns->n; i++) {
        const struct sentence *each = turns->waiting[i];
        if (each->caller == caller && (!first || (by_turn && each->turn < first->turn)))
            first = each;
    }
    return first;
}

/* Of whom nothing waits starts at the clock, or later if he owes something. */
static void begin_anew(struct turns *turns, uint64_t caller)
{
    if (!earliest(turns, caller, false) && turns->starts[caller] < turns->clock)
        turns->starts[caller] = turns->clock;
}

void turns_put(struct turns *turns, const struct sentence *sentence)
{
    assert_true(turns->n < TURNS_MOST && sentence->caller < TURNS_CALLERS);
    begin_anew(turns, sentence->caller);
    turns->waiting[turns->n++] = sentence;
}

void turns_charge(struct turns *turns, uint64_t caller, uint64_t n_rows)
{
    if (n_rows > 0)
        begin_anew(turns, caller);
    turns->starts[caller] += n_rows;
}

void turns_remove(struct turns *turns, const struct sentence *sentence)
{
    size_t i = 0;
    while (i < turns->n && turns->waiting[i] != sentence)
        i++;
    assert_true(i < turns->n);
    for (turns->n--; i < turns->n; i++)
        turns->waiting[i] = turns->waiting[i + 1];
}

void turns_begin(struct turns *turns)
{
    for (size_t i = 0; i < TURNS_CALLERS; i++)
        turns->firsts[i] = NULL;
}

/* Which came first of the earliest sentences of callers with equal starts decides. */
static uint64_t next_caller(const struct turns *turns)
{
    const struct sentence *best = NULL;
    for (uint64_t caller = 0; caller < TURNS_CALLERS; caller++) {
        const struct sentence *first = earliest(turns, caller, true);
        uint64_t start = turns->starts[caller], least = best ? turns->starts[best->caller] : 0;
        if (first && (!best || start < least || (start == least && first->order < best->order)))
            best = first;
    }
    return best->caller;
}

const struct sentence *turns_next(const struct turns *turns)
{
    const struct sentence *best = NULL;
    if (turns->n == 0)
        return NULL;
    uint64_t caller = next_caller(turns);
    const struct sentence *first = turns->firsts[caller];
    if (!first)
        return earliest(turns, caller, true);
    for (size_t i = 0; i < turns->n; i++) {
        const struct sentence *each = turns->waiting[i];
        if (each->caller != caller)
            continue;
        size_t new = 2 * turns_distance(each, first) + (turns_class(each) > turns_class(first));
        size_t old =
            best ? 2 * turns_distance(best, first) + (turns_class(best) > turns_class(first)) : 0;
        if (!best || new < old || (new == old && each->turn < best->turn))
            best = each;
    }
    return best;
}

void turns_take(struct turns *turns, const struct sentence *sentence)
{
    uint64_t caller = sentence->caller;
    if (!turns->firsts[caller])
        turns->firsts[caller] = sentence;
    turns_remove(turns, sentence);
    turns->starts[caller] += turns_rows(sentence);
    if (turns->clock < turns->starts[caller])
        turns->clock = turns->starts[caller];
}
