/* random_weights.h - weights for a configuration without a file.
 *
 * For measuring speed, which does not depend on what a model has learnt, and for tests. The tensors
 * are those of a model directory (models/README.md), stored as BF16 and scaled so that activations
 * neither grow nor vanish. The same seed gives the same numbers. Immutable once made.
 */
#ifndef MODEL_RANDOM_WEIGHTS_H
#define MODEL_RANDOM_WEIGHTS_H

#include "model/config.h"
#include "model/safetensors.h"

struct random_weights {
    struct safetensors *tensors; /* owned */
    void *file;                  /* owned: what they are read from */
    size_t file_bytes;
};

/* What an architecture lists (struct config_kind): a tensor [n,k], or [n] where k is 0. */
struct tensor_list;
void tensor_list_add(struct tensor_list *list, size_t n, size_t k, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What products and norms have: a weight [n,k], or [n], and a bias [n]. */
void tensor_list_add_pair(struct tensor_list *list, size_t n, size_t k, const char *prefix,
                          const char *name);

/* What keys of areas have, in heads of width d. */
void tensor_list_add_area_key(struct tensor_list *list, const struct area_config *area,
                              size_t layer, size_t d, const char *prefix);

/* For models with one embedding for both sides. random_weights_fini() frees what is there either
 * way. */
int random_weights_init(struct random_weights *weights, const struct config *config, uint64_t seed,
                        struct acre_err *err);
void random_weights_fini(struct random_weights *weights);

#endif
