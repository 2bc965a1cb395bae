/* Rows of x in the form that products of each type read. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

#include <math.h>

/* Numbers of int8 rows are bytes, with 128 added where HAS_DOT and no tiles; elsewhere 16-bit
 * numbers, of each four k the first, third, second, fourth. Numbers of bf16 rows are floats that
 * fit in bf16, or only their upper halves. */
enum { HALVES = HAS_TILES || HAS_BF16_DOT };

size_t ISA(row_bytes)(enum compute_type type, size_t k)
{
    size_t int8_bytes = HAS_DOT ? 1 : 2, bf16_bytes = HALVES ? 2 : 4;
    size_t bytes = type == COMPUTE_INT8 ? int8_bytes : type == COMPUTE_BF16 ? bf16_bytes : 4;
    return kernel_depth(type, k) * bytes;
}

ALWAYS_INLINE void put_int8(vi x, char *row, size_t i)
{
#if VECTOR_BYTES == 64
    typedef uint8_t narrow __attribute__((vector_size(LANES)));
    narrow bytes = __builtin_convertvector(HAS_TILES ? x : x + 128, narrow);
    memcpy(row + i, &bytes, sizeof(bytes));
#else
    typedef int16_t narrow __attribute__((vector_size(2 * LANES)));
#if VECTOR_BYTES == 32
    x = __builtin_shuffle(x, (vi){0, 2, 1, 3, 4, 6, 5, 7});
#else
    x = __builtin_shuffle(x, (vi){0, 2, 1, 3});
#endif
    narrow words = __builtin_convertvector(x, narrow);
    memcpy(row + 2 * i, &words, sizeof(words));
#endif
}

static float largest_magnitude(size_t k, const float *x)
{
    vf most = splat(0.0f);
    size_t i = 0;
    for (; i + LANES <= k; i += LANES)
        most = vmax(most, vmax(load(x + i), -load(x + i)));
    float largest = lane_max(most);
    for (; i < k; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

/* LANES numbers of x[k] from i on, zeros beyond its end. */
ALWAYS_INLINE vf load_part(const float *x, size_t i, size_t k)
{
    if (i + LANES <= k)
        return load(x + i);
    float part[LANES] = {0};
    if (i < k)
        memcpy(part, x + i, (k - i) * sizeof(*part));
    return load(part);
}

/* Returns the scale: x = scale * its integers, of magnitude up to 127. */
static float quantize_row(size_t k, const float *x, char *row)
{
    float largest = largest_magnitude(k, x);
    float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (size_t i = 0; i < kernel_depth(COMPUTE_INT8, k); i += LANES)
        put_int8(round_to_int(load_part(x, i, k) * inverse), row, i);
    return largest / 127.0f;
}

static void round_row(size_t k, const float *x, char *row)
{
    typedef int16_t halves __attribute__((vector_size(2 * LANES)));
    for (size_t i = 0; i < kernel_depth(COMPUTE_BF16, k); i += LANES) {
        vi bits = to_bf16(load_part(x, i, k));
        if (HALVES) {
            halves upper = __builtin_convertvector(bits >> 16, halves);
            memcpy(row + i * sizeof(uint16_t), &upper, sizeof(upper));
        } else {
            store(row + i * sizeof(float), (vf)(bits >> 16 << 16));
        }
    }
}

void ISA(pack_rows)(enum compute_type type, size_t m, size_t k, const float *x, size_t x_stride,
                    void *rows, float *scales)
{
    char *row = rows;
    for (size_t i = 0; i < m; i++, x += x_stride, row += ISA(row_bytes)(type, k)) {
        if (type == COMPUTE_INT8)
            scales[i] = quantize_row(k, x, row);
        else if (type == COMPUTE_BF16)
            round_row(k, x, row);
        else
            memcpy(row, x, k * sizeof(*x));
    }
}
