/* Layer norm. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

#include <math.h>

static float sum_row(size_t c, const float *x)
{
    vf sum = splat(0.0f);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES)
        sum += load(x + i);
    float total = lane_sum(sum);
    for (; i < c; i++)
        total += x[i];
    return total;
}

static float sum_squares(size_t c, const float *x, float mean)
{
    vf sum = splat(0.0f);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES) {
        vf d = load(x + i) - mean;
        sum += d * d;
    }
    float total = lane_sum(sum);
    for (; i < c; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

void ISA(layer_norm)(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                     float epsilon, float *y)
{
    for (size_t row = 0; row < m; row++, x += c, y += c) {
        float mean = sum_row(c, x) / (float)c;
        float scale = 1.0f / sqrtf(sum_squares(c, x, mean) / (float)c + epsilon);
        size_t i = 0;
        for (; i + LANES <= c; i += LANES)
            store(y + i, (load(x + i) - mean) * scale * load(gain + i) + load(bias + i));
        for (; i < c; i++)
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    }
}
