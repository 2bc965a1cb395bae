/* Happy path: terms that the translation has as they are called -> units that both sides have
 * equally often -> articles, which nothing comes from by alignments.
 *
 * Failure modes: no memory. */
#include "content/bind.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/window.h"

/* ---- What terms are called ------------------------------------------------------------------- */

/* How many units from u on are the translation of a term; 0: they are not. */
static size_t says_term(const struct units *units, size_t u, const struct prose_term *term)
{
    const size_t begin = units->items[u].begin;

    if (term->bytes > units->range.first + units->range.n_bytes - begin ||
        memcmp(units->text + begin, term->target, term->bytes) != 0)
        return 0;
    for (size_t n = 0; u + n < units->n && units->items[u + n].term == 0; n++)
        if (units->items[u + n].end >= begin + term->bytes)
            return units->items[u + n].end == begin + term->bytes ? n + 1 : 0;
    return 0;
}

/* Where the translation says already what a term is to be called, it comes from there: of several
 * places, that whose source is nearest. */
static void bind_term(struct units *units, const struct prose *prose, size_t m)
{
    const struct prose_mark *mark = &prose->marks[m];
    const struct prose_term *term = &prose->terms[mark->partner];
    size_t least = SIZE_MAX, best = 0, n_best = 0;

    for (size_t u = 0; u < units->n; u++) {
        const size_t n = says_term(units, u, term);
        const size_t away = window_distance(units_source(units, u), mark->at, mark->at + mark->n);

        if (n > 0 && (n_best == 0 || away < least)) {
            least = away;
            best = u;
            n_best = n;
        }
    }
    for (size_t u = best; u < best + n_best; u++) {
        units->items[u].term = (uint32_t)m + 1;
        units->items[u].n_units = (uint32_t)n_best;
        units->items[u].bound = mark->at;
    }
}

/* ---- What is the same ------------------------------------------------------------------------ */

/* A unit of either side, to be sorted by its text. */
struct like {
    const char *text;
    size_t bytes;
    size_t unit;
    bool is_source;
};

static int compare_texts(const struct like *a, const struct like *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return memcmp(a->text, b->text, a->bytes);
}

/* Of the same text, first those of the translation, each side in its order. */
static int compare(const void *a, const void *b)
{
    const struct like *x = a, *y = b;
    const int order = compare_texts(x, y);

    if (order != 0)
        return order;
    if (x->is_source != y->is_source)
        return x->is_source ? 1 : -1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Words of two letters are too often others': "in", "die". */
static bool can_bind(const struct like *like)
{
    size_t at = 0;

    return like->bytes > 2 || !u_isalpha((UChar32)unicode_next(like->text, like->bytes, &at));
}

/* `likes` are all of one text. What both sides have equally often comes from its like, in order. */
static void bind_likes(struct units *units, const struct units *words, const struct like *likes,
                       size_t n)
{
    size_t n_target = 0;

    while (n_target < n && !likes[n_target].is_source)
        n_target++;
    for (size_t i = 0; i < n_target && 2 * n_target == n; i++)
        if (units->items[likes[i].unit].term == 0)
            units->items[likes[i].unit].bound = words->items[likes[n_target + i].unit].begin;
}

static void add_likes(struct like *likes, const struct units *units, bool is_source)
{
    for (size_t u = 0; u < units->n; u++) {
        const struct unit *unit = &units->items[u];

        likes[u] = (struct like){units->text + unit->begin, unit->end - unit->begin, u, is_source};
    }
}

static bool bind_alike(struct units *units, const struct units *words)
{
    const size_t n = units->n + words->n;
    struct like *likes = malloc((n ? n : 1) * sizeof(*likes));
    size_t first = 0;

    if (!likes)
        return false;
    add_likes(likes, units, false);
    add_likes(likes + units->n, words, true);
    qsort(likes, n, sizeof(*likes), compare);
    for (size_t i = 1; i <= n; i++) {
        if (i < n && compare_texts(&likes[first], &likes[i]) == 0)
            continue;
        if (can_bind(&likes[first]))
            bind_likes(units, words, likes + first, i - first);
        first = i;
    }
    free(likes);
    return true;
}

/* ---- Articles -------------------------------------------------------------------------------- */

/* The word that a unit comes from; words->n: none. */
static size_t word_of(const struct units *units, size_t u, const struct units *words)
{
    const size_t from = units_source(units, u);
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

/* Attention looks past articles: of two units from "dog" in "the dog", where nothing comes from
 * "the", the first does; and of what "train station" is, where nothing comes from "the train".
 * `tokens` of a word counts the units that come from it. */
static void bind_articles(struct units *units, struct units *words)
{
    for (size_t u = 0; u < units->n; u++) {
        const size_t word = word_of(units, u, words);

        if (word < words->n)
            words->items[word].tokens++;
    }
    for (size_t u = 0; u + 1 < units->n; u++) {
        const size_t word = word_of(units, u, words);
        size_t first = word;

        if (word >= words->n || units->items[u].bound != SIZE_MAX ||
            word_of(units, u + 1, words) != word)
            continue;
        while (first > 0 && words->items[first - 1].tokens == 0 && units_is_word(words, first - 1))
            first--;
        if (first == word)
            continue;
        units->items[u].bound = words->items[first].begin;
        words->items[first].tokens++;
        words->items[word].tokens--;
    }
}

bool bind_units(struct units *units, const struct prose_sentence *source)
{
    struct units words = {
        .text = source->prose->text, .range = source->range, .mask = source->prose->mask};
    bool is_done;

    for (size_t m = source->first_mark; m < source->end_mark; m++)
        if (source->prose->marks[m].kind == PROSE_TERM)
            bind_term(units, source->prose, m);
    is_done = units_cut(&words) && bind_alike(units, &words);
    if (is_done)
        bind_articles(units, &words);
    units_fini(&words);
    return is_done;
}
