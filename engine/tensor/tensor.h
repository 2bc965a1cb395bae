/* tensor.h - a view of numbers of a model file: where, which type, which shape.
 *
 * The data is borrowed from the weights it came from (model/safetensors.h), and not aligned to more
 * than its element size.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stddef.h>

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16 };

enum { TENSOR_MAX_DIMS = 4 };

struct tensor {
    const void *data; /* row-major */
    enum dtype dtype;
    int n_dims;
    size_t shape[TENSOR_MAX_DIMS];
};

size_t tensor_count(const struct tensor *tensor); /* elements; 1 for a scalar */
size_t dtype_bytes(enum dtype dtype);

/* Rows first ... first + n - 1 of a matrix. */
struct tensor tensor_rows(const struct tensor *matrix, size_t first, size_t n);

/* Elements [first, first + n) as float32. */
void tensor_read(const struct tensor *tensor, size_t first, size_t n, float *out);

/* The first element that is infinite or not a number; the count of elements if there is none. */
size_t tensor_first_not_finite(const struct tensor *tensor);

#endif
