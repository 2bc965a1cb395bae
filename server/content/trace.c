#include "content/trace.h"

#include <stdlib.h>

#include "common/grow.h"

static size_t end_of(struct acre_range range)
{
    return range.first + range.n_bytes;
}

void trace_add(struct trace *trace, const struct trace_piece *piece)
{
    if (grow(&trace->pieces, sizeof(trace->pieces[0]), trace->n_pieces + 1, &trace->capacity))
        trace->pieces[trace->n_pieces++] = *piece;
    else
        trace->no_memory = true;
}

/* The first piece that ends behind a place of the translation. */
static size_t piece_behind(const struct trace *trace, size_t at)
{
    size_t low = 0, high = trace->n_pieces;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (end_of(trace->pieces[middle].from) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool trace_find(const struct trace *trace, struct acre_range from, struct acre_range *to)
{
    const size_t end = end_of(from);
    const size_t n = piece_behind(trace, from.first);
    const struct trace_piece *first, *last, *behind;
    size_t begin_to, end_to;

    if (n == trace->n_pieces || trace->pieces[n].from.first >= end)
        return false;
    first = last = &trace->pieces[n];
    behind = trace->pieces + trace->n_pieces;
    while (last + 1 < behind && last[1].from.first < end)
        last++;
    begin_to = first->to.first;
    if (!first->is_mask && from.first > first->from.first)
        begin_to += from.first - first->from.first;
    end_to = end_of(last->to);
    if (!last->is_mask && end < end_of(last->from))
        end_to -= end_of(last->from) - end;
    *to = (struct acre_range){begin_to, end_to - begin_to};
    return true;
}

void trace_fini(struct trace *trace)
{
    free(trace->pieces);
    *trace = (struct trace){.pieces = NULL};
}
