/* products.h - the CPU backend's products of rows with packed weights, and of attention.
 * Used by the thread of the stream; what a row gives does not depend on the rows beside it. */
#ifndef DEVICE_CPU_PRODUCTS_H
#define DEVICE_CPU_PRODUCTS_H

#include "device/cpu/stream.h"
#include "device/cpu/weights.h"

/* How many rows the block that begins with this one has. */
static inline size_t cpu_row_block(size_t m, size_t row)
{
    return m - row < CPU_ROW_BLOCK ? m - row : CPU_ROW_BLOCK;
}

/* The product of x[M,K] with a weight, at most CPU_ROW_BLOCK rows x_stride floats apart: packed
 * into stream->rows where the type needs it. Its result and what is done to it are the caller's. */
struct product cpu_product(struct stream *stream, const struct packed *w, size_t m, const float *x,
                           size_t x_stride);

/* y[M,N] = activation(x[M,K]·Wᵀ + bias) + residual[M,N]; residual may be NULL or y. */
void cpu_linear(struct stream *stream, const struct weight *weight, size_t m, const float *x,
                enum activation activation, const float *residual, float *y);

/* Output layer: the logits x[M,C]·Wᵀ + bias go block by block through scans[m]. */
void cpu_scan_output(struct stream *stream, const struct weight *output, size_t m, const float *x,
                     struct logit_scan *scans);

/* y[M,N] = x[M,K] · panels: of attention, at most CPU_QUERY_BLOCK rows. Strides in floats. */
void cpu_attention_product(struct stream *stream, enum compute_type type, size_t m, size_t n,
                           size_t k, const float *x, size_t x_stride, const void *panels, float *y,
                           size_t y_stride);

#endif
