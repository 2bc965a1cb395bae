/* linear.h - products with weights: y[M,N] = activation(x[M,K] · Wᵀ + bias) + residual.
 *
 * An element's bits depend on its row and column alone, not on how many rows there are. In f16 and
 * bf16 K is cut into four fixed slices; each is summed from its first to its last number, and the
 * slices are added in order, whatever the tile. Sums of int8 are exact. f32 is one chain of
 * multiply-adds along K.
 *
 * Rows of x and of W are padded with zeros: a row's bytes are a multiple of LINEAR_ROW_BYTES.
 * Columns of W are padded to a multiple of LINEAR_COLUMNS, and so many columns of y are written,
 * four at a time: its rows, the residual's, bias and scales begin at multiples of 16 bytes.
 */
#ifndef DEVICE_CUDA_LINEAR_H
#define DEVICE_CUDA_LINEAR_H

#include "device/cuda/gpu.h"
extern "C" {
#include "tensor/compute.h" /* enum activation */
}

enum { LINEAR_ROW_BYTES = 512, LINEAR_COLUMNS = 64 };

struct linear_task {
    const void *x;         /* [M,x_stride] of the type, Kp of each row are read */
    const void *w;         /* [Np,Kp] */
    const float *bias;     /* [Np] */
    const float *x_scales; /* [M], int8 */
    const float *w_scales; /* [Np], int8 */
    const float *residual; /* [M,Np], y_stride apart, or NULL */
    void *y;               /* [M,y_stride] of y_type */
    void *narrow;          /* the same rounded to narrow_type; NULL: not wanted */
    const int32_t *n_rows; /* M, on the device */
    int n, k;              /* Np, Kp */
    int x_stride, y_stride;
    enum number_type y_type, narrow_type; /* not int8 */
    enum activation activation;
};

/* Kp of k numbers, and Np of n columns. */
int linear_depth(enum number_type type, int k);
int linear_columns(int n);

/* For at most max_rows rows, in tiles of `tile` rows (16, 32, 64, 128; f32: 16, 64), or of those
 * that suit so many rows: 0. shared_bytes is what a block of the device may have. */
void linear_launch(cudaStream_t stream, enum number_type type, const linear_task &task,
                   int max_rows, int tile, size_t shared_bytes);

/* Rows of x become int8, with a scale each: the largest magnitude is 127. */
struct quantise_task {
    const void *x; /* [M,x_stride] of x_type, f32 or f16 or bf16 */
    int8_t *rows;  /* [M,Kp] */
    float *scales; /* [M] */
    const int32_t *n_rows;
    int k, depth; /* K, Kp */
    int x_stride;
};

void quantise_launch(cudaStream_t stream, enum number_type x_type, const quantise_task &task,
                     int max_rows);

#endif
