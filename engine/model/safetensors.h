/* safetensors.h - the tensors of a model directory.
 *
 * Reads model.safetensors, or the shards that model.safetensors.index.json names. The files are
 * input from outside: every offset, size, shape and name is checked before a tensor is handed out,
 * and an error names file, tensor, what was expected and what was found. So is every number when a
 * tensor is read: only finite ones are handed out. Used by one thread at a time.
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

/* From now on tells after each tensor how many bytes of numbers have been read, of all. */
typedef void safetensors_progress_fn(void *user, uint64_t read_bytes, uint64_t all_bytes);
void safetensors_watch(struct safetensors *weights, safetensors_progress_fn *progress, void *user);

/* The tensor `name` with exactly this shape and any of the float types. Its numbers are read from
 * the file, and stay in memory until the next release. */
int safetensors_get(struct safetensors *weights, const char *name, int n_dims, const size_t *shape,
                    struct tensor *tensor, struct acre_err *err);

/* The same, with numbers that the caller owns: tensor->data is for mem_free(). */
int safetensors_take(struct safetensors *weights, const char *name, int n_dims, const size_t *shape,
                     struct tensor *tensor, struct acre_err *err);

/* Ends the life of the numbers of all tensors handed out: for when they have been packed. */
void safetensors_release(struct safetensors *weights);

/* Type and shape of a tensor, without its numbers. Borrowed; NULL if there is none. */
const struct tensor *safetensors_find(const struct safetensors *weights, const char *name);

/* Whether there is one, of whatever type. */
bool safetensors_has(const struct safetensors *weights, const char *name);

/* The value of `key` in the (first) file's __metadata__; NULL if there is none. Borrowed. */
const char *safetensors_metadata(const struct safetensors *weights, const char *key);

size_t safetensors_count(const struct safetensors *weights);
const char *safetensors_name(const struct safetensors *weights, size_t index); /* sorted */
uint64_t safetensors_parameters(const struct safetensors *weights); /* elements of all tensors */

#endif
