/* weights.h - the CPU backend's weights: packed when they are loaded, then immutable, so
 * that all streams share them. */
#ifndef DEVICE_CPU_WEIGHTS_H
#define DEVICE_CPU_WEIGHTS_H

#include "base/arena.h"
#include "device/device.h"
#include "kernels/kernels.h"

struct weight {
    struct packed packed;
    const struct weight *next; /* that a step multiplies with next, or NULL; borrowed */
    struct arena arena;        /* what `packed` points to */
};

struct norm {
    size_t c;
    float epsilon;
    float *gain, *bias; /* owned, one block */
};

struct embedding {
    struct tensor table;
    float scale;
};

struct position_embedding {
    float *numbers; /* owned, [P,C] */
};

int cpu_weight_open(struct device *device, enum compute_type type, const struct weight_part *parts,
                    size_t n_parts, struct weight **weight);
void cpu_weight_close(struct weight *weight);
void cpu_weights_order(struct device *device, struct weight *const *weights, size_t n);
int cpu_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                  float epsilon, struct norm **norm);
void cpu_norm_close(struct norm *norm);
int cpu_embedding_open(struct device *device, const struct tensor *table, float scale,
                       struct embedding **embedding);
void cpu_embedding_close(struct embedding *embedding);
int cpu_position_embedding_open(struct device *device, const struct positions *positions, size_t c,
                                struct position_embedding **embedding);
void cpu_position_embedding_close(struct position_embedding *embedding);

#endif
