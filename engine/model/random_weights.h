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

/* For models with one embedding for both sides. random_weights_fini() frees what is there either
 * way. */
int random_weights_init(struct random_weights *weights, const struct config *config, uint64_t seed,
                        struct acre_err *err);
void random_weights_fini(struct random_weights *weights);

#endif
