/* embeddings.h - embeddings and output layer, which every network has. Private to nn/. */
#ifndef NN_EMBEDDINGS_H
#define NN_EMBEDDINGS_H

#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"

struct embeddings {
    struct embedding *source, *target;           /* the same pointer if shared */
    struct position_embedding *source_positions; /* NULL: none are added */
    struct position_embedding *target_positions; /* the same pointer if shared */
    struct weight *output;                       /* [V,C] with final_logits_bias */
};

/* embeddings_fini() frees what is there either way. */
int embeddings_bind(struct embeddings *embeddings, struct device *device,
                    const struct config *config, struct safetensors *weights, struct acre_err *err);

/* The positions of source and target, as the configuration says: sines, or two tables. */
int embeddings_bind_positions(struct embeddings *embeddings, struct device *device,
                              const struct config *config, struct safetensors *weights,
                              struct acre_err *err);
void embeddings_fini(struct embeddings *embeddings, struct device *device);

#endif
