/* constraint.h - which tokens may follow, as bit sets over the vocabulary.
 *
 * Forbidden tokens are never allowed, the end token not before the minimum length. For byte
 * vocabularies a hypothesis also carries a state of the UTF-8 grammar (RFC 3629), so that the
 * search can only emit valid text: a lead byte needs room for its continuation bytes before the
 * length limit, and the end token is allowed between characters only. Immutable once made: tables,
 * which a device may copy.
 */
#ifndef DECODE_CONSTRAINT_H
#define DECODE_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

#ifndef SEARCH_RULE /* see search/rules.h */
#define SEARCH_RULE static inline
#endif

enum {
    CONSTRAINT_STATES = 8,
    CONSTRAINT_ROOMS = 4, /* room for 1, 2, 3, or at least 4 tokens */
    CONSTRAINT_FIRST_BYTE = 2,
};

struct constraint {
    size_t words;   /* of a set */
    uint32_t *sets; /* owned, [states][rooms][end allowed][words]; 0 beyond the vocabulary */
    uint8_t
        *next; /* owned, [states][256], by byte; NULL: tokens are no bytes, there is one state */
};

struct constraint_options {
    int vocab_size;
    int end_token;
    const int *forbidden; /* [n_forbidden] */
    int n_forbidden;
    bool bytes; /* ids are 2 + byte */
};

/* *constraint is owned by the caller; 0 or ACRE_ENOMEM. */
int constraint_open(const struct constraint_options *options, struct constraint **constraint);
void constraint_close(struct constraint *constraint); /* NULL is allowed */

/* The set for a hypothesis in `state` that may still take tokens_left tokens besides the end. */
SEARCH_RULE const uint32_t *constraint_allowed(const struct constraint *constraint, uint8_t state,
                                               int tokens_left, bool end_allowed)
{
    int room = tokens_left < CONSTRAINT_ROOMS ? tokens_left : CONSTRAINT_ROOMS;
    size_t index = (size_t)state * CONSTRAINT_ROOMS + (size_t)(room > 0 ? room - 1 : 0);
    return constraint->sets + (2 * index + (end_allowed ? 1 : 0)) * constraint->words;
}

/* The state after `token`; 0 is the state of an empty hypothesis. */
SEARCH_RULE uint8_t constraint_next(const struct constraint *constraint, uint8_t state,
                                    int32_t token)
{
    int32_t byte = token - CONSTRAINT_FIRST_BYTE;
    return constraint->next && byte >= 0 && byte <= 255 ? constraint->next[state * 256 + byte] : 0;
}

#endif
