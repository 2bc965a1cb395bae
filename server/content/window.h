/* window.h - units in a row that belong to a range of the source.
 *
 * Each is looked for among the units of a parent: those in `within` that `owner` has. Any thread.
 */
#ifndef SERVER_CONTENT_WINDOW_H
#define SERVER_CONTENT_WINDOW_H

#include "content/unit.h"

/* Units [begin, end); empty: none. */
struct window {
    size_t begin, end;
};

struct window_parent {
    const struct units *units;
    struct window within;
    uint32_t owner;
};

/* Those that come from [begin, end) of the source most; empty: none do. */
struct window window_best(const struct window_parent *parent, size_t begin, size_t end);

/* The one unit whose source is nearest to [begin, end). */
struct window window_nearest(const struct window_parent *parent, size_t begin, size_t end);

/* Of an element that began before the sentence: the first units, up to `end` of the source. */
struct window window_first(const struct window_parent *parent, size_t end);

/* Of one that ends after it: the last units, from `begin` of the source on. */
struct window window_last(const struct window_parent *parent, size_t begin);

/* Without the punctuation at its ends. */
struct window window_trimmed(const struct units *units, struct window window);

/* How far a place is from [begin, end). */
size_t window_distance(size_t at, size_t begin, size_t end);

#endif
