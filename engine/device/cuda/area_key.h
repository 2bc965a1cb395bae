/* area_key.h - the CUDA backend's keys of areas that are not their items' means, on the GPU. As on
 * the CPU, features' parts of the first dense layer are applied where they cost least, and the
 * second one is applied to the query. */
#ifndef DEVICE_CUDA_AREA_KEY_H
#define DEVICE_CUDA_AREA_KEY_H

#include "device/cuda/weights.h"

struct area_key {
    struct gpu_memory memory;
    bool is_largest; /* of the items' maximum, not their mean */
    bool is_dense;   /* else that is the key itself */
    bool has_deviation;
    float *base, *deviation; /* [D,D], inputs as rows: the parts of fc1 */
    float *turn;             /* [D,D]: fc2, for queries */
    float *query_bias;       /* [D]: of fc2 */
    float *constants;        /* [planes][D]: sizes' part of fc1, and its bias */
};

int cuda_area_key_open(struct device *device, const struct area_key_parts *parts,
                       const struct attention *attention, struct area_key **key);
void cuda_area_key_close(struct area_key *key);

#endif
