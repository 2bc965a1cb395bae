/* area_reference.h - area attention by its definition, in double precision.
 *
 * Every area is visited, its key and its value are built as vectors from its items, and one softmax
 * (or normalised sigmoid) runs over all of them. With the engine it shares the names of the modes
 * and nothing else: tests hold the engine's way to this one.
 */
#ifndef AREA_REFERENCE_H
#define AREA_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/area.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One area of a grid with `columns` columns: its first item (top left), its size. */
struct area_place {
    size_t first, height, width, columns;
};

/* What the items of an area have in common, in one channel. */
struct area_features {
    double sum, mean, deviation, maximum;
};

/* The attention of one head. Matrices are row-major [outputs, inputs]; the pointers are for keys
 * with dense layers only. */
struct area_reference {
    struct area_rule rule;
    enum area_key_mode key;
    size_t d;
    const float *fc1_weight, *fc1_bias;              /* [d, inputs], [d] */
    const float *fc2_weight, *fc2_bias;              /* [d, d], [d] */
    const float *height_embedding, *width_embedding; /* [largest height or width, d / 2] */
};

/* All areas of a memory, ordered by height, then width, then first item. */
struct area_memory {
    struct area_rule rule;
    size_t n, d;
    struct area_place *places; /* owned, [n] */
    double *keys, *values;     /* owned, [n, d] */
};

/* Lists the areas of a memory of l items; returns how many. places NULL: only counts. */
size_t area_reference_places(const struct area_rule *rule, size_t l, struct area_place *places);

/* x[L, stride], of which the first channel is looked at. */
struct area_features area_reference_features(const struct area_place *place, const float *x,
                                             size_t stride);

/* Columns of fc1_weight; 0 for keys without dense layers. */
size_t area_reference_inputs(const struct area_reference *reference);

/* k and v [l, d]. area_reference_close() frees what is owned. */
struct area_memory area_reference_open(const struct area_reference *reference, size_t l,
                                       const float *k, const float *v);
void area_reference_close(struct area_memory *memory);

/* One query, q[d], already scaled. allowed[l], NULL = all; an area counts only if all its items
 * are allowed. out[d]; weights[n] may be NULL. If nothing is allowed, both are zero. */
void area_reference_attend(const struct area_memory *memory, const float *q, const bool *allowed,
                           double *out, double *weights);

/* How much less, relatively, the largest weight that top_k drops is than the least that it keeps;
 * 1 if it drops nothing. Where that is next to nothing, rounding decides which areas count. */
double area_reference_margin(const struct area_memory *memory, const float *q, const bool *allowed);

#ifdef __cplusplus
}
#endif

#endif
