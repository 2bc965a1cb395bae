/* attend_areas.h - attention over areas one by one, for what attend.h does not serve: keys or
 * values that areas have of their own, grids, top-k, sigmoids. Also the published way, where all
 * keys and values of areas are vectors: what plain attention is measured against.
 *
 * A block has one head of one query: logits of all areas, their weights, and from these the
 * context. Logits are in shared memory: planes times items must fit. The order of all sums follows
 * from the query's items and their number alone.
 */
#ifndef DEVICE_CUDA_ATTEND_AREAS_H
#define DEVICE_CUDA_ATTEND_AREAS_H

#include "device/cuda/areas.h"
#include "device/cuda/attend.h" /* struct looks */

struct attend_areas_task {
    struct area_rows rows; /* of queries; of a memory: sentences and first are not used */
    struct area_shape shape;
    enum area_value value;
    int top_k;
    bool sigmoid, is_causal;

    const void *query; /* [R, query_stride], scaled */
    const void
        *turned; /* what is multiplied with keys, [R, turned_stride]; `query` if not turned */
    const float *query_bias; /* [Dp], times the query on every logit; NULL: zeros */
    int query_stride, turned_stride;

    /* Rows of [H][Dp], key_stride and value_stride numbers apart; planes are `plane_rows` rows. */
    const void *keys, *values;
    size_t key_stride, value_stride, plane_rows;
    bool has_key_planes, has_value_planes; /* areas have their own; else items' keys are averaged */

    const int32_t *slots, *lengths; /* of a memory: [R]: the row's slot; [slots]; else NULL */
    size_t slot_rows;

    void *context; /* [R, context_stride] */
    int context_stride;
    int max_length;

    struct looks looks; /* of a memory */
    float *weights;     /* [planes][L]: of all areas, of head `weights_head` of row 0; NULL: nobody
                         * wants     to know */
    int weights_head;
};

/* Keys, values and context are of `type`. */
void attend_areas_launch(cudaStream_t stream, enum number_type type, const attend_areas_task &task,
                         int max_rows);

/* What a block needs: the caller asks before it promises to run such a model. */
size_t attend_areas_bytes(const struct area_shape *shape, int max_length);

#endif
