/* Happy path: finder_open() sorts the units twice; a search halves what is left, then passes
 * by those that are outside of its window, or dropped.
 *
 * Failure modes: no memory. */
#include "content/finder.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sorting --------------------------------------------------------------------------------- */

static int compare_origins(const void *a, const void *b)
{
    const struct finder_origin *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static int compare_text(const struct units *units, const struct unit *unit, const char *text,
                        size_t bytes)
{
    const size_t own = unit->end - unit->begin;

    if (own != bytes)
        return own < bytes ? -1 : 1;
    return memcmp(units->text + unit->begin, text, bytes);
}

static int compare_masks(const void *a, const void *b, void *units)
{
    const struct unit *x = *(const struct unit *const *)a, *y = *(const struct unit *const *)b;
    const int order =
        compare_text(units, x, ((const struct units *)units)->text + y->begin, y->end - y->begin);

    return order != 0 ? order : x->begin < y->begin ? -1 : x->begin > y->begin;
}

bool finder_open(struct finder *finder, const struct units *units)
{
    const size_t n = units->n > 0 ? units->n : 1;

    *finder = (struct finder){.units = units,
                              .origins = malloc(n * sizeof(finder->origins[0])),
                              .masks = malloc(n * sizeof(finder->masks[0]))};
    if (!finder->origins || !finder->masks)
        return false;
    for (size_t u = 0; u < units->n; u++) {
        const size_t from = units_source(units, u);

        if (from != SIZE_MAX)
            finder->origins[finder->n_origins++] = (struct finder_origin){from, u};
        if (units_is_mask(units, u))
            finder->masks[finder->n_masks++] = &units->items[u];
    }
    qsort(finder->origins, finder->n_origins, sizeof(finder->origins[0]), compare_origins);
    qsort_r((void *)finder->masks, finder->n_masks, sizeof(finder->masks[0]), compare_masks,
            (void *)units);
    return true;
}

void finder_close(struct finder *finder)
{
    free(finder->origins);
    free((void *)finder->masks);
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool is_in(struct window window, size_t unit)
{
    return unit >= window.begin && unit < window.end;
}

/* How many come from before `at`. */
static size_t n_before(const struct finder *finder, size_t at)
{
    size_t low = 0, high = finder->n_origins;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (finder->origins[middle].from < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t finder_before(const struct finder *finder, struct window within, size_t at)
{
    for (size_t i = n_before(finder, at); i-- > 0;)
        if (is_in(within, finder->origins[i].unit))
            return finder->origins[i].unit;
    return SIZE_MAX;
}

size_t finder_behind(const struct finder *finder, struct window within, size_t at)
{
    for (size_t i = n_before(finder, at); i < finder->n_origins; i++)
        if (is_in(within, finder->origins[i].unit))
            return finder->origins[i].unit;
    return SIZE_MAX;
}

static size_t first_mask(const struct finder *finder, const char *text, size_t bytes)
{
    size_t low = 0, high = finder->n_masks;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (compare_text(finder->units, finder->masks[middle], text, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t finder_mask(const struct finder *finder, const char *text, size_t bytes, size_t from)
{
    for (size_t i = first_mask(finder, text, bytes); i < finder->n_masks; i++) {
        const struct unit *unit = finder->masks[i];

        if (compare_text(finder->units, unit, text, bytes) != 0)
            break;
        if (!unit->is_dropped && (unit->bound == SIZE_MAX || unit->bound == from))
            return (size_t)(unit - finder->units->items);
    }
    return SIZE_MAX;
}
