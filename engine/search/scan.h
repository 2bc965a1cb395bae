/* scan.h - what the search keeps of the logits of one hypothesis' next token.
 *
 * A device computes the logits block by block; of each block it takes the best candidates and the
 * sum of the softmax into the scan, so that the logits are never all in memory.
 */
#ifndef SEARCH_SCAN_H
#define SEARCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "shapes.h"

enum { SCAN_MAX_BEST = 2 * MAX_BEAM };

/* A candidate for the next token of a hypothesis. */
struct candidate {
    int32_t id;
    float logit;
};

/* What is known of one row's logits so far: the best k of the allowed ids, and a running maximum
 * with the sum of exp(logit - maximum) over all ids. Start: n = 0, maximum = -inf, sum = 0. */
struct logit_scan {
    struct candidate *best; /* [k], sorted: higher logit first, then lower id */
    int n, k;
    float maximum, sum;
    const uint32_t *allowed; /* bit set of ids that may be chosen; NULL = all */
    bool renormalize;        /* ids that may not be chosen have no share of the sum either */
    bool has_wanted; /* best[0].id is the only candidate, and its logit goes into `wanted`: the list
                      * is full then, of what no other is better than */
    float wanted;
};

#endif
