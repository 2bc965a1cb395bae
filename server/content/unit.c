/* Happy path: units_cut(): blanks are skipped, words and masks are found by ICU's properties, then
 * the tokens of the hypothesis are given to the units that they stand in.
 *
 * Failure modes: no memory. A unit without a token of its own knows no source. */
#include "content/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/grow.h"
#include "common/unicode.h"
#include "content/word.h"

/* ---- Cutting --------------------------------------------------------------------------------- */

/* Whether an apostrophe belongs to the word before it: "aujourd'hui" is one, "l'homme" two. */
static bool joins(UChar32 c, size_t n_before)
{
    return (c == '\'' || c == 0x2019) && n_before > 2;
}

/* Of the mask at a place: what masks begin with, and digits. Whatever letters a model has put
 * beside it are other units. 0: there is none. */
static size_t mask_bytes(const struct units *units, size_t at, size_t end)
{
    const size_t n = units->mask ? strlen(units->mask) : 0;
    size_t digits = at + n;

    if (n == 0 || end - at <= n || memcmp(units->text + at, units->mask, n) != 0)
        return 0;
    while (digits < end && units->text[digits] >= '0' && units->text[digits] <= '9')
        digits++;
    return digits > at + n ? digits - at : 0;
}

/* Behind the word whose first character is `c` and ends at `at`. */
static size_t end_of_word(const struct units *units, size_t at, size_t end)
{
    const char *text = units->text;

    for (size_t n = 1; at < end && mask_bytes(units, at, end) == 0; n++) {
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

/* Behind the blanks at a place. */
static size_t skip_blanks(const char *text, size_t at, size_t end)
{
    for (size_t after = at; at < end; at = after)
        if (!u_isUWhiteSpace((UChar32)unicode_next(text, end, &after)))
            break;
    return at;
}

/* The first unit from *at on, which goes behind it; false: there is none before `end`. */
static bool next_unit(const struct units *units, size_t *at, size_t end, struct unit *unit)
{
    size_t after, n;
    uint32_t c;

    *unit = (struct unit){.begin = skip_blanks(units->text, *at, end), .bound = SIZE_MAX};
    if (unit->begin >= end)
        return false;
    after = unit->begin;
    c = unicode_next(units->text, end, &after);
    n = mask_bytes(units, unit->begin, end);
    unit->end = *at = n > 0         ? unit->begin + n
                      : word_has(c) ? end_of_word(units, after, end)
                                    : after;
    return true;
}

bool units_are_in(const char *text, size_t begin, size_t end)
{
    return skip_blanks(text, begin, end) < end;
}

/* Those tokens whose text a unit has a part of; both are in the order of the text. */
static void give_tokens(struct units *units)
{
    const struct acre_alignment *tokens = units->alignments;
    size_t t = 0;

    for (size_t u = 0; u < units->n; u++) {
        struct unit *unit = &units->items[u];

        while (t < units->n_alignments &&
               tokens[t].target.first + tokens[t].target.n_bytes <= unit->begin)
            t++;
        unit->first_token = t;
        while (t + unit->tokens < units->n_alignments &&
               tokens[t + unit->tokens].target.first < unit->end)
            unit->tokens++;
    }
}

bool units_cut(struct units *units)
{
    const size_t end = units->range.first + units->range.n_bytes;
    size_t capacity = 0, at = units->range.first;
    struct unit unit;

    while (next_unit(units, &at, end, &unit)) {
        if (!grow(&units->items, sizeof(units->items[0]), units->n + 1, &capacity))
            return false;
        units->items[units->n++] = unit;
    }
    give_tokens(units);
    return true;
}

void units_fini(struct units *units)
{
    free(units->items);
    units->items = NULL;
    units->n = 0;
}

/* ---- Looking --------------------------------------------------------------------------------- */

bool units_is_word(const struct units *units, size_t u)
{
    size_t at = units->items[u].begin;

    return word_has(unicode_next(units->text, units->items[u].end, &at));
}

bool units_is_mask(const struct units *units, size_t u)
{
    return mask_bytes(units, units->items[u].begin, units->items[u].end) > 0;
}

static size_t token_source(const struct units *units, size_t t)
{
    const struct acre_range *from = &units->alignments[t].source;

    return from->first + from->n_bytes / 2;
}

size_t units_source(const struct units *units, size_t u)
{
    const struct unit *unit = &units->items[u];

    if (unit->bound != SIZE_MAX)
        return unit->bound;
    for (size_t t = unit->first_token; t < unit->first_token + unit->tokens; t++)
        if (units->alignments[t].source.n_bytes > 0)
            return token_source(units, t);
    return SIZE_MAX;
}

double units_score(const struct units *units, size_t u, size_t begin, size_t end)
{
    const struct unit *unit = &units->items[u];
    const size_t bytes = unit->end - unit->begin;
    const double weight = (1.0 + (double)(bytes < 5 ? bytes : 5)) / 6;
    double sum = 0;
    size_t n = 0;

    if (unit->bound != SIZE_MAX)
        return (unit->bound >= begin && unit->bound < end ? 2 : -2) * weight;
    for (size_t t = unit->first_token; t < unit->first_token + unit->tokens; t++) {
        const size_t from = token_source(units, t);

        if (units->alignments[t].source.n_bytes == 0)
            continue;
        sum += from >= begin && from < end ? 1 : -1;
        n++;
    }
    return n > 0 ? weight * sum / (double)n : -0.1;
}
