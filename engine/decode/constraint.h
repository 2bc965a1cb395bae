/* constraint.h - which tokens may follow, as bit sets over the vocabulary.
 *
 * Forbidden tokens are never allowed, the end token not before the minimum length. For byte
 * vocabularies a hypothesis also carries a state of the UTF-8 grammar (RFC 3629), so that the
 * search can only emit valid text: a lead byte needs room for its continuation bytes before the
 * length limit, and the end token is allowed between characters only. Immutable once made.
 */
#ifndef DECODE_CONSTRAINT_H
#define DECODE_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

struct constraint;

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
const uint32_t *constraint_allowed(const struct constraint *constraint, uint8_t state,
                                   int tokens_left, bool end_allowed);

/* The state after `token`; 0 is the state of an empty hypothesis. */
uint8_t constraint_next(const struct constraint *constraint, uint8_t state, int32_t token);

#endif
