#include "device/cuda/area_key.h"

extern "C" {
#include "device/area_constants.h"
}

void cuda_area_key_close(struct area_key *key)
{
    if (key)
        gpu_release(&key->memory);
    mem_free(key);
}

/* Columns first ... first + d - 1 of a matrix [d, inputs], transposed. */
static void read_transposed(const struct tensor *weight, size_t first, size_t d, float *row,
                            float *out)
{
    size_t inputs = weight->shape[1];
    for (size_t n = 0; n < d; n++) {
        tensor_read(weight, n * inputs + first, d, row);
        for (size_t k = 0; k < d; k++)
            out[k * d + n] = row[k];
    }
}

/* scratch: the larger of [D,D] and [planes][D], and 2 D. */
static void upload(struct area_key *key, const struct area_key_parts *parts, size_t d,
                   const struct area_rule *area, float *scratch)
{
    size_t planes = area_planes(area), square = d * d,
           most = square > planes * d ? square : planes * d;
    float *numbers = scratch, *row = scratch + most;
    struct gpu_memory *memory = &key->memory;
    read_transposed(&parts->fc1_weight, 0, d, row, numbers);
    cuda_upload(memory, numbers, square * sizeof(float), (void **)&key->base);
    if (key->has_deviation) {
        read_transposed(&parts->fc1_weight, area_key_is_sum(parts->mode) ? 0 : d, d, row, numbers);
        cuda_upload(memory, numbers, square * sizeof(float), (void **)&key->deviation);
    }
    area_constants_scale(&parts->fc2_weight, parts->scale, square, numbers);
    cuda_upload(memory, numbers, square * sizeof(float), (void **)&key->turn);
    area_constants_scale(&parts->fc2_bias, parts->scale, d, numbers);
    cuda_upload(memory, numbers, d * sizeof(float), (void **)&key->query_bias);
    struct area_walk walk = {};
    walk.rule = area;
    while (area_next(&walk))
        area_constants_fill(parts, d, &walk, row, numbers + walk.plane * d);
    cuda_upload(memory, numbers, planes * d * sizeof(float), (void **)&key->constants);
}

int cuda_area_key_open(struct device *device, const struct area_key_parts *parts,
                       const struct attention *attention, struct area_key **out)
{
    size_t d = attention->head_width, planes = area_planes(&attention->area);
    struct area_key *key = cuda_new<struct area_key>();
    float *scratch = static_cast<float *>(mem_alloc((d * (d + planes) + 2 * d) * sizeof(float)));
    int status = key && scratch ? 0 : ACRE_ENOMEM;
    cuda_use(cuda_device_of(device));
    if (status == 0) {
        key->is_largest = parts->mode == AREA_KEY_MAX || parts->mode == AREA_KEY_MAX_CONCAT;
        key->is_dense = area_key_inputs(parts->mode, d) > 0;
        key->has_deviation = area_key_has_deviation(parts->mode);
        if (key->is_dense)
            upload(key, parts, d, &attention->area, scratch);
        status = cuda_status(key->memory.error);
    }
    mem_free(scratch);
    if (status != 0) {
        cuda_area_key_close(key);
        return status;
    }
    *out = key;
    return 0;
}
