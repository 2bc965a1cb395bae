/* areas.h - the CPU backend's attention over areas one by one, of whole memories: keys that are not
 * means, values that are maxima, grids, top-k, sigmoids. See kernels/areas.h for planes and
 * windows, area_steps.h for decoding.
 */
#ifndef DEVICE_CPU_AREAS_H
#define DEVICE_CPU_AREAS_H

#include "device/cpu/products.h"

/* Planes of keys that areas have of their own (mean keys live in the items' scores), and of values;
 * or 0. */
size_t cpu_key_planes(const struct attention *attention);
size_t cpu_value_planes(const struct attention *attention);

/* The memory of one head, in the attention's type: keys as panels of items, values as panels of
 * columns. Where areas have their own, [planes * Lp] stands for L. */
struct head_memory {
    const float *keys;   /* [Lp/16][D][16] */
    const float *values; /* [Dp/16][L][16] */
    size_t length;
};

/* Queries of one head that attend to it, at most CPU_QUERY_BLOCK. */
struct head_queries {
    size_t n;
    const float *query;    /* [n,D], scaled, stride floats apart */
    const float *for_keys; /* what is multiplied with keys, see cpu_area_key_query(); or query */
    size_t stride, for_keys_stride;
    bool causal; /* query 0 sees `seen` items of the memory, each later query one more; else all */
    size_t seen;
    float *item_weights; /* [n], item_stride apart: how much of the weights every item has is added
                          * to it; NULL: nobody wants to know */
    size_t item_stride;
};

static inline size_t seen_by(const struct head_queries *queries, size_t row, size_t length)
{
    return queries->causal ? queries->seen + row : length;
}

/* Adds the coverage[L] of one query's items, if anybody wants to know. */
void cpu_add_item_weights(const struct head_queries *queries, size_t row, size_t length,
                          const float *coverage);

/* Floats of the keys and of the values of one head, as cpu_areas_pack() packs them. */
size_t cpu_areas_key_floats(const struct attention *attention, size_t length);
size_t cpu_areas_value_floats(const struct attention *attention, size_t length);

/* Packs keys[L,D] and values[L,D] of one head, rows so many floats apart. */
struct head_rows {
    const float *keys, *values;
    size_t key_stride, value_stride;
};
void cpu_areas_pack(struct stream *stream, const struct attention *attention, size_t length,
                    const struct head_rows *rows, float *packed_keys, float *packed_values);

/* A row of logits, [planes][Lp] or of items in plane 0, becomes what multiplies the values: weights
 * of areas where values are maxima, else coverage of items, [Lp]. query[D] as it was, for sigmoids.
 * Areas beyond the first `seen` items do not count. */
void cpu_areas_weigh(struct stream *stream, const struct attention *attention, size_t length,
                     size_t seen, const float *query, float *planes);

/* One query's weights of all areas, [planes][Lp]. */
void cpu_areas_weights(struct stream *stream, const struct attention *attention,
                       const struct head_memory *memory, const float *query, float *weights);

/* context[n,D] of one head, rows `stride` floats apart. */
void cpu_areas_attend(struct stream *stream, const struct attention *attention,
                      const struct head_queries *queries, const struct head_memory *memory,
                      float *context, size_t stride);

#endif
