/* The LSTM cell. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

/* vexp() ends at 88. */
ALWAYS_INLINE vf sigmoid(vf x)
{
    return 1.0f / (1.0f + vexp(-vmax(x, splat(-87.3f))));
}

/* Error below 2e-7 of 1, not of the result. */
ALWAYS_INLINE vf tangent(vf x)
{
    return 2.0f * sigmoid(2.0f * x) - 1.0f;
}

/* LANES of a row from i on, or fewer at its end. */
ALWAYS_INLINE vf load_some(const float *x, size_t n)
{
    vf v = splat(0.0f);
    memcpy(&v, x, (n < LANES ? n : LANES) * sizeof(*x));
    return v;
}

ALWAYS_INLINE void store_some(float *x, size_t n, vf v)
{
    memcpy(x, &v, (n < LANES ? n : LANES) * sizeof(*x));
}

void ISA(lstm_cell)(size_t c, const float *gates, const float *before, float *after, float *hidden)
{
    for (size_t i = 0; i < c; i += LANES) {
        size_t n = c - i;
        vf in = sigmoid(load_some(gates + i, n)), forget = sigmoid(load_some(gates + c + i, n));
        vf cell = tangent(load_some(gates + 2 * c + i, n));
        vf out = sigmoid(load_some(gates + 3 * c + i, n));
        cell = forget * load_some(before + i, n) + in * cell;
        store_some(after + i, n, cell);
        store_some(hidden + i, n, out * tangent(cell));
    }
}
