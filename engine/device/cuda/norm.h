/* norm.h - what begins and what closes a sublayer: embeddings, and layer norms.
 *
 * The hidden rows are kept in float32, for residuals, and in the type that products read. One warp
 * has a row, always, and sums it in an order that depends on its width alone.
 */
#ifndef DEVICE_CUDA_NORM_H
#define DEVICE_CUDA_NORM_H

#include "device/cuda/gpu.h"

/* Hidden rows: [M,stride], of which `width` numbers are meant; what follows them stays zero. */
struct hidden_rows {
    float *numbers;
    void *narrow; /* the same rounded, of narrow_type; not used where that is f32 */
    enum number_type narrow_type;
    int width, stride;
};

/* hidden = scale * table[id] + position. */
struct embed_task {
    const void *table; /* [V,width] of table_type */
    enum number_type table_type;
    float scale;
    const float *positions; /* [P,width] or NULL */
    const int32_t *ids, *places, *n_rows;
    struct hidden_rows hidden;
};

/* hidden = norm(hidden + sums), or norm(sums): the mean and the variance of each row become 0
 * and 1. */
struct close_task {
    const float *sums; /* [M,sums_stride], of the sublayer's last product */
    int sums_stride;
    const float *gain, *bias; /* [width] */
    const int32_t *n_rows;
    struct hidden_rows hidden;
    float epsilon;
    bool is_alone; /* of the sums alone */
};

/* N adjacent numbers from column i on, a multiple of N as the stride is. */
template <int N>
GPU_CODE void put_hidden(const hidden_rows &hidden, int row, int i, const adjacent<float, N> &x)
{
    size_t at = (size_t)row * (size_t)hidden.stride + (size_t)i;
    narrow_adjacent<float>(hidden.numbers, at, x);
    if (hidden.narrow_type != NUMBER_F32)
        store_adjacent(hidden.narrow, hidden.narrow_type, at, x);
}

void embed_launch(cudaStream_t stream, const embed_task &task, int max_rows);
/* What a block of so many rows needs of shared memory. */
size_t close_bytes(int width, int rows);

void close_launch(cudaStream_t stream, const close_task &task, int max_rows);

#endif
