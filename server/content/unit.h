/* unit.h - the units of a sentence: its words, and characters that are in none.
 *
 * Those of a translation know by the engine's alignments where in the source they come from, or for
 * certain where bind.h has found it. Any thread, one at a time.
 */
#ifndef SERVER_CONTENT_UNIT_H
#define SERVER_CONTENT_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

struct unit {
    size_t begin, end;          /* in the text */
    size_t first_token, tokens; /* those of `alignments` that it has a part of */
    size_t bound;               /* where it surely comes from; SIZE_MAX: alignments tell */
    uint32_t term, n_units;     /* units from here are the translation of term `term - 1` already */
    uint32_t owner;             /* the innermost node that has it (place.h); 0 is the sentence */
    bool is_dropped;            /* a mask too many */
};

struct units {
    const char *text;                        /* of which the sentence is a part: */
    struct acre_range range;                 /* this */
    const struct acre_alignment *alignments; /* [n_alignments]: of its tokens, in order; or none */
    size_t n_alignments;
    const char *mask;   /* masks, which begin with it, are units; "" or NULL: there are none */
    struct unit *items; /* owned, [n] */
    size_t n;
};

/* Fills `items` from what is above them. False: no memory. */
bool units_cut(struct units *units);
void units_fini(struct units *units);

/* Whether a range of a text has a unit. */
bool units_are_in(const char *text, size_t begin, size_t end);

/* Whether it is a word, and no punctuation. */
bool units_is_word(const struct units *units, size_t u);

/* Whether it looks like a mask. */
bool units_is_mask(const struct units *units, size_t u);

/* Where in the source a unit comes from; SIZE_MAX: nowhere. */
size_t units_source(const struct units *units, size_t u);

/* How much of it comes from [begin, end) of the source: of all -1 to 1, twice that if it is sure,
 * and less of short words, which go with others. */
double units_score(const struct units *units, size_t u, size_t begin, size_t end);

#endif
