/* trace.h - where the words of a translation came to stand in the document that is made of it.
 *
 * Pieces are noted in the order of both. A piece of words is as long on both sides. One owner at a
 * time.
 */
#ifndef SERVER_CONTENT_TRACE_H
#define SERVER_CONTENT_TRACE_H

#include <stdbool.h>

#include "acre.h"

struct trace_piece {
    struct acre_range from, to; /* of the translation; of the document */
    bool is_mask;               /* is there as a whole */
};

struct trace {
    struct trace_piece *pieces; /* owned */
    size_t n_pieces, capacity;
    bool no_memory;
};

void trace_add(struct trace *trace, const struct trace_piece *piece);

/* Where a range of the translation stands; false: nowhere. */
bool trace_find(const struct trace *trace, struct acre_range from, struct acre_range *to);

void trace_fini(struct trace *trace);

#endif
