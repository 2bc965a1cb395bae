#include "device/area_constants.h"

void area_constants_fill(const struct area_key_parts *parts, size_t d, const struct area_walk *walk,
                         float *scratch, float *out)
{
    size_t half = d / 2, inputs = parts->fc1_weight.shape[1];
    size_t first = area_key_is_sum(parts->mode) ? 0 : inputs - 2 * half;
    float *embedding = scratch, *row = scratch + d;
    tensor_read(&parts->height_embedding, (size_t)(walk->height - 1) * half, half, embedding);
    tensor_read(&parts->width_embedding, (size_t)(walk->width - 1) * half, half, embedding + half);
    tensor_read(&parts->fc1_bias, 0, d, out);
    for (size_t n = 0; n < d; n++) {
        tensor_read(&parts->fc1_weight, n * inputs + first, 2 * half, row);
        for (size_t i = 0; i < 2 * half; i++)
            out[n] += row[i] * embedding[i];
    }
}

void area_constants_scale(const struct tensor *tensor, float scale, size_t n, float *out)
{
    tensor_read(tensor, 0, n, out);
    for (size_t i = 0; i < n; i++)
        out[i] *= scale;
}
