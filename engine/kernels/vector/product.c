/* Products of rows with packed weights, in three types of numbers by one text.
 *
 * A tile is some rows by some panels of 16 columns, its sums in registers while it goes down the
 * panels. Each element's sum is one chain along k, whatever the tile: that is what makes a
 * sentence's translation independent of its batch.
 */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

enum {
    TILE_PANELS = 4,
    MAX_TILE_ROWS = 12,
    GROUP_PANELS = 8,
    GROUP_COLUMNS = GROUP_PANELS * KERNEL_PANEL,
    FEW_ROWS = 6, /* of int8 products that AMX does not speed up */
};

/* One k, or the even and the odd ones of two or four k, of every lane. */
struct operand {
    vf even, odd;
};

/* Whether a vector of a panel is an operand as it is. */
ALWAYS_INLINE bool is_direct(enum compute_type type)
{
    return type == COMPUTE_F32 || (type == COMPUTE_BF16 ? HAS_BF16_DOT : HAS_DOT);
}

/* Registers that it takes. */
ALWAYS_INLINE size_t units(enum compute_type type)
{
    return is_direct(type) ? 1 : 2;
}

/* Rows of the tallest tile: sums and operands of one panel fill the registers. */
ALWAYS_INLINE size_t tile_rows(enum compute_type type)
{
    size_t rows = (REGISTERS - units(type)) / PANEL_VECTORS - units(type);
    return rows < MAX_TILE_ROWS ? rows : MAX_TILE_ROWS;
}

/* Panels of a tile of so many rows; operands of a single row need no register of their own. */
ALWAYS_INLINE size_t tile_panels(enum compute_type type, size_t rows)
{
    size_t vectors = rows == 1 ? 1 : rows + units(type);
    size_t fit = (REGISTERS - units(type)) / (PANEL_VECTORS * vectors);
    return fit >= TILE_PANELS ? TILE_PANELS : fit >= 2 ? 2 : 1;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

ALWAYS_INLINE struct operand column_of(enum compute_type type, vf packed)
{
    struct operand column = {packed, packed};
    if (is_direct(type))
        return column;
    if (type == COMPUTE_BF16) {
        column.even = (vf)((vi)packed << 16);
        column.odd = (vf)((vi)packed >> 16 << 16);
    } else {
        column.even = (vf)((vs)packed << 8 >> 8);
        column.odd = (vf)((vs)packed >> 8);
    }
    return column;
}

/* What row `x` has for row i of a panel, in every lane. Bytes that tiles read are signed. */
ALWAYS_INLINE struct operand item_of(enum compute_type type, const void *x, size_t i)
{
    typedef float item __attribute__((may_alias));
    const item *items = x;
    if (type == COMPUTE_INT8 && HAS_TILES)
        return (struct operand){.even = (vf)((vi)splat(items[i]) ^ (int32_t)0x80808080)};
    if (is_direct(type))
        return (struct operand){.even = splat(items[i])};
    return (struct operand){splat(items[2 * i]), splat(items[2 * i + 1])};
}

ALWAYS_INLINE vf multiply_add(enum compute_type type, vf sum, struct operand x, struct operand w)
{
    switch (type) {
    case COMPUTE_F32:
        return sum + x.even * w.even;
    case COMPUTE_BF16:
        if (HAS_BF16_DOT)
            return dot_bf16(sum, x.even, w.even);
        return sum + x.even * w.even + x.odd * w.odd;
    case COMPUTE_INT8:
        if (HAS_DOT)
            return (vf)dot_bytes((vi)sum, (vi)x.even, (vi)w.even);
        return (vf)dot_words(dot_words((vi)sum, (vi)x.even, (vi)w.even), (vi)x.odd, (vi)w.odd);
    case COMPUTE_F16: /* not of this device */
        break;
    }
    return sum;
}

/* What the sums of a vector of columns start with: the bias, or what takes the 128 back. */
ALWAYS_INLINE vf first_sum(enum compute_type type, const struct packed *w, size_t column)
{
    if (type != COMPUTE_INT8)
        return w->bias ? load(w->bias + column) : splat(0.0f);
    if (HAS_DOT)
        return (vf)((vu)load(w->sums + column) * -128u); /* wraps: only the whole sum fits */
    return splat(0.0f);
}

/* Weights that come from memory are fetched while others are multiplied: block `share` of `shares`
 * row blocks fetches its part of what lies `distance` bytes behind the panels of a tile, which
 * after the last panels is where the next weight begins. A single block waits for memory anyway.
 * Addresses beyond the weights do no harm. */
struct ahead {
    size_t distance, share, shares;
};

ALWAYS_INLINE size_t lines_ahead(const struct ahead *ahead, size_t lines)
{
    return ahead->shares > 1 ? (lines + ahead->shares - 1) / ahead->shares : 0;
}

/* out[rows, panels * 16] = first sums + x · panels; rows of out are GROUP_COLUMNS apart. */
ALWAYS_INLINE void tile(enum compute_type type, size_t rows, size_t panels, const struct product *p,
                        size_t row, size_t panel, const struct ahead *ahead, float *out)
{
    const size_t panel_bytes = kernel_panel_bytes(type, p->w.k), x_stride = p->x_stride;
    const char *x = (const char *)p->x + row * x_stride;
    const char *w = (const char *)p->w.panels + panel * panel_bytes;
    const size_t n_next = lines_ahead(ahead, panels * panel_bytes / KERNEL_ROW_BYTES);
    const char *next = w + ahead->distance + ahead->share * n_next * KERNEL_ROW_BYTES;
    vf sum[MAX_TILE_ROWS][TILE_PANELS * PANEL_VECTORS];
#pragma GCC unroll 16
    for (size_t c = 0; c < panels * PANEL_VECTORS; c++) {
        vf first = first_sum(type, &p->w, panel * KERNEL_PANEL + c * LANES);
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++)
            sum[r][c] = first;
    }
    for (size_t i = 0; i < panel_bytes / KERNEL_ROW_BYTES; i++) {
        struct operand column[TILE_PANELS * PANEL_VECTORS];
        if (i < n_next)
            __builtin_prefetch(next + i * KERNEL_ROW_BYTES, 0, 2);
#pragma GCC unroll 16
        for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
            column[c] =
                column_of(type, load(w + c / PANEL_VECTORS * panel_bytes + i * KERNEL_ROW_BYTES +
                                     c % PANEL_VECTORS * VECTOR_BYTES));
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++) {
            struct operand item = item_of(type, x + r * x_stride, i);
#pragma GCC unroll 16
            for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
                sum[r][c] = multiply_add(type, sum[r][c], item, column[c]);
        }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
            store(out + r * GROUP_COLUMNS + c * LANES, sum[r][c]);
}

/* ---- Tiles over the whole product ------------------------------------------------------------ */

/* One row block against a group; `rows` is a constant, so each call site is its own kernel. */
ALWAYS_INLINE void row_block(enum compute_type type, size_t rows, const struct product *p,
                             size_t row, const struct ahead *ahead)
{
    float sums[MAX_TILE_ROWS * GROUP_COLUMNS];
    const size_t wide = tile_panels(type, rows), narrow = wide > 2 ? 2 : 1;
    size_t n_panels = kernel_padded(p->w.n) / KERNEL_PANEL;
    for (size_t panel = 0; panel < n_panels;) {
        size_t left = n_panels - panel, step = left >= wide ? wide : left >= narrow ? narrow : 1;
        float *out = sums + panel * KERNEL_PANEL;
        if (step == wide)
            tile(type, rows, wide, p, row, panel, ahead, out);
        else if (step == narrow)
            tile(type, rows, narrow, p, row, panel, ahead, out);
        else
            tile(type, rows, 1, p, row, panel, ahead, out);
        panel += step;
    }
    ISA(tile_epilogue)(p, row, rows, 0, p->w.n, sums, GROUP_COLUMNS);
}

/* The tallest tile is at most tile_rows() high; the taller cases are never reached. */
ALWAYS_INLINE void row_blocks(enum compute_type type, const struct product *p, size_t row,
                              size_t rows, const struct ahead *ahead)
{
    switch (rows) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        if (n <= tile_rows(type))                                                                  \
            row_block(type, n, p, row, ahead);                                                     \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
        CASE(9)
        CASE(10)
        CASE(11)
        CASE(12)
#undef CASE
    default:
        break;
    }
}

/* Panels in the outer loop: a group of them stays in the first caches while the rows pass. */
ALWAYS_INLINE void multiply(enum compute_type type, const struct product *product)
{
    const size_t group = GROUP_COLUMNS, step = tile_rows(type);
    struct ahead ahead = {.distance = GROUP_PANELS * kernel_panel_bytes(type, product->w.k),
                          .shares = (product->m + step - 1) / step};
    for (size_t column = 0; column < product->w.n; column += group) {
        size_t left = product->w.n - column;
        struct product part = *product;
        part.w = packed_columns(&product->w, column, left < group ? left : group);
        part.y += column;
        if (part.residual)
            part.residual += column;
        if (left <= group && part.next)
            ahead.distance = (size_t)((const char *)part.next - (const char *)part.w.panels);
        for (size_t row = 0; row < part.m; row += step) {
            ahead.share = row / step;
            row_blocks(type, &part, row, part.m - row < step ? part.m - row : step, &ahead);
        }
    }
}

static void multiply_f32(const struct product *product)
{
    multiply(COMPUTE_F32, product);
}

static void multiply_bf16(const struct product *product)
{
    multiply(COMPUTE_BF16, product);
}

static void multiply_int8(const struct product *product)
{
    multiply(COMPUTE_INT8, product);
}

/* A tile has room for many rows and takes as long for one. Sums of integers are the same either
 * way; those of floats are not, so that they must not depend on the number of rows. */
ALWAYS_INLINE bool fills_tiles(const struct product *product)
{
    return product->w.type == COMPUTE_BF16 ||
           (product->w.type == COMPUTE_INT8 && product->m > FEW_ROWS);
}

void ISA(linear)(const struct product *product)
{
    static void (*const multiply_type[])(const struct product *) = {[COMPUTE_F32] = multiply_f32,
                                                                    [COMPUTE_BF16] = multiply_bf16,
                                                                    [COMPUTE_INT8] = multiply_int8};
    if (HAS_TILES && fills_tiles(product))
        ISA(linear_tiles)(product);
    else
        multiply_type[product->w.type](product);
}
