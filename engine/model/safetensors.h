/* safetensors.h - the tensors of a model directory, mapped read-only.
 *
 * Reads model.safetensors, or the shards that model.safetensors.index.json names. The files are
 * input from outside: every offset, size, shape and name is checked before a tensor is handed out,
 * and an error names file, tensor, what was expected and what was found. Immutable once open, so
 * any thread may read.
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "tensor/tensor.h"

struct safetensors;

/* *weights is owned by the caller. */
int safetensors_open(const char *directory, struct safetensors **weights, struct acre_err *err);
/* One file, as the golden cases are. */
int safetensors_open_file(const char *path, struct safetensors **weights, struct acre_err *err);
/* A file's bytes, borrowed until the close; for tests. */
int safetensors_open_buffer(const void *data, size_t bytes, struct safetensors **weights,
                            struct acre_err *err);
void safetensors_close(struct safetensors *weights); /* NULL is allowed */

/* Gives the pages of the mapped files back; those that are read again come back. For when weights
 * have been packed: only embeddings are read from the files then. */
void safetensors_release(const struct safetensors *weights);

/* The tensor `name` with exactly this shape and any of the float types. */
int safetensors_get(const struct safetensors *weights, const char *name, int n_dims,
                    const size_t *shape, struct tensor *tensor, struct acre_err *err);

/* Borrowed; NULL if there is none. */
const struct tensor *safetensors_find(const struct safetensors *weights, const char *name);

/* The value of `key` in the (first) file's __metadata__; NULL if there is none. Borrowed. */
const char *safetensors_metadata(const struct safetensors *weights, const char *key);

size_t safetensors_count(const struct safetensors *weights);
const char *safetensors_name(const struct safetensors *weights, size_t index); /* sorted */
uint64_t safetensors_parameters(const struct safetensors *weights); /* elements of all tensors */

#endif
