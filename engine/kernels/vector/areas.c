/* What the keys of areas are made of: plain loops, of which the compiler makes vectors. This file
 * is compiled without contraction, so that deviations are rounded alike by all instruction sets. */
#include "kernels/areas.h"
#include "kernels/vector/vector.h"

#include <math.h>

/* Multiplying by the inverse of a power of two is division to the last bit, and faster. */
static inline float share_of(float sum, int count, bool is_power)
{
    return is_power ? sum * (1.0f / (float)count) : sum / (float)count;
}

static inline void find_deviations(size_t n, int count, bool is_power, const struct area_ends *sums,
                                   const struct area_ends *squares, float *restrict out)
{
    const float *restrict s = sums->last, *restrict s0 = sums->before;
    const float *restrict q = squares->last, *restrict q0 = squares->before;
    for (size_t i = 0; i < n; i++) {
        float mean = share_of(s0 ? s[i] - s0[i] : s[i], count, is_power);
        float mean_square = share_of(s0 ? q[i] - q0[i] : q[i], count, is_power);
        out[i] = sqrtf(fabsf(mean_square - mean * mean) + AREA_EPSILON);
    }
}

void ISA(area_deviations)(size_t n, int count, const struct area_ends *sums,
                          const struct area_ends *squares, float *deviations)
{
    if ((count & (count - 1)) == 0)
        find_deviations(n, count, true, sums, squares, deviations);
    else
        find_deviations(n, count, false, sums, squares, deviations);
}

void ISA(area_hidden)(size_t m, size_t d, float share, const float *restrict windows,
                      const float *restrict constants, float *restrict hidden)
{
    for (size_t row = 0; row < m; row++, windows += d, hidden += d) {
        for (size_t i = 0; i < d; i++) {
            float unit = hidden[i] + (windows[i] * share + constants[i]);
            hidden[i] = unit > 0.0f ? unit : 0.0f;
        }
    }
}
