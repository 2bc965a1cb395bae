/* finder.h - finds units of a translation: by where in the source they come from, and masks by
 * their text.
 *
 * A sentence may have as many marks as characters. Each finds its unit here without a look at all
 * of them. Made when all is known of where units come from (bind.h). Any thread.
 */
#ifndef SERVER_CONTENT_FINDER_H
#define SERVER_CONTENT_FINDER_H

#include "content/unit.h"
#include "content/window.h"

struct finder_origin {
    size_t from, unit;
};

struct finder {
    const struct units *units;
    struct finder_origin *origins; /* owned: of units that come from somewhere, by both */
    size_t n_origins;
    const struct unit **masks; /* owned: those that look like masks, by text and place */
    size_t n_masks;
};

/* Borrows the units. False: no memory; needs finder_close() either way. */
bool finder_open(struct finder *finder, const struct units *units);
void finder_close(struct finder *finder);

/* Of a window the units that come from nearest before a place of the source, the last of several,
 * and from nearest at or behind it, the first of several; SIZE_MAX: there is none. */
size_t finder_before(const struct finder *finder, struct window within, size_t at);
size_t finder_behind(const struct finder *finder, struct window within, size_t at);

/* The first mask of this text that is not dropped and may come from `from`; SIZE_MAX: none. */
size_t finder_mask(const struct finder *finder, const char *text, size_t bytes, size_t from);

#endif
