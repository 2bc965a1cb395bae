/* area_reference.h - area attention of one query by its definition, in double precision.
 *
 * Section 1 of the paper's method and nothing else: every area is visited, its key and value are
 * built from its items, one softmax runs over all areas. Tests hold the engine's way to this one.
 */
#ifndef AREA_REFERENCE_H
#define AREA_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many areas of 1 to A items a memory of L items has. */
size_t area_reference_count(size_t L, int A);

/* q [d], k and v [L, d]; allowed [L], NULL = all. An area counts only if all its items are allowed.
 * The key is the mean of the items, the value their sum or, if mean_value, their mean.
 * Logits are q.key / sqrt(d). out [d]; weights [area_reference_count(L, A)], ordered by width, then
 * by first item, may be NULL. If nothing is allowed, out and weights are zero. */
void area_reference(const float *q, const float *k, const float *v, const bool *allowed, size_t L,
                    size_t d, int A, bool mean_value, double *out, double *weights);

#ifdef __cplusplus
}
#endif

#endif
