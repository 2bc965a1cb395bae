#include "content/placed.h"

#include <stdlib.h>
#include <unicode/uchar.h>

#include "common/unicode.h"

static void put_units_to(struct writer *w, const struct place *p, size_t *unit, size_t *at,
                         size_t end)
{
    for (; *unit < p->units.n && p->units.items[*unit].end <= end; ++*unit) {
        const struct unit *u = &p->units.items[*unit];

        if (!u->is_dropped || u->begin < *at)
            continue;
        writer_words(w, p->units.text, *at,
                     u->begin - *at - (u->begin > *at && p->units.text[u->begin - 1] == ' '));
        *at = u->end;
    }
    if (*at < end) {
        writer_words(w, p->units.text, *at, end - *at);
        *at = end;
    }
}

static size_t end_of_text(const struct place *p)
{
    return p->units.range.first + p->units.range.n_bytes;
}

/* Where a node begins in the target. */
static size_t begin_of(const struct place *p, const struct place_node *node)
{
    const struct place_node *outer = &p->nodes[node->parent];
    const size_t end = end_of_text(p);
    const bool is_left = node->is_left || (node->begin == outer->end && outer->begin < outer->end);

    if (is_left && node->begin > 0)
        return p->units.items[node->begin - 1].end;
    return node->begin < p->units.n ? p->units.items[node->begin].begin : end;
}

/* One step down or up in the tree. */
struct visit {
    uint32_t node;
    size_t next, end; /* of its children, in `order` */
};

/* Whether a term is the first word of the translation, and the sentence's or what it replaces had
 * a capital there. */
static bool begins_translation(const struct place *p, const struct place_node *node)
{
    const struct prose_mark *mark = &p->source.prose->marks[node->mark];
    size_t at;

    if (node->begin > 0 || (node->kind != PLACE_UNIT && p->units.n > 0))
        return false;
    at = node->kind == PLACE_UNIT ? p->units.items[0].begin : 0;
    return p->source.prose->terms[mark->partner].is_raised ||
           (node->kind == PLACE_UNIT &&
            u_isupper((UChar32)unicode_next(p->units.text, p->units.items[0].end, &at)));
}

static void open_node(struct writer *w, const struct place *p, const struct place_node *node,
                      size_t *unit, size_t *at)
{
    const struct prose_mark *mark = &p->source.prose->marks[node->mark];
    size_t begin;

    put_units_to(w, p, unit, at, begin_of(p, node));
    if (mark->kind == PROSE_TERM)
        writer_reach_term(w, mark);
    begin = w->bytes;
    if (mark->kind == PROSE_TERM)
        writer_term(w, mark, begins_translation(p, node));
    else if (node->kind != PLACE_ELEMENT || node->has_open)
        writer_raw(w, mark);
    if (w->is_traced && node->kind == PLACE_UNIT) {
        const size_t from = p->units.items[node->begin].begin,
                     end = p->units.items[node->end - 1].end;
        const struct trace_piece piece = {
            {from, end - from}, {w->n_taken + begin, w->bytes - begin}, true};

        trace_add(&w->trace, &piece);
    }
    if (node->kind == PLACE_UNIT)
        *at = p->units.items[node->end - 1].end;
}

static void close_node(struct writer *w, const struct place *p, const struct place_node *node,
                       size_t *unit, size_t *at)
{
    if (node->end > node->begin)
        put_units_to(w, p, unit, at, p->units.items[node->end - 1].end);
    if (node->close != UINT32_MAX)
        writer_raw(w, &p->source.prose->marks[node->close]);
}

void placed_write(struct writer *w, const struct place *p)
{
    struct visit *stack = malloc(p->n_nodes * sizeof(*stack));
    size_t depth = 0, n, unit = 0, at = p->units.range.first;

    if (!stack) {
        w->no_memory = true;
        return;
    }
    stack[depth].node = 0;
    stack[depth].next = place_children(p, 0, &n);
    stack[depth].end = stack[depth].next + n;
    for (depth = 1; depth > 0;) {
        struct visit *top = &stack[depth - 1];
        uint32_t child;

        if (top->next == top->end) {
            if (top->node > 0)
                close_node(w, p, &p->nodes[top->node], &unit, &at);
            depth--;
            continue;
        }
        child = p->order[top->next++];
        open_node(w, p, &p->nodes[child], &unit, &at);
        if (p->nodes[child].kind != PLACE_ELEMENT)
            continue;
        stack[depth].node = child;
        stack[depth].next = place_children(p, child, &n);
        stack[depth].end = stack[depth].next + n;
        depth++;
    }
    put_units_to(w, p, &unit, &at, end_of_text(p));
    free(stack);
}
