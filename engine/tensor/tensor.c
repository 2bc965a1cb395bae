#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t tensor_count(const struct tensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->n_dims; i++)
        count *= tensor->shape[i];
    return count;
}

size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Normal numbers, inf and nan by moving the exponent's bias; a subnormal is its mantissa times
 * 2^-24, which float32 holds exactly. Both are computed and one chosen by a mask, so that the
 * loop has no branch. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half & 0x7C00;
    uint32_t bias = exponent == 0x7C00 ? (255 - 31) : (127 - 15);
    uint32_t normal = ((uint32_t)(half & 0x7FFF) << 13) + (bias << 23);
    float small = (float)(half & 0x03FF) * 0x1p-24F;
    uint32_t small_bits;
    memcpy(&small_bits, &small, sizeof(small_bits));
    uint32_t is_small = exponent ? 0 : 0xFFFFFFFF;
    return float_of_bits(sign | (normal & ~is_small) | (small_bits & is_small));
}

static void read_half(const uint16_t *restrict in, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = float_of_half(in[i]);
}

static void read_bfloat(const uint16_t *restrict in, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = float_of_bits((uint32_t)in[i] << 16);
}

void tensor_read(const struct tensor *tensor, size_t first, size_t n, float *out)
{
    const unsigned char *data = tensor->data;
    data += first * dtype_bytes(tensor->dtype);
    switch (tensor->dtype) {
    case DTYPE_F32:
        memcpy(out, data, n * sizeof(*out));
        break;
    case DTYPE_F16:
        read_half((const uint16_t *)(const void *)data, n, out);
        break;
    case DTYPE_BF16:
        read_bfloat((const uint16_t *)(const void *)data, n, out);
        break;
    }
}

/* The exponent of what is not finite has all its bits, so that adding one to its lowest bit carries
 * into the sign. Without branches, so that the loops become vectors. */
static bool are_finite_words(const uint32_t *words, size_t n)
{
    uint32_t carries = 0;
    for (size_t i = 0; i < n; i++)
        carries |= (words[i] & 0x7FFFFFFF) + 0x00800000;
    return carries >> 31 == 0;
}

static bool are_finite_halves(const uint16_t *halves, size_t n, uint16_t lowest)
{
    uint16_t carries = 0;
    for (size_t i = 0; i < n; i++)
        carries |= (uint16_t)((halves[i] & 0x7FFF) + lowest);
    return carries >> 15 == 0;
}

static bool are_finite(const struct tensor *tensor, size_t first, size_t n)
{
    const char *data = (const char *)tensor->data + first * dtype_bytes(tensor->dtype);
    if (tensor->dtype == DTYPE_F32)
        return are_finite_words((const uint32_t *)(const void *)data, n);
    return are_finite_halves((const uint16_t *)(const void *)data, n,
                             tensor->dtype == DTYPE_F16 ? 0x0400 : 0x0080);
}

size_t tensor_first_not_finite(const struct tensor *tensor)
{
    enum { BLOCK = 4096 };
    size_t count = tensor_count(tensor), i = 0;
    while (i < count && are_finite(tensor, i, count - i < BLOCK ? count - i : BLOCK))
        i += BLOCK;
    while (i < count && are_finite(tensor, i, 1))
        i++;
    return i < count ? i : count;
}

struct tensor tensor_rows(const struct tensor *matrix, size_t first, size_t n)
{
    struct tensor rows = *matrix;
    rows.data = (const char *)matrix->data + first * matrix->shape[1] * dtype_bytes(matrix->dtype);
    rows.shape[0] = n;
    return rows;
}
