/* products.h - the CUDA backend's products of buffers with weights. */
#ifndef DEVICE_CUDA_PRODUCTS_H
#define DEVICE_CUDA_PRODUCTS_H

#include "device/cuda/buffer.h"
#include "device/cuda/store.h"

void cuda_linear(struct stream *stream, const struct weight *weight, const struct rows *rows,
                 const struct buffer *x, enum activation activation, struct buffer *y);
void cuda_linear_add(struct stream *stream, const struct weight *weight, const struct rows *rows,
                     const struct buffer *x, struct buffer *y);
void cuda_layer_norm(struct stream *stream, const struct norm *norm, const struct rows *rows,
                     const struct buffer *x, struct buffer *y);
void cuda_linear_add_norm(struct stream *stream, const struct weight *weight,
                          const struct norm *norm, const struct rows *rows, const struct buffer *x,
                          struct buffer *hidden);
void cuda_embed(struct stream *stream, const struct embedding *embedding,
                const struct position_embedding *positional, const struct rows *rows,
                struct buffer *out);

/* The logits, part by part of the vocabulary, and of each part the candidates. */
void cuda_search_output(struct stream *stream, const struct weight *output, struct rows *rows,
                        struct store *store, const struct buffer *x);

/* x of a product, rows of `x_stride` numbers of the weight's type. */
struct operand {
    const void *x;
    int x_stride;
    const float *scales; /* of rows of int8 */
};

/* sums[R, stride] = x·Wᵀ + bias of columns first ... first + n - 1, which are whole tiles. */
struct row_product {
    struct operand operand;
    const int32_t *n_rows;
    int most_rows, first, n;
    float *sums;
    int stride;
};

void cuda_product(struct stream *stream, const struct weight *weight,
                  const struct row_product *product);

/* n rows that are no buffer become such an operand, in place or by way of the stream's scratch. */
struct operand cuda_operand(struct stream *stream, const struct weight *weight,
                            const float *numbers, const void *narrow, int stride,
                            const int32_t *n_rows, int most_rows);

#endif
