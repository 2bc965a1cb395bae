/* weights.h - what a model is, on the GPU: brought over when it is loaded, then immutable. */
#ifndef DEVICE_CUDA_WEIGHTS_H
#define DEVICE_CUDA_WEIGHTS_H

#include "device/cuda/backend.h"

struct weight {
    struct gpu_memory memory;
    enum number_type type;
    enum number_type half; /* what rows are rounded to beside float32; F32: nothing */
    int n, k, np, kp;      /* as they are, and padded with zeros */
    void *numbers;         /* [np,kp] of `type` */
    float *bias;           /* [np] */
    float *scales;         /* [np], int8 */
};

struct norm {
    struct gpu_memory memory;
    int c;
    float *gain, *bias; /* [C] */
    float epsilon;
};

struct embedding {
    struct gpu_memory memory;
    void *host_table; /* owned: what the output layer may be made of */
    void *table;      /* [V,C] of `type` */
    enum number_type type;
    int c;
    float scale;
};

struct position_embedding {
    struct gpu_memory memory;
    float *numbers; /* [P,C] */
};

int cuda_weight_open(struct device *device, enum compute_type type, const struct weight_part *parts,
                     size_t n_parts, struct weight **weight);
void cuda_weight_close(struct weight *weight);
void cuda_weights_order(struct device *device, struct weight *const *weights, size_t n);
int cuda_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                   float epsilon, struct norm **norm);
void cuda_norm_close(struct norm *norm);
int cuda_embedding_open(struct device *device, const struct tensor *table, float scale,
                        struct embedding **embedding);
void cuda_embedding_close(struct embedding *embedding);
int cuda_position_embedding_open(struct device *device, const struct positions *positions, size_t c,
                                 struct position_embedding **positional);
void cuda_position_embedding_close(struct position_embedding *positional);

/* Numbers of the host to a new array of the device; *out is NULL where there is no memory, or the
 * GPU is lost, as memory->error says. */
void cuda_upload(struct gpu_memory *memory, const void *from, size_t bytes, void **out);

#endif
