/* Happy path: units_cut() -> bind_units() -> finder_open() -> place_each(), which takes marks in
 * the order of the source: an element is given its window before what is in it, so that children
 * know where they may be -> the nodes are sorted.
 *
 * Failure modes: no memory. A tag without partner would change what is nested in what if another
 * passed it: where a sentence has one, all marks keep the order of the source; and where it has so
 * many marks that no writer set them, as that takes no time. An element that nothing comes from
 * gets the unit whose source is nearest. */
#include "content/place.h"

#include <stdlib.h>
#include <string.h>

#include "common/unicode.h"
#include "content/bind.h"
#include "content/window.h"

/* Of more marks none passes another: each of them looks at all units, and at all that it is nested
 * in. */
enum { MAX_FREE_MARKS = 256 };

/* ---- Nodes ----------------------------------------------------------------------------------- */

static struct place_node *add_node(struct place *p, enum place_kind kind, size_t mark,
                                   uint32_t parent)
{
    struct place_node *node = &p->nodes[p->n_nodes++]; /* there are as many as marks, and one */

    *node = (struct place_node){
        .kind = kind, .mark = (uint32_t)mark, .close = UINT32_MAX, .parent = parent};
    return node;
}

static void set_element(struct place *p, struct place_node *node, struct window window)
{
    node->begin = window.begin;
    node->end = window.end;
    node->key = 4 * window.begin + 2;
    for (size_t u = window.begin; u < window.end; u++)
        p->units.items[u].owner = (uint32_t)(node - p->nodes);
}

/* The child of `parent` that has a unit: the unit's owner or one of its ancestors. */
static uint32_t child_at(const struct place *p, uint32_t parent, size_t unit)
{
    uint32_t node = p->units.items[unit].owner;

    while (node != parent && node != 0 && p->nodes[node].parent != parent)
        node = p->nodes[node].parent;
    return node;
}

static void set_gap(const struct place *p, struct place_node *node, size_t gap, bool is_left)
{
    const struct place_node *outer = &p->nodes[node->parent];

    if (gap > outer->begin && gap < outer->end &&
        child_at(p, node->parent, gap - 1) != node->parent &&
        child_at(p, node->parent, gap - 1) == child_at(p, node->parent, gap)) {
        gap = p->nodes[child_at(p, node->parent, gap)].end;
        is_left = true;
    }
    if (node->parent > 0 && outer->begin == outer->end) { /* beside its empty parent */
        gap = outer->begin;
        is_left = outer->is_left;
    }
    node->begin = node->end = gap;
    node->is_left = is_left;
    node->key = 4 * gap + !is_left;
}

static bool is_blank_at(const struct place *p, size_t at)
{
    return at < p->source.range.first || at >= p->source.range.first + p->source.range.n_bytes ||
           strchr(" \n\t", p->source.prose->text[at]);
}

/* Whether a unit joins those beside it to one word: "l'homme", "c'est-à-dire". */
static bool is_joint(const struct units *units, size_t u)
{
    const struct unit *items = units->items;
    size_t at;
    uint32_t c;

    if (u == 0 || u + 1 >= units->n || items[u - 1].end != items[u].begin ||
        items[u].end != items[u + 1].begin)
        return false;
    at = items[u].begin;
    c = unicode_next(units->text, items[u].end, &at);
    return (c == '\'' || c == 0x2019 || c == '-') && units_is_word(units, u - 1) &&
           units_is_word(units, u + 1);
}

/* No sign stands beside a joint: "n*'est" would be no word. It goes behind the word, or before. */
static size_t leave_word(const struct units *units, struct window within, size_t gap, bool is_left)
{
    size_t away = gap;

    if (is_joint(units, gap))
        away = is_left ? gap + 2 : gap - 1;
    else if (gap > 0 && is_joint(units, gap - 1))
        away = is_left ? gap + 1 : gap - 2;
    return away < within.begin || away > within.end ? gap : away;
}

/* Beside the unit of the word that it stands beside: the one before, unless only a blank is. */
static void set_point(const struct place *p, struct place_node *node, size_t at)
{
    const struct place_node *outer = &p->nodes[node->parent];
    const bool is_left = !is_blank_at(p, at - 1);
    const struct window within = {outer->begin, outer->end};
    const size_t below = finder_before(&p->finder, within, at),
                 above = finder_behind(&p->finder, within, at);

    if (below != SIZE_MAX && (is_left || above == SIZE_MAX))
        set_gap(p, node, leave_word(&p->units, within, below + 1, true), true);
    else if (above != SIZE_MAX)
        set_gap(p, node, leave_word(&p->units, within, above, false), false);
    else
        set_gap(p, node, outer->begin, false);
}

/* A mask stands for itself, if the model copied it. */
static size_t find_mask(const struct place *p, const struct prose_mark *mark)
{
    const struct acre_range mask = prose_mask(mark);

    return finder_mask(&p->finder, p->source.prose->text + mask.first, mask.n_bytes, mask.first);
}

/* ---- Placing --------------------------------------------------------------------------------- */

/* The elements that are open where the next mark is. */
struct placing {
    struct place *place;
    uint32_t parent;
    bool keeps_order;
    size_t gap;     /* where the last one is, if so, */
    uint32_t last;  /* and which: those beside each other in the source have one place; 0: none */
    uint32_t point; /* the last point, which none passes: "{ ... }"; 0: none */
};

/* At or behind the one before. */
static void keep_order(struct placing *placing, struct place_node *node)
{
    if (!placing->keeps_order)
        return;
    if (node->begin < placing->gap) {
        node->begin = node->end = placing->gap;
        node->is_left = true;
    }
    placing->gap = node->begin;
    node->is_left = true;
    node->key = 4 * node->begin;
}

static void place_beside(struct place_node *node, const struct place_node *last)
{
    node->begin = node->end = last->begin;
    node->is_left = last->is_left;
    node->key = last->key;
}

static void place_point(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *marks = p->source.prose->marks;
    struct place_node *node = add_node(p, PLACE_POINT, m, placing->parent);
    const struct place_node *last = &p->nodes[placing->last], *point = &p->nodes[placing->point];

    if (placing->last > 0 && marks[last->mark].at == marks[m].at) {
        place_beside(node, last);
    } else {
        set_point(p, node, marks[m].at);
        if (placing->point > 0 && point->parent == node->parent && point->key > node->key)
            place_beside(node, point);
        keep_order(placing, node);
    }
    placing->point = (uint32_t)(node - p->nodes);
    placing->last = placing->keeps_order ? placing->point : 0;
}

static void place_mask(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const size_t u = find_mask(p, &p->source.prose->marks[m]);
    struct place_node *node;

    if (u == SIZE_MAX || p->units.items[u].owner != placing->parent ||
        (placing->keeps_order && u < placing->gap)) {
        if (u != SIZE_MAX)
            p->units.items[u].is_dropped = true;
        place_point(placing, m);
        return;
    }
    node = add_node(p, PLACE_UNIT, m, placing->parent);
    set_element(p, node, (struct window){u, u + 1});
    if (placing->keeps_order)
        placing->gap = u + 1;
}

static struct window_parent parent_of(const struct placing *placing)
{
    const struct place *p = placing->place;
    const struct place_node *node = &p->nodes[placing->parent];

    return (struct window_parent){&p->units, {node->begin, node->end}, placing->parent};
}

/* The units that a term takes the place of; empty: there are none. */
static struct window term_window(const struct placing *placing, size_t m)
{
    const struct window_parent parent = parent_of(placing);
    const struct prose_mark *mark = &placing->place->source.prose->marks[m];

    for (size_t u = parent.within.begin; u < parent.within.end; u++) {
        const struct unit *unit = &parent.units->items[u];

        if (unit->term == m + 1 && u + unit->n_units <= parent.within.end &&
            unit->owner == parent.owner)
            return (struct window){u, u + unit->n_units};
    }
    return window_trimmed(parent.units, window_best(&parent, mark->at, mark->at + mark->n));
}

/* One that goes on in the next sentence is left to the translation. */
static void place_term(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *mark = &p->source.prose->marks[m];
    const struct window window = term_window(placing, m);

    if (mark->at + mark->n > p->source.range.first + p->source.range.n_bytes)
        return;
    if (window.begin == window.end || (placing->keeps_order && window.begin < placing->gap)) {
        place_point(placing, m);
        return;
    }
    set_element(p, add_node(p, PLACE_UNIT, m, placing->parent), window);
    if (placing->keeps_order)
        placing->gap = window.end;
}

/* What stands before an element that goes on in the next sentence stays before it: nothing of its
 * parent's can come behind it in this one. */
static void clear_way(struct place *p, uint32_t parent, size_t begin)
{
    for (size_t i = parent + 1; i + 1 < p->n_nodes; i++) {
        struct place_node *node = &p->nodes[i];

        if (node->begin <= begin)
            continue;
        node->begin = node->end = begin;
        node->is_left = false;
        node->key = 4 * begin + 1;
    }
}

static bool is_apostrophe(const struct units *units, size_t u)
{
    return is_joint(units, u) && units->text[units->items[u].begin] != '-';
}

/* An apostrophe goes with the word before it: "d'<b>autres</b>", "<b>l'</b>homme". */
static struct window with_apostrophes(const struct window_parent *parent, struct window window)
{
    const struct units *units = parent->units;

    if (window.begin + 1 < window.end && is_apostrophe(units, window.begin))
        window.begin++;
    if (window.begin < window.end && window.end < parent->within.end &&
        is_apostrophe(units, window.end) && units->items[window.end].owner == parent->owner)
        window.end++;
    return window;
}

static void place_element(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *open = &p->source.prose->marks[m];
    const bool ends_here = open->partner < p->source.end_mark;
    const size_t begin = open->at,
                 end = ends_here ? p->source.prose->marks[open->partner].at : SIZE_MAX;
    const struct window_parent parent = parent_of(placing);
    struct place_node *node = add_node(p, PLACE_ELEMENT, m, placing->parent);
    struct window window = {0, 0};

    node->has_open = true;
    if (ends_here && units_are_in(p->source.prose->text, begin, end)) {
        window = window_best(&parent, begin, end);
        if (window.begin == window.end)
            window = window_nearest(&parent, begin, end);
        window = with_apostrophes(&parent, window);
    } else if (!ends_here) {
        window = window_last(&parent, begin);
        clear_way(p, placing->parent, window.begin);
    }
    if (ends_here)
        node->close = open->partner;
    if (!ends_here || window.begin < window.end)
        set_element(p, node, window);
    else
        set_point(p, node, begin);
    placing->parent = (uint32_t)(node - p->nodes);
}

/* Elements that began before the sentence, the outermost first: it closes last. */
static void place_unopened(struct placing *placing)
{
    struct place *p = placing->place;

    for (size_t m = p->source.end_mark; m-- > p->source.first_mark;) {
        const struct prose_mark *mark = &p->source.prose->marks[m];
        const struct window_parent parent = parent_of(placing);
        struct place_node *node;

        if (mark->kind != PROSE_CLOSE || mark->partner >= p->source.first_mark)
            continue;
        node = add_node(p, PLACE_ELEMENT, m, placing->parent);
        node->close = (uint32_t)m;
        set_element(p, node, window_first(&parent, mark->at));
        node->key = 0; /* also where it has no units */
        placing->parent = (uint32_t)(node - p->nodes);
    }
}

static void place_mark(struct placing *placing, size_t m)
{
    const struct place *p = placing->place;

    switch (p->source.prose->marks[m].kind) {
    case PROSE_MASK:
        place_mask(placing, m);
        break;
    case PROSE_TERM:
        place_term(placing, m);
        break;
    case PROSE_SPELLING: /* is of the translation's words */
        break;
    case PROSE_OPEN:
        if (placing->keeps_order)
            place_point(placing, m);
        else
            place_element(placing, m);
        break;
    case PROSE_CLOSE:
        if (placing->keeps_order)
            place_point(placing, m);
        else
            placing->parent = p->nodes[placing->parent].parent;
        break;
    default:
        place_point(placing, m);
        break;
    }
}

/* What looks like a mask and stands for none: documents have nothing that does. */
static void drop_masks(struct place *p)
{
    for (size_t u = 0; u < p->units.n; u++)
        if (units_is_mask(&p->units, u) && p->nodes[p->units.items[u].owner].kind != PLACE_UNIT)
            p->units.items[u].is_dropped = true;
}

static void place_each(struct place *p)
{
    struct placing placing = {
        .place = p, .keeps_order = p->source.end_mark - p->source.first_mark > MAX_FREE_MARKS};

    p->nodes[0] =
        (struct place_node){.kind = PLACE_ELEMENT, .close = UINT32_MAX, .end = p->units.n};
    p->n_nodes = 1;
    for (size_t m = p->source.first_mark; m < p->source.end_mark; m++)
        placing.keeps_order = placing.keeps_order || p->source.prose->marks[m].kind == PROSE_TAG;
    if (!placing.keeps_order)
        place_unopened(&placing);
    for (size_t m = p->source.first_mark; m < p->source.end_mark; m++)
        place_mark(&placing, m);
    drop_masks(p);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *nodes)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct place_node *x = (const struct place_node *)nodes + i,
                            *y = (const struct place_node *)nodes + j;

    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return i < j ? -1 : i > j;
}

size_t place_children(const struct place *p, uint32_t parent, size_t *n)
{
    size_t low = 0, high = p->n_nodes - 1, first;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (p->nodes[p->order[middle]].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    for (first = low; low < p->n_nodes - 1 && p->nodes[p->order[low]].parent == parent;)
        low++;
    *n = low - first;
    return first;
}

bool place_marks(struct place *p)
{
    const size_t n = p->source.end_mark - p->source.first_mark + 1;

    p->nodes = malloc(n * sizeof(p->nodes[0]));
    p->order = malloc(n * sizeof(p->order[0]));
    if (!p->nodes || !p->order || !units_cut(&p->units) || !bind_units(&p->units, &p->source) ||
        !finder_open(&p->finder, &p->units))
        return false;
    place_each(p);
    for (size_t i = 1; i < p->n_nodes; i++)
        p->order[i - 1] = (uint32_t)i;
    qsort_r(p->order, p->n_nodes - 1, sizeof(p->order[0]), compare, p->nodes);
    return true;
}

void place_fini(struct place *p)
{
    finder_close(&p->finder);
    units_fini(&p->units);
    free(p->nodes);
    free(p->order);
}
