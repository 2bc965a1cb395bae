/* compute.h - what products are computed in, and what follows them. All devices have the same names
 * and limits; functions without state. */
#ifndef TENSOR_COMPUTE_H
#define TENSOR_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

enum activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_SWISH, ACTIVATION_GELU };

/* What the operands of a product are made of. bf16: both are rounded to bfloat16, products and sums
 * are float32. int8: weights are integers of up to 127 times a scale per column, rows of x likewise
 * with a scale per row; sums are exact. f16: as bf16, with half precision; of GPUs only. */
enum compute_type { COMPUTE_F32, COMPUTE_BF16, COMPUTE_INT8, COMPUTE_F16 };
enum { COMPUTE_EVERYWHERE = COMPUTE_INT8 + 1 }; /* the first so many are every device's */
enum { COMPUTE_TYPES = COMPUTE_F16 + 1 };

/* The most products of two such integers that add up in 32 bits. */
enum { COMPUTE_MAX_INT8_K = INT32_MAX / (127 * 127) };

const char *compute_type_name(enum compute_type type); /* "f32", "bf16", "int8", "f16" */

/* False if no type is called so. */
bool compute_type_parse(const char *name, enum compute_type *type);

#endif
