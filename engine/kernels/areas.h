/* areas.h - areas one by one, for the modes that the scores identity does not serve.
 *
 * tensor/area.h says how areas are numbered. What a causal query sees is the first entries of every
 * plane, and an item that is appended to a memory adds one entry to each.
 *
 * Means and deviations of vectors come from integral images (Algorithms 1 and 2) in float32, added
 * and subtracted in the authors' order: where all items of an area are alike, the deviation is what
 * rounding leaves, in models that their code trained, too. The image begins anew every AREA_BLOCK
 * rows and columns, so that long memories do not lose digits. Sums of scores, which may be far
 * apart, and maxima are built up from those of the next smaller areas. Pure functions, any thread.
 */
#ifndef KERNELS_AREAS_H
#define KERNELS_AREAS_H

#include "kernels/kernels.h"

/* What is added to the variance before the root, as in the authors' code. */
#define AREA_EPSILON 1e-6f

enum { AREA_BLOCK = 64 };

/* integral[L,D]: for each item the sum of x[L,D], stride floats apart, over the part of its block
 * that lies above and left of it, itself included. */
void area_integral(const struct area_rule *rule, size_t l, size_t d, const float *x, size_t stride,
                   float *integral);

/* sums[L,D] over the areas of the present size; of the entries first ... end - 1. Void ones are
 * zero. */
void area_sums(const struct area_walk *walk, size_t l, size_t first, size_t end, size_t d,
               const float *integral, float *sums);

/* Takes windows[L,D] of the last size to the present one; columns[L,D] are those of height 1, and
 * on a line may be the windows. x[L,D] are the items, stride floats apart; sums or, if `largest`,
 * maxima. Void entries hold something finite. */
void area_extend(const struct area_walk *walk, size_t l, size_t d, const float *x, size_t stride,
                 bool largest, float *columns, float *windows);

/* The logits of mean keys: plane 0 holds the L scores, the others get the means of theirs. Planes
 * are Lp floats apart. scratch: 2 * Lp floats. */
void area_mean_logits(const struct area_rule *rule, size_t l, float *planes, float *scratch);

/* Logits to weights, over the areas whose last item is one of the first `seen`; all else becomes
 * zero. Softmax, or each weight the sigmoid of its logit divided by the sum; then the areas that
 * are not among the top k are dropped. scratch: 2 * planes * Lp floats. */
void area_weights(const struct area_rule *rule, size_t l, size_t seen, float *planes,
                  float *scratch);

/* coverage[Lp]: for each item the sum of the weights of the areas that contain it, divided by
 * their number of items where values are means. */
void area_coverage_of(const struct area_rule *rule, size_t l, const float *planes, float *coverage);

#endif
