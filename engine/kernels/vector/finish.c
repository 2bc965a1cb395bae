/* What follows on the sums of a product: scales, activation, residual. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

#include <math.h>

ALWAYS_INLINE vf activate(enum kernel_activation activation, vf x)
{
    switch (activation) {
    case KERNEL_RELU:
        return vmax(x, splat(0.0f));
    case KERNEL_SWISH:
        return x / (1.0f + vexp(vmax(-x, splat(-87.3f))));
    default:
        return x;
    }
}

/* libm has no vector erf in C; GELU is rare in translation models. */
ALWAYS_INLINE vf gelu(vf x)
{
    for (int i = 0; i < LANES; i++)
        x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
    return x;
}

/* Scale, bias and activation for the sums of a vector of columns; other sums than those of integers
 * and of AMX tiles began with the bias. */
ALWAYS_INLINE vf finished(const struct product *p, float x_scale, size_t column, vf sum)
{
    bool begins_at_zero = p->w.type == KERNEL_INT8 || (p->w.type == KERNEL_BF16 && HAS_TILES);
    if (p->w.type == KERNEL_INT8)
        sum = __builtin_convertvector((vi)sum, vf) * (x_scale * load(p->w.scales + column));
    if (begins_at_zero && p->w.bias)
        sum += load(p->w.bias + column);
    return p->activation == KERNEL_GELU ? gelu(sum) : activate(p->activation, sum);
}

/* A function of its own, so that every shape of tile rounds alike. */
void ISA(finish_row)(const struct product *p, size_t row, size_t column, size_t n,
                     const float *sums)
{
    float x_scale = p->w.type == KERNEL_INT8 ? p->x_scales[row] : 1.0f;
    float *y = p->y + row * p->y_stride + column;
    const float *residual = p->residual ? p->residual + row * p->residual_stride + column : NULL;
    for (size_t c = 0; c < n; c += LANES) {
        vf result = finished(p, x_scale, column + c, load(sums + c));
        size_t left = n - c;
        if (left >= LANES) {
            store(y + c, residual ? result + load(residual + c) : result);
            continue;
        }
        for (size_t i = 0; i < left; i++)
            y[c + i] = residual ? result[i] + residual[c + i] : result[i];
    }
}
