#include "content/window.h"

static bool is_own(const struct window_parent *parent, size_t u)
{
    return parent->units->items[u].owner == parent->owner;
}

struct window window_best(const struct window_parent *parent, size_t begin, size_t end)
{
    struct window best = {parent->within.begin, parent->within.begin};
    size_t first = parent->within.begin;
    double sum = 0, most = 0;

    for (size_t u = parent->within.begin; u < parent->within.end; u++) {
        if (!is_own(parent, u) || sum <= 0) {
            sum = 0;
            first = u;
        }
        if (!is_own(parent, u))
            continue;
        sum += units_score(parent->units, u, begin, end);
        if (sum > most + 1e-9) {
            most = sum;
            best = (struct window){first, u + 1};
        }
    }
    return best;
}

size_t window_distance(size_t at, size_t begin, size_t end)
{
    return at < begin ? begin - at : at >= end ? at - end + 1 : 0;
}

struct window window_nearest(const struct window_parent *parent, size_t begin, size_t end)
{
    struct window best = {parent->within.begin, parent->within.begin};
    size_t least = SIZE_MAX;

    for (size_t u = parent->within.begin; u < parent->within.end; u++) {
        const size_t from = units_source(parent->units, u);

        if (is_own(parent, u) && from != SIZE_MAX && window_distance(from, begin, end) < least) {
            least = window_distance(from, begin, end);
            best = (struct window){u, u + 1};
        }
    }
    return best;
}

struct window window_first(const struct window_parent *parent, size_t end)
{
    struct window best = {parent->within.begin, parent->within.begin};
    double sum = 0, most = 0;

    for (size_t u = parent->within.begin; u < parent->within.end && is_own(parent, u); u++) {
        sum += units_score(parent->units, u, 0, end);
        if (sum > most) {
            most = sum;
            best.end = u + 1;
        }
    }
    return best;
}

struct window window_last(const struct window_parent *parent, size_t begin)
{
    struct window best = {parent->within.end, parent->within.end};
    double sum = 0, most = 0;

    for (size_t u = parent->within.end; u > parent->within.begin && is_own(parent, u - 1); u--) {
        sum += units_score(parent->units, u - 1, begin, SIZE_MAX);
        if (sum > most) {
            most = sum;
            best.begin = u - 1;
        }
    }
    return best;
}

struct window window_trimmed(const struct units *units, struct window window)
{
    while (window.begin < window.end && !units_is_word(units, window.begin))
        window.begin++;
    while (window.begin < window.end && !units_is_word(units, window.end - 1))
        window.end--;
    return window;
}
