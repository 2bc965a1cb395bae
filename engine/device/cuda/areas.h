/* areas.h - what areas have of their own: integral images (Algorithms 1 and 2), features, and keys
 * made of them (Eq. 9). Areas, their planes and the order of additions are those of
 * kernels/areas.h, so that sums and deviations have the bits of the CPU's.
 *
 * Items are rows of [H][Dp] numbers; whose items they are says struct area_rows: of whole sentences
 * packed one after the other, or of a decoding step, where a row's items are found through its path
 * and only what belongs to the last one is computed. Planes are `plane_rows` rows apart, and have
 * an entry for each row, at the row of the area's last item. Void entries are not written.
 */
#ifndef DEVICE_CUDA_AREAS_H
#define DEVICE_CUDA_AREAS_H

#include "device/cuda/gpu.h"

extern "C" {
#include "kernels/areas.h"
}

/* Rows, and the items that each sees. */
struct area_rows {
    const int32_t *n_rows;
    const int32_t *sentences, *first; /* whole sentences: [R], [sentences + 1]; else NULL */
    const int32_t *n_sentences;
    const int32_t *paths, *lengths; /* a step: rows of path_stride, [R] */
    const int32_t *path_rows;       /* [R]: the row's path; NULL: its own number */
    int path_stride;
    const int32_t *bases; /* whole sentences: [sentences]: the row that keeps item 0 of each; NULL:
                           * its first row */
};

/* Sizes of areas, and of rows. */
struct area_shape {
    int width, height, memory_height; /* as in struct area_rule, at least 1 */
    int n_heads, head_width;          /* H, Dp */
};

/* integral[row], squares[row], [H][Dp]: sums of x, and of its squares, over the part of an item's
 * block above and left of it. x[R, x_stride], a new row for each row, becomes item `last`. */
struct integral_task {
    struct area_rows rows;
    struct area_shape shape;
    const void *x;
    enum number_type x_type;
    int x_stride;
    float *integral, *squares; /* squares may be NULL */
};

/* max_items is the most that a sentence may have. */
void integral_launch(cudaStream_t stream, const integral_task &task, int max_sentences,
                     int max_items, int max_rows);

/* Rows of x are put where items are looked for, as floats: what areas are made of in later steps.
 */
struct item_task {
    struct area_rows rows;
    int numbers; /* of a row */
    const void *x;
    enum number_type x_type;
    int x_stride;
    float *items;
};

void items_launch(cudaStream_t stream, const item_task &task, int max_rows);

/* y[row,h] = x[row,h] · w for every head, w[Dp,Dp] with inputs as rows. */
struct head_product_task {
    const int32_t *n_rows;
    int n_heads, head_width;
    const void *x;
    enum number_type x_type;
    int x_stride;
    const float *w;
    void *y;
    enum number_type y_type;
    int y_stride;
};

void head_product_launch(cudaStream_t stream, const head_product_task &task, int max_rows);

/* Features of every area of a row, each [planes][plane_rows][H][Dp]; NULL where not wanted. Sums
 * and deviations are made from the integral images, maxima from the items. */
struct feature_task {
    struct area_rows rows;
    struct area_shape shape;
    const float *items, *integral, *squares;
    void *sums, *means, *deviations, *maxima; /* of out_type */
    enum number_type out_type;
    size_t plane_rows;
};

void features_launch(cudaStream_t stream, const feature_task &task, int max_rows);

/* Hidden units of Eq. 9, relu(share * sum of base + feature · w + constants): the feature is the
 * deviation or, if `is_largest`, the maximum, and then there is no base. */
struct area_key_task {
    struct area_rows rows;
    struct area_shape shape;
    bool is_largest;
    const float *base;               /* items after the first dense layer, rows of [H][Dp] */
    const float *items;              /* is_largest: the items */
    const float *integral, *squares; /* of the items; NULL: no deviations */
    const float *w;                  /* [Dp,Dp], inputs as rows */
    const float *constants;          /* [planes][Dp] */
    void *keys;                      /* [planes][plane_rows][H][Dp] of out_type */
    enum number_type out_type;
    size_t plane_rows;
};

void area_keys_launch(cudaStream_t stream, const area_key_task &task, int max_rows);

/* What a block of products of heads and of keys needs: the caller asks before it promises to run
 * such a model. */
size_t head_product_bytes(int head_width);

#endif
