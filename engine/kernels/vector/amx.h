/* amx.h - the eight tiles of AMX, each 16 rows of 64 bytes; where the compiler's flags do not bring
 * them, the same in plain C for the tests. Tile numbers must be constants. Private to
 * kernels/vector/tiles.c. */
#ifndef KERNELS_VECTOR_AMX_H
#define KERNELS_VECTOR_AMX_H

#include "kernels/vector/isa.h"

enum { TILE_ROWS = 16 };

#if defined(__AMX_INT8__)

#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, stride) _tile_loadd(t, p, stride)
#define tile_store(t, p, stride) _tile_stored(t, p, stride)
#define tile_dot_bytes(sum, x, w) _tile_dpbssd(sum, x, w)
#define tile_dot_bf16(sum, x, w) _tile_dpbf16ps(sum, x, w)

/* Every tile has its full size. Before each product: the thread may be a caller's, and what else it
 * computes leaves tiles as it likes (oneDNN releases them). The table is constant because GCC 12
 * tells its optimiser of the first eight bytes that the instruction reads, no more. */
static inline void tiles_configure(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

#else

typedef union {
    int32_t integers[TILE_ROWS][16];
    float floats[TILE_ROWS][16];
    int8_t bytes[TILE_ROWS][64];
    uint16_t halves[TILE_ROWS][32];
} tile_memory;

static _Thread_local tile_memory tiles[8];

static inline void tile_zero(int t)
{
    memset(&tiles[t], 0, sizeof(tiles[t]));
}

static inline void tile_load(int t, const void *p, size_t stride)
{
    for (size_t row = 0; row < TILE_ROWS; row++)
        memcpy(tiles[t].bytes[row], (const char *)p + row * stride, KERNEL_ROW_BYTES);
}

static inline void tile_store(int t, void *p, size_t stride)
{
    for (size_t row = 0; row < TILE_ROWS; row++)
        memcpy((char *)p + row * stride, tiles[t].bytes[row], KERNEL_ROW_BYTES);
}

static inline void tile_dot_bytes(int sum, int x, int w)
{
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < 16; n++)
            for (int k = 0; k < 64; k++)
                tiles[sum].integers[m][n] +=
                    tiles[x].bytes[m][k] * tiles[w].bytes[k / 4][4 * n + k % 4];
}

static inline float tile_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline void tile_dot_bf16(int sum, int x, int w)
{
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < 16; n++)
            for (int k = 0; k < 32; k++)
                tiles[sum].floats[m][n] += tile_float(tiles[x].halves[m][k]) *
                                           tile_float(tiles[w].halves[k / 2][2 * n + k % 2]);
}

static inline void tiles_configure(void)
{
}

#endif
#endif
