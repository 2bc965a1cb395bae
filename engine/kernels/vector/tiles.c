/* Products of int8 and bf16 rows with packed weights on AMX tiles.
 *
 * A row of a panel is a row of a tile: 16 of them are 64 bytes and 32 halves along k. Rows of x are
 * read 16 at a time, also beyond the last one; what comes of those is not looked at. An element's
 * sum takes the blocks of k in their order, whatever the number of rows.
 */
#include "kernels/vector/isa.h"

#include "kernels/vector/vector.h"

#if defined(__AMX_INT8__) || defined(EMULATE_TILES)

#include "kernels/vector/amx.h"

enum {
    BLOCK_ROWS = KERNEL_ROW_STEP,     /* 2 tiles */
    BLOCK_COLUMNS = 2 * KERNEL_PANEL, /* 2 tiles */
    PANEL_TILE_BYTES = TILE_ROWS * KERNEL_ROW_BYTES,
};

/* Where the operands of one block are, and what is fetched into the caches while its tiles are
 * multiplied, some in every turn: this block's part of the next two panels, which come from memory
 * when a model is larger than the caches, and the lines that the block will write, unless it is the
 * only one: then the caches still have them, and the panels have to wait. */
struct block {
    const char *x[2], *w[2];
    size_t x_stride, depth_bytes;
    const char *next; /* weights */
    size_t next_bytes;
    const float *y;
    size_t y_rows, y_stride;
};

ALWAYS_INLINE struct block block_at(const struct product *p, size_t row, size_t column)
{
    size_t panel_bytes = kernel_panel_bytes(p->w.type, p->w.k);
    struct block block = {.x_stride = p->x_stride};
    block.depth_bytes = kernel_depth(p->w.type, p->w.k) / kernel_group(p->w.type) * sizeof(int32_t);
    block.x[0] = (const char *)p->x + row * p->x_stride;
    block.x[1] = block.x[0] + TILE_ROWS * p->x_stride;
    block.w[0] = (const char *)p->w.panels + column / KERNEL_PANEL * panel_bytes;
    block.w[1] = block.w[0] + panel_bytes;

    size_t turns = block.depth_bytes / KERNEL_ROW_BYTES;
    size_t blocks = (p->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    block.next_bytes = (2 * PANEL_TILE_BYTES + blocks - 1) / blocks;
    bool is_last = column + BLOCK_COLUMNS >= p->w.n;
    block.next = is_last && p->next ? p->next : block.w[0] + 2 * panel_bytes;
    block.next += row / BLOCK_ROWS * turns * block.next_bytes;
    block.y = p->y + row * p->y_stride + column;
    block.y_stride = p->y_stride;
    if (blocks > 1)
        block.y_rows = ((p->m - row < BLOCK_ROWS ? p->m - row : BLOCK_ROWS) + turns - 1) / turns;
    return block;
}

/* The share of turn i. Addresses beyond the weights or the result do no harm. */
ALWAYS_INLINE void fetch_ahead(const struct block *b, size_t i)
{
    for (size_t byte = 0; byte < b->next_bytes; byte += KERNEL_ROW_BYTES)
        __builtin_prefetch(b->next + i * b->next_bytes + byte, 0);
    for (size_t row = i * b->y_rows; row < (i + 1) * b->y_rows; row++)
        for (size_t c = 0; c < BLOCK_COLUMNS; c += KERNEL_ROW_BYTES / sizeof(float))
            __builtin_prefetch(b->y + row * b->y_stride + c, 1);
}

#define DOT(sum, x, w)                                                                             \
    do {                                                                                           \
        if (type == COMPUTE_INT8) {                                                                \
            tile_dot_bytes(sum, x, w);                                                             \
        } else {                                                                                   \
            tile_dot_bf16(sum, x, w);                                                              \
        }                                                                                          \
    } while (0)

/* Tiles 0-3 are the sums, 4 and 5 x, 6 and 7 the panels. */
ALWAYS_INLINE void sum_block(enum compute_type type, bool two_rows, bool two_columns,
                             const struct block *b, float sums[][BLOCK_COLUMNS])
{
    const size_t sums_stride = BLOCK_COLUMNS * sizeof(float);
    tile_zero(0);
    if (two_columns)
        tile_zero(1);
    if (two_rows)
        tile_zero(2);
    if (two_rows && two_columns)
        tile_zero(3);
    for (size_t i = 0, w = 0; i < b->depth_bytes; i += KERNEL_ROW_BYTES, w += PANEL_TILE_BYTES) {
        tile_load(4, b->x[0] + i, b->x_stride);
        tile_load(6, b->w[0] + w, KERNEL_ROW_BYTES);
        DOT(0, 4, 6);
        fetch_ahead(b, i / KERNEL_ROW_BYTES);
        if (two_columns) {
            tile_load(7, b->w[1] + w, KERNEL_ROW_BYTES);
            DOT(1, 4, 7);
        }
        if (two_rows) {
            tile_load(5, b->x[1] + i, b->x_stride);
            DOT(2, 5, 6);
        }
        if (two_rows && two_columns)
            DOT(3, 5, 7);
    }
    tile_store(0, sums[0], sums_stride);
    if (two_columns)
        tile_store(1, sums[0] + KERNEL_PANEL, sums_stride);
    if (two_rows)
        tile_store(2, sums[TILE_ROWS], sums_stride);
    if (two_rows && two_columns)
        tile_store(3, sums[TILE_ROWS] + KERNEL_PANEL, sums_stride);
}

ALWAYS_INLINE void multiply_block(enum compute_type type, const struct product *p, size_t row,
                                  size_t column)
{
    float sums[BLOCK_ROWS][BLOCK_COLUMNS] __attribute__((aligned(KERNEL_ROW_BYTES)));
    struct block block = block_at(p, row, column);
    size_t rows = p->m - row < BLOCK_ROWS ? p->m - row : BLOCK_ROWS;
    size_t columns = p->w.n - column < BLOCK_COLUMNS ? p->w.n - column : BLOCK_COLUMNS;
    if (rows > TILE_ROWS && columns > KERNEL_PANEL)
        sum_block(type, true, true, &block, sums);
    else if (rows > TILE_ROWS)
        sum_block(type, true, false, &block, sums);
    else if (columns > KERNEL_PANEL)
        sum_block(type, false, true, &block, sums);
    else
        sum_block(type, false, false, &block, sums);
    ISA(tile_epilogue)(p, row, rows, column, columns, sums[0], BLOCK_COLUMNS);
}

/* Panels in the outer loop: two of them stay in the first cache while the rows pass. */
void ISA(linear_tiles)(const struct product *product)
{
    tiles_configure();
    for (size_t column = 0; column < product->w.n; column += BLOCK_COLUMNS) {
        for (size_t row = 0; row < product->m; row += BLOCK_ROWS) {
            if (product->w.type == COMPUTE_INT8)
                multiply_block(COMPUTE_INT8, product, row, column);
            else
                multiply_block(COMPUTE_BF16, product, row, column);
        }
    }
}

#endif
