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

/* n items, LANES at most; a plain load or store where n is a constant. */
ALWAYS_INLINE vf load_some(const float *x, size_t n)
{
    vf v = splat(0.0f);
    memcpy(&v, x, n * sizeof(*x));
    return v;
}

ALWAYS_INLINE void store_some(float *x, size_t n, vf v)
{
    memcpy(x, &v, n * sizeof(*x));
}

/* n cells of c, of which the first is where the pointers are. */
ALWAYS_INLINE void some_cells(size_t n, size_t c, const float *gates, const float *before,
                              float *after, float *hidden)
{
    vf in = sigmoid(load_some(gates, n)), forget = sigmoid(load_some(gates + c, n));
    vf cell = tangent(load_some(gates + 2 * c, n)), out = sigmoid(load_some(gates + 3 * c, n));
    cell = forget * load_some(before, n) + in * cell;
    store_some(after, n, cell);
    store_some(hidden, n, out * tangent(cell));
}

void ISA(lstm_cell)(size_t c, const float *gates, const float *before, float *after, float *hidden)
{
    size_t i = 0;
    for (; i + LANES <= c; i += LANES)
        some_cells(LANES, c, gates + i, before + i, after + i, hidden + i);
    if (i < c)
        some_cells(c - i, c, gates + i, before + i, after + i, hidden + i);
}
