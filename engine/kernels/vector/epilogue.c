/* What follows on the sums of a product: scales, activation, residual. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

#include <math.h>

ALWAYS_INLINE vf activate(enum activation activation, vf x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return vmax(x, splat(0.0f));
    case ACTIVATION_SWISH:
        return x / (1.0f + vexp(-vmax(x, splat(-87.3f)))); /* vexp() takes no more than 88 */
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

/* What a tile's elements become besides their activation. Copies, because the compiler must take it
 * that a store to y changes what `product` points to. */
struct finish {
    bool is_int8;
    const float *x_scales, *scales; /* int8 */
    const float *bias;              /* NULL: none, or the sums began with it */
    const float *residual;          /* NULL: none */
    size_t residual_stride;
    float *y;
    size_t y_stride;
};

/* Of the tile at row and column. Sums of integers, and those of AMX tiles, begin at zero and get
 * the bias here; all others have begun with it. */
static struct finish finish_at(const struct product *p, size_t row, size_t column)
{
    bool is_int8 = p->w.type == COMPUTE_INT8;
    bool begins_at_zero = is_int8 || (p->w.type == COMPUTE_BF16 && HAS_TILES);
    struct finish finish = {.is_int8 = is_int8, .residual_stride = p->residual_stride};
    if (is_int8) {
        finish.x_scales = p->x_scales + row;
        finish.scales = p->w.scales + column;
    }
    if (begins_at_zero && p->w.bias)
        finish.bias = p->w.bias + column;
    if (p->residual)
        finish.residual = p->residual + row * p->residual_stride + column;
    finish.y = p->y + row * p->y_stride + column;
    finish.y_stride = p->y_stride;
    return finish;
}

/* A vector of columns in all rows; only the first `n` are there, where not all are. What does not
 * change from row to row is a constant, so that the loop has nothing but arithmetic. */
ALWAYS_INLINE void finish_vector(const struct finish *f, enum activation activation, bool is_int8,
                                 bool has_residual, size_t rows, size_t c, size_t n,
                                 const float *sums, size_t sums_stride)
{
    const vf scales = is_int8 ? load(f->scales + c) : splat(1.0f);
    const vf bias = f->bias ? load(f->bias + c) : splat(0.0f);
    const float *residual = f->residual + (has_residual ? c : 0);
    float *y = f->y + c;
    for (size_t r = 0; r < rows; r++) {
        vf x = load(sums + r * sums_stride + c);
        if (is_int8)
            x = __builtin_convertvector((vi)x, vf) * (f->x_scales[r] * scales);
        x = activation == ACTIVATION_GELU ? gelu(x + bias) : activate(activation, x + bias);
        if (n >= LANES) {
            store(y + r * f->y_stride,
                  has_residual ? x + load(residual + r * f->residual_stride) : x);
            continue;
        }
        float part[LANES];
        store(part, x);
        for (size_t i = 0; i < n; i++)
            y[r * f->y_stride + i] =
                has_residual ? part[i] + residual[r * f->residual_stride + i] : part[i];
    }
}

ALWAYS_INLINE void finish_vectors(const struct finish *f, enum activation activation, bool is_int8,
                                  bool has_residual, size_t rows, size_t n, const float *sums,
                                  size_t sums_stride)
{
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        finish_vector(f, activation, is_int8, has_residual, rows, c, LANES, sums, sums_stride);
    if (c < n)
        finish_vector(f, activation, is_int8, has_residual, rows, c, n - c, sums, sums_stride);
}

ALWAYS_INLINE void finish_rows(const struct finish *f, enum activation activation, size_t rows,
                               size_t n, const float *sums, size_t sums_stride)
{
    if (f->is_int8 && f->residual)
        finish_vectors(f, activation, true, true, rows, n, sums, sums_stride);
    else if (f->is_int8)
        finish_vectors(f, activation, true, false, rows, n, sums, sums_stride);
    else if (f->residual)
        finish_vectors(f, activation, false, true, rows, n, sums, sums_stride);
    else
        finish_vectors(f, activation, false, false, rows, n, sums, sums_stride);
}

/* A function of its own, so that every shape of tile rounds alike. */
void ISA(tile_epilogue)(const struct product *p, size_t row, size_t rows, size_t column, size_t n,
                        const float *sums, size_t sums_stride)
{
    const struct finish finish = finish_at(p, row, column);
    switch (p->activation) {
    case ACTIVATION_NONE:
        finish_rows(&finish, ACTIVATION_NONE, rows, n, sums, sums_stride);
        break;
    case ACTIVATION_RELU:
        finish_rows(&finish, ACTIVATION_RELU, rows, n, sums, sums_stride);
        break;
    case ACTIVATION_SWISH:
        finish_rows(&finish, ACTIVATION_SWISH, rows, n, sums, sums_stride);
        break;
    case ACTIVATION_GELU:
        finish_rows(&finish, ACTIVATION_GELU, rows, n, sums, sums_stride);
        break;
    }
}
