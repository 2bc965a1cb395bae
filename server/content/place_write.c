/* Happy path: place_write() walks the units of the translation, and at each opens and closes the
 * nodes and masks that begin or end there, with the blanks that belong to them.
 *
 * Failure modes: a mask that the translation lost goes beside its neighbour, so that each comes out
 * once; memory that is short is the writer's to tell. */
#include "content/place_write.h"

#include <stdlib.h>
#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/word.h"

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

/* What was put from `begin` on stands for a node's units. */
static void note_piece(struct writer *w, const struct place *p, const struct place_node *node,
                       size_t begin)
{
    const size_t from = p->units.items[node->begin].begin, end = p->units.items[node->end - 1].end;
    const struct trace_piece piece = {
        {from, end - from}, {w->n_taken + begin, w->bytes - begin}, true};

    if (w->is_traced)
        trace_add(&w->trace, &piece);
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* The word that ends or begins at a place of the source, from its first to behind its last byte. */
static struct acre_range word_at(const struct place *p, size_t at, bool is_before)
{
    const struct acre_range *sentence = &p->source.range;
    const size_t end = sentence->first + sentence->n_bytes;
    size_t begin = at, last = at;

    for (size_t before = at; is_before && before > sentence->first; begin = before) {
        size_t next;

        before = unicode_before(p->source.prose->text, before);
        next = before;
        if (!word_has(unicode_next(p->source.prose->text, end, &next)))
            break;
    }
    for (size_t next = at; !is_before && next < end; last = next)
        if (!word_has(unicode_next(p->source.prose->text, end, &next)))
            break;
    return (struct acre_range){begin, last - begin};
}

/* Whether a unit beside a mask is what the letters became that touch it in the source. */
static bool is_glued(const struct place *p, const struct prose_mark *mark, size_t u, bool is_before)
{
    const struct acre_range word =
        word_at(p, is_before ? mark->at : (size_t)mark->at + mark->n, is_before);
    const size_t from = units_source(&p->units, u);

    if (!units_is_word(&p->units, u))
        return false;
    return (from >= word.first && from < word.first + word.n_bytes) ||
           (from >= mark->at && from < (size_t)mark->at + mark->n);
}

/* A mask in the place of a unit. The blanks that set it apart from letters go. */
static void open_mask(struct writer *w, const struct place *p, const struct place_node *node,
                      size_t *unit, size_t *at)
{
    const struct prose_mark *mark = &p->source.prose->marks[node->mark];
    const struct unit *items = p->units.items;
    const size_t u = node->begin;
    size_t begin;

    if ((mark->glue & PROSE_GLUED_BEFORE) && u > 0 && is_glued(p, mark, u - 1, true)) {
        put_units_to(w, p, unit, at, items[u - 1].end);
        if (*at < items[u].begin)
            *at = items[u].begin;
    }
    put_units_to(w, p, unit, at, items[u].begin);
    begin = w->bytes;
    writer_raw(w, mark);
    note_piece(w, p, node, begin);
    *at = items[u].end;
    if ((mark->glue & PROSE_GLUED_AFTER) && u + 1 < p->units.n && is_glued(p, mark, u + 1, false))
        *at = items[u + 1].begin;
}

/* A mask that the translation does not have stands apart from words, unless letters touch it. */
static void put_lost_mask(struct writer *w, const struct place *p, const struct prose_mark *mark)
{
    const size_t end = (size_t)mark->at + mark->n;

    if (word_at(p, mark->at, true).n_bytes == 0)
        writer_stand_apart(w);
    writer_raw(w, mark);
    if (word_at(p, end, false).n_bytes == 0)
        writer_leave_apart(w);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static void open_node(struct writer *w, const struct place *p, const struct place_node *node,
                      size_t *unit, size_t *at)
{
    const struct prose_mark *mark = &p->source.prose->marks[node->mark];
    size_t begin;

    if (mark->kind == PROSE_MASK && node->kind == PLACE_UNIT) {
        open_mask(w, p, node, unit, at);
        return;
    }
    put_units_to(w, p, unit, at, begin_of(p, node));
    if (mark->kind == PROSE_TERM)
        writer_reach_term(w, mark);
    begin = w->bytes;
    if (mark->kind == PROSE_TERM)
        writer_term(w, mark, begins_translation(p, node));
    else if (mark->kind == PROSE_MASK)
        put_lost_mask(w, p, mark);
    else if (node->kind != PLACE_ELEMENT || node->has_open)
        writer_raw(w, mark);
    if (node->kind == PLACE_UNIT)
        note_piece(w, p, node, begin);
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

void place_write(struct writer *w, const struct place *p)
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
