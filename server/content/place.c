/* Happy path: cut() -> bind_units() -> place_each(), which takes the marks in the order of
 * the source: an element is given its window before what is in it, so that children know where
 * they may be -> the nodes are sorted.
 *
 * Failure modes: no memory. A tag without partner would change what is nested in what if another
 * passed it: where a sentence has one, all marks keep the order of the source; and where it has so
 * many marks that no writer set them, as that takes no time. An element that nothing comes from
 * gets the unit whose source is nearest. */
#include "content/place.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/word.h"

/* Longer sentences go by alignments alone: binding is quadratic. Of more marks none passes another:
 * each of them looks at all units, and at all that it is nested in. */
enum { MAX_BOUND_BYTES = 8192, MAX_FREE_MARKS = 256 };

/* ---- Units ----------------------------------------------------------------------------------- */

/* Whether an apostrophe belongs to the word before it: "aujourd'hui" is one, "l'homme" two. */
static bool joins(UChar32 c, size_t n_before)
{
    return (c == '\'' || c == 0x2019) && n_before > 2;
}

/* Behind the word whose first character is `c` and ends at `at`. */
static size_t end_of_word(const char *text, size_t at, size_t end)
{
    for (size_t n = 1; at < end; n++) {
        size_t next = at, beyond;
        UChar32 c = (UChar32)unicode_next(text, end, &next);

        beyond = next;
        if (joins(c, n) && beyond < end && word_has(unicode_next(text, end, &beyond)))
            next = beyond;
        else if (!word_has((uint32_t)c))
            break;
        at = next;
    }
    return at;
}

/* The next unit from *at on. */
static bool next_unit(const char *text, size_t *at, size_t end, struct place_unit *unit)
{
    size_t after = *at;
    UChar32 c = 0;

    *unit = (struct place_unit){.bound = SIZE_MAX};
    for (unit->begin = *at; unit->begin < end; unit->begin = after) {
        c = (UChar32)unicode_next(text, end, &after);
        if (!u_isUWhiteSpace(c))
            break;
    }
    if (unit->begin >= end)
        return false;
    unit->end = *at = word_has((uint32_t)c) ? end_of_word(text, after, end) : after;
    return true;
}

/* Those tokens whose text a unit has a part of; both are in the order of the target. */
static void give_tokens(struct place *p)
{
    size_t t = 0;

    for (size_t u = 0; u < p->n_units; u++) {
        struct place_unit *unit = &p->units[u];

        while (t < p->n_alignments &&
               p->alignments[t].target.first + p->alignments[t].target.n_bytes <= unit->begin)
            t++;
        unit->first_token = t;
        while (t + unit->tokens < p->n_alignments &&
               p->alignments[t + unit->tokens].target.first < unit->end)
            unit->tokens++;
    }
}

/* *units is owned by the caller. */
static bool cut(const char *text, struct acre_range range, struct place_unit **units, size_t *n)
{
    struct place_unit unit;
    size_t capacity = 0, at = range.first;

    while (next_unit(text, &at, range.first + range.n_bytes, &unit)) {
        if (*n == capacity) {
            struct place_unit *more;

            capacity = capacity ? capacity * 2 : 64;
            more = realloc(*units, capacity * sizeof(*more));
            if (!more)
                return false;
            *units = more;
        }
        (*units)[(*n)++] = unit;
    }
    return true;
}

/* ---- What surely comes from where ------------------------------------------------------------ */

static bool is_same(const char *a, const struct place_unit *x, const char *b,
                    const struct place_unit *y)
{
    return x->end - x->begin == y->end - y->begin &&
           memcmp(a + x->begin, b + y->begin, x->end - x->begin) == 0;
}

/* Words of two letters are too often others': "in", "die". */
static bool can_bind(const char *text, const struct place_unit *unit)
{
    size_t at = unit->begin;

    return unit->end - unit->begin > 2 || !u_isalpha((UChar32)unicode_next(text, unit->end, &at));
}

static size_t token_source(const struct place *p, size_t t)
{
    const struct acre_range *from = &p->alignments[t].source;

    return from->first + from->n_bytes / 2;
}

/* Where in the source a unit comes from; SIZE_MAX: nowhere. */
static size_t unit_source(const struct place *p, const struct place_unit *unit)
{
    if (unit->bound != SIZE_MAX)
        return unit->bound;
    for (size_t t = unit->first_token; t < unit->first_token + unit->tokens; t++)
        if (p->alignments[t].source.n_bytes > 0)
            return token_source(p, t);
    return SIZE_MAX;
}

/* The words of the source, while units are bound to them. */
struct words {
    struct place_unit *items; /* owned; `tokens` counts the units of the target from there */
    size_t n;
};

/* A unit that both sides have equally often comes from its like, in their order. */
static void bind_alike(struct place *p, const struct words *words, size_t u)
{
    struct place_unit *unit = &p->units[u];
    size_t before = 0, n_target = 0, n_source = 0, bound = SIZE_MAX;

    if (unit->term != 0 || !can_bind(p->text, unit))
        return;
    for (size_t i = 0; i < p->n_units; i++)
        if (is_same(p->text, unit, p->text, &p->units[i])) {
            before += i < u;
            n_target++;
        }
    for (size_t i = 0; i < words->n; i++)
        if (is_same(p->text, unit, p->prose->text, &words->items[i]) && n_source++ == before)
            bound = words->items[i].begin;
    if (n_source == n_target)
        unit->bound = bound;
}

/* The word that a unit comes from; words->n: none. */
static size_t word_of(const struct place *p, const struct words *words,
                      const struct place_unit *unit)
{
    const size_t from = unit_source(p, unit);
    size_t low = 0, high = words->n;

    if (from == SIZE_MAX)
        return words->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (words->items[middle].end <= from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Or any other word, but no punctuation. */
static bool is_article(const struct place *p, const struct place_unit *word)
{
    size_t at = word->begin;

    return word_has(unicode_next(p->prose->text, word->end, &at));
}

/* Attention looks past articles: of two units from "dog" in "the dog", where nothing comes from
 * "the", the first does; and of what "train station" is, where nothing comes from "the train". */
static void bind_articles(struct place *p, struct words *words)
{
    for (size_t u = 0; u < p->n_units; u++) {
        const size_t word = word_of(p, words, &p->units[u]);

        if (word < words->n)
            words->items[word].tokens++;
    }
    for (size_t u = 0; u + 1 < p->n_units; u++) {
        const size_t word = word_of(p, words, &p->units[u]);
        struct place_unit *first;

        if (word >= words->n || p->units[u].bound != SIZE_MAX ||
            word_of(p, words, &p->units[u + 1]) != word)
            continue;
        first = &words->items[word];
        while (first > words->items && first[-1].tokens == 0 && is_article(p, &first[-1]))
            first--;
        if (first == &words->items[word])
            continue;
        p->units[u].bound = first->begin;
        first->tokens++;
        words->items[word].tokens--;
    }
}

/* ---- What terms are called ------------------------------------------------------------------- */

/* How many units from u on are the translation of a term; 0: they are not. */
static size_t says_term(const struct place *p, size_t u, const struct prose_term *term)
{
    const size_t begin = p->units[u].begin;

    if (term->bytes > p->target.first + p->target.n_bytes - begin ||
        memcmp(p->text + begin, term->target, term->bytes) != 0)
        return 0;
    for (size_t n = 0; u + n < p->n_units && p->units[u + n].term == 0; n++)
        if (p->units[u + n].end >= begin + term->bytes)
            return p->units[u + n].end == begin + term->bytes ? n + 1 : 0;
    return 0;
}

static size_t distance(size_t at, size_t begin, size_t end)
{
    return at < begin ? begin - at : at >= end ? at - end + 1 : 0;
}

/* Where the translation says already what a term is to be called, it comes from there: of several
 * places, that whose source is nearest. */
static void bind_term(struct place *p, size_t m)
{
    const struct prose_mark *mark = &p->prose->marks[m];
    const struct prose_term *term = &p->prose->terms[mark->partner];
    size_t least = SIZE_MAX, best = 0, n_best = 0;

    for (size_t u = 0; u < p->n_units; u++) {
        const size_t n = says_term(p, u, term), from = unit_source(p, &p->units[u]);
        const size_t away = distance(from, mark->at, (size_t)mark->at + mark->n);

        if (n > 0 && (n_best == 0 || away < least)) {
            least = away;
            best = u;
            n_best = n;
        }
    }
    for (size_t u = best; u < best + n_best; u++) {
        p->units[u].term = (uint32_t)m + 1;
        p->units[u].n_units = (uint32_t)n_best;
        p->units[u].bound = mark->at;
    }
}

static void bind_terms(struct place *p)
{
    for (size_t m = p->first_mark; m < p->end_mark; m++)
        if (p->prose->marks[m].kind == PROSE_TERM)
            bind_term(p, m);
}

static bool bind_units(struct place *p)
{
    struct words words = {NULL, 0};
    bool is_done;

    if (p->source.n_bytes > MAX_BOUND_BYTES || p->target.n_bytes > MAX_BOUND_BYTES)
        return true;
    is_done = cut(p->prose->text, p->source, &words.items, &words.n);
    for (size_t u = 0; u < p->n_units && is_done; u++)
        bind_alike(p, &words, u);
    if (is_done)
        bind_articles(p, &words);
    free(words.items);
    return is_done;
}

/* How much of a unit comes from [begin, end) of the source: of all -1 to 1, twice that if it is
 * sure, and less of short words, which go with others. */
static double score(const struct place *p, const struct place_unit *unit, size_t begin, size_t end)
{
    const size_t bytes = unit->end - unit->begin;
    const double weight = (1.0 + (double)(bytes < 5 ? bytes : 5)) / 6;
    double sum = 0;
    size_t n = 0;

    if (unit->bound != SIZE_MAX)
        return (unit->bound >= begin && unit->bound < end ? 2 : -2) * weight;
    for (size_t t = unit->first_token; t < unit->first_token + unit->tokens; t++) {
        const size_t from = token_source(p, t);

        if (p->alignments[t].source.n_bytes == 0)
            continue;
        sum += from >= begin && from < end ? 1 : -1;
        n++;
    }
    return n > 0 ? weight * sum / (double)n : -0.1;
}

/* ---- Windows --------------------------------------------------------------------------------- */

struct window {
    size_t begin, end;
};

/* The units of `parent` in a row that come from [begin, end) most; empty: none do. */
static struct window best_window(const struct place *p, uint32_t parent, size_t begin, size_t end)
{
    const struct place_node *outer = &p->nodes[parent];
    struct window best = {outer->begin, outer->begin};
    double sum = 0, most = 0;
    size_t first = outer->begin;

    for (size_t u = outer->begin; u < outer->end; u++) {
        if (p->units[u].owner != parent || sum <= 0) {
            sum = 0;
            first = u;
        }
        if (p->units[u].owner != parent)
            continue;
        sum += score(p, &p->units[u], begin, end);
        if (sum > most + 1e-9) {
            most = sum;
            best = (struct window){first, u + 1};
        }
    }
    return best;
}

/* The unit of `parent` whose source is nearest to [begin, end). */
static struct window nearest_window(const struct place *p, uint32_t parent, size_t begin,
                                    size_t end)
{
    const struct place_node *outer = &p->nodes[parent];
    struct window best = {outer->begin, outer->begin};
    size_t least = SIZE_MAX;

    for (size_t u = outer->begin; u < outer->end; u++) {
        const size_t from = unit_source(p, &p->units[u]);

        if (p->units[u].owner == parent && from != SIZE_MAX && distance(from, begin, end) < least) {
            least = distance(from, begin, end);
            best = (struct window){u, u + 1};
        }
    }
    return best;
}

/* Of an element that began before the sentence: its first units, up to `end` of the source. */
static struct window first_window(const struct place *p, uint32_t parent, size_t end)
{
    const struct place_node *outer = &p->nodes[parent];
    struct window best = {outer->begin, outer->begin};
    double sum = 0, most = 0;

    for (size_t u = outer->begin; u < outer->end && p->units[u].owner == parent; u++) {
        sum += score(p, &p->units[u], 0, end);
        if (sum > most) {
            most = sum;
            best.end = u + 1;
        }
    }
    return best;
}

/* Of one that ends after it: its last units, from `begin` of the source on. */
static struct window last_window(const struct place *p, uint32_t parent, size_t begin)
{
    const struct place_node *outer = &p->nodes[parent];
    struct window best = {outer->end, outer->end};
    double sum = 0, most = 0;

    for (size_t u = outer->end; u > outer->begin && p->units[u - 1].owner == parent; u--) {
        sum += score(p, &p->units[u - 1], begin, SIZE_MAX);
        if (sum > most) {
            most = sum;
            best.begin = u - 1;
        }
    }
    return best;
}

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
        p->units[u].owner = (uint32_t)(node - p->nodes);
}

/* The child of `parent` that has a unit: the unit's owner or one of its ancestors. */
static uint32_t child_at(const struct place *p, uint32_t parent, size_t unit)
{
    uint32_t node = p->units[unit].owner;

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
    return at < p->source.first || at >= p->source.first + p->source.n_bytes ||
           strchr(" \n\t", p->prose->text[at]);
}

/* Beside the unit of the word that it stands beside: the one before, unless only a blank is. */
static void set_point(const struct place *p, struct place_node *node, size_t at)
{
    const struct place_node *outer = &p->nodes[node->parent];
    const bool is_left = !is_blank_at(p, at - 1);
    size_t below = SIZE_MAX, above = SIZE_MAX, below_at = 0, above_at = SIZE_MAX;

    for (size_t u = outer->begin; u < outer->end; u++) {
        const size_t from = unit_source(p, &p->units[u]);

        if (from == SIZE_MAX)
            continue;
        if (from < at && (below == SIZE_MAX || from >= below_at)) {
            below = u;
            below_at = from;
        } else if (from >= at && from < above_at) {
            above = u;
            above_at = from;
        }
    }
    if (below != SIZE_MAX && (is_left || above == SIZE_MAX))
        set_gap(p, node, below + 1, true);
    else
        set_gap(p, node, above != SIZE_MAX ? above : outer->begin, false);
}

/* A mask stands for itself, if the model copied it. */
static size_t find_mask(const struct place *p, const struct prose_mark *mark)
{
    const char *text = p->prose->text + mark->at;

    for (size_t u = 0; u < p->n_units; u++) {
        const struct place_unit *unit = &p->units[u];

        if (unit->end - unit->begin == mark->n && !unit->is_dropped &&
            memcmp(p->text + unit->begin, text, mark->n) == 0 &&
            (unit->bound == SIZE_MAX || unit->bound == mark->at))
            return u;
    }
    return SIZE_MAX;
}

/* ---- Placing --------------------------------------------------------------------------------- */

/* The elements that are open where the next mark is. */
struct placing {
    struct place *place;
    uint32_t parent;
    bool keeps_order;
    size_t gap;    /* where the last one is, if so, */
    uint32_t last; /* and which: those beside each other in the source have one place; 0: none */
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

static void place_point(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *marks = p->prose->marks;
    struct place_node *node = add_node(p, PLACE_POINT, m, placing->parent);
    const struct place_node *last = &p->nodes[placing->last];

    if (placing->last > 0 && marks[last->mark].at == marks[m].at) {
        node->begin = node->end = last->begin;
        node->is_left = last->is_left;
        node->key = last->key;
    } else {
        set_point(p, node, marks[m].at);
        keep_order(placing, node);
    }
    placing->last = placing->keeps_order ? (uint32_t)(node - p->nodes) : 0;
}

static void place_mask(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const size_t u = find_mask(p, &p->prose->marks[m]);
    struct place_node *node;

    if (u == SIZE_MAX || p->units[u].owner != placing->parent ||
        (placing->keeps_order && u < placing->gap)) {
        if (u != SIZE_MAX)
            p->units[u].is_dropped = true;
        place_point(placing, m);
        return;
    }
    node = add_node(p, PLACE_UNIT, m, placing->parent);
    set_element(p, node, (struct window){u, u + 1});
    if (placing->keeps_order)
        placing->gap = u + 1;
}

/* Without the punctuation at its ends. */
static struct window trimmed(const struct place *p, struct window window)
{
    size_t at;

    while (window.begin < window.end &&
           (at = p->units[window.begin].begin,
            !word_has(unicode_next(p->text, p->units[window.begin].end, &at))))
        window.begin++;
    while (window.begin < window.end &&
           (at = p->units[window.end - 1].begin,
            !word_has(unicode_next(p->text, p->units[window.end - 1].end, &at))))
        window.end--;
    return window;
}

/* The units that a term takes the place of; empty: there are none. */
static struct window term_window(const struct place *p, uint32_t parent, size_t m)
{
    const struct place_node *outer = &p->nodes[parent];
    const struct prose_mark *mark = &p->prose->marks[m];

    for (size_t u = outer->begin; u < outer->end; u++)
        if (p->units[u].term == m + 1 && u + p->units[u].n_units <= outer->end &&
            p->units[u].owner == parent)
            return (struct window){u, u + p->units[u].n_units};
    return trimmed(p, best_window(p, parent, mark->at, (size_t)mark->at + mark->n));
}

/* One that goes on in the next sentence is left to the translation. */
static void place_term(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *mark = &p->prose->marks[m];
    const struct window window = term_window(p, placing->parent, m);

    if (mark->at + mark->n > p->source.first + p->source.n_bytes)
        return;
    if (window.begin == window.end || (placing->keeps_order && window.begin < placing->gap)) {
        place_point(placing, m);
        return;
    }
    set_element(p, add_node(p, PLACE_UNIT, m, placing->parent), window);
    if (placing->keeps_order)
        placing->gap = window.end;
}

static bool has_words(const struct place *p, size_t begin, size_t end)
{
    struct place_unit unit;

    return next_unit(p->prose->text, &begin, end, &unit);
}

static void place_element(struct placing *placing, size_t m)
{
    struct place *p = placing->place;
    const struct prose_mark *open = &p->prose->marks[m];
    const bool ends_here = open->partner < p->end_mark;
    const size_t begin = open->at, end = ends_here ? p->prose->marks[open->partner].at : SIZE_MAX;
    struct place_node *node = add_node(p, PLACE_ELEMENT, m, placing->parent);
    struct window window = {0, 0};

    node->has_open = true;
    if (ends_here && has_words(p, begin, end)) {
        window = best_window(p, placing->parent, begin, end);
        if (window.begin == window.end)
            window = nearest_window(p, placing->parent, begin, end);
    } else if (!ends_here) {
        window = last_window(p, placing->parent, begin);
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

    for (size_t m = p->end_mark; m-- > p->first_mark;) {
        const struct prose_mark *mark = &p->prose->marks[m];
        struct place_node *node;

        if (mark->kind != PROSE_CLOSE || mark->partner >= p->first_mark)
            continue;
        node = add_node(p, PLACE_ELEMENT, m, placing->parent);
        node->close = (uint32_t)m;
        set_element(p, node, first_window(p, placing->parent, mark->at));
        node->key = 0; /* also where it has no units */
        placing->parent = (uint32_t)(node - p->nodes);
    }
}

static void place_mark(struct placing *placing, size_t m)
{
    const struct place *p = placing->place;

    switch (p->prose->marks[m].kind) {
    case PROSE_MASK:
        place_mask(placing, m);
        break;
    case PROSE_TERM:
        place_term(placing, m);
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

/* What looks like a mask and is none of the sentence's, or one of them again. */
static void drop_masks(struct place *p)
{
    for (size_t m = p->first_mark; m < p->end_mark; m++) {
        const struct prose_mark *mark = &p->prose->marks[m];

        for (size_t u = 0; u < p->n_units && mark->kind == PROSE_MASK; u++) {
            struct place_unit *unit = &p->units[u];

            if (p->nodes[unit->owner].kind != PLACE_UNIT && unit->end - unit->begin == mark->n &&
                memcmp(p->text + unit->begin, p->prose->text + mark->at, mark->n) == 0)
                unit->is_dropped = true;
        }
    }
}

static void place_each(struct place *p)
{
    struct placing placing = {.place = p,
                              .keeps_order = p->end_mark - p->first_mark > MAX_FREE_MARKS};

    p->nodes[0] =
        (struct place_node){.kind = PLACE_ELEMENT, .close = UINT32_MAX, .end = p->n_units};
    p->n_nodes = 1;
    for (size_t m = p->first_mark; m < p->end_mark; m++)
        placing.keeps_order = placing.keeps_order || p->prose->marks[m].kind == PROSE_TAG;
    if (!placing.keeps_order)
        place_unopened(&placing);
    for (size_t m = p->first_mark; m < p->end_mark; m++)
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
    const size_t n = p->end_mark - p->first_mark + 1;

    p->nodes = malloc(n * sizeof(p->nodes[0]));
    p->order = malloc(n * sizeof(p->order[0]));
    if (!p->nodes || !p->order || !cut(p->text, p->target, &p->units, &p->n_units))
        return false;
    give_tokens(p);
    bind_terms(p);
    if (!bind_units(p))
        return false;
    place_each(p);
    for (size_t i = 1; i < p->n_nodes; i++)
        p->order[i - 1] = (uint32_t)i;
    qsort_r(p->order, p->n_nodes - 1, sizeof(p->order[0]), compare, p->nodes);
    return true;
}

void place_fini(struct place *p)
{
    free(p->units);
    free(p->nodes);
    free(p->order);
    *p = (struct place){.prose = NULL};
}
