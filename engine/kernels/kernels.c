/* What all tables share: choosing one, packing weights into panels, keeping the best candidates. A
 * column is packed alone, so that callers may read the matrix in parts. Nothing here can fail. */
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct kernels *kernels_find(enum cpu_level level)
{
#if defined(__x86_64__)
    static const struct kernels *const tables[] = {
        [CPU_SCALAR] = &kernels_scalar,
        [CPU_SSE2] = &kernels_sse2,
        [CPU_AVX2] = &kernels_avx2,
        [CPU_AVX512] = &kernels_avx512,
        [CPU_AVX512_BF16] = &kernels_avx512bf16,
        [CPU_AMX] = &kernels_amx,
    };
    return tables[level];
#else
    (void)level;
    return &kernels_scalar;
#endif
}

size_t area_scratch(size_t l)
{
    return (size_t)(2 * MAX_AREA_WIDTH) * (kernel_padded(l) + KERNEL_PAD);
}

uint16_t kernels_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void pack_f32(size_t k, const float *w, float *numbers)
{
    for (size_t i = 0; i < k; i++)
        numbers[i * KERNEL_PANEL] = w[i];
}

static void pack_bf16(size_t k, const float *w, char *numbers)
{
    enum { BLOCK = 32 };
    for (size_t first = 0; first < k; first += BLOCK) {
        uint16_t block[BLOCK] = {0};
        size_t n = k - first < BLOCK ? k - first : BLOCK;
        for (size_t i = 0; i < n; i++)
            block[i] = kernels_bf16(w[first + i]);
        for (size_t i = 0; i < n; i += 2, numbers += KERNEL_ROW_BYTES)
            memcpy(numbers, block + i, 2 * sizeof(*block));
    }
}

/* The bits of magnitudes are ordered as they are, and a maximum of integers becomes vectors. */
static float largest_magnitude(size_t k, const float *w)
{
    int32_t most = 0;
    float largest;
    for (size_t i = 0; i < k; i++) {
        int32_t bits;
        memcpy(&bits, &w[i], sizeof(bits));
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof(largest));
    return largest;
}

/* To the nearest integer, ties to even: float addition rounds so once the last bit is worth 1. Not
 * rintf(), because plain arithmetic becomes vectors on any instruction set. */
static int32_t round_to_int(float x)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23 */
    const int32_t zero = 0x4b400000;   /* its bits */
    int32_t bits;
    x += rounder;
    memcpy(&bits, &x, sizeof(bits));
    return bits - zero;
}

/* Returns the sum of the integers. */
static int32_t pack_int8(size_t k, const float *w, float inverse, int8_t *numbers)
{
    enum { BLOCK = 64 }; /* the depth is a multiple of it */
    int32_t sum = 0;
    for (size_t first = 0; first < k; first += BLOCK) {
        int8_t block[BLOCK] = {0};
        size_t n = k - first < BLOCK ? k - first : BLOCK;
        for (size_t i = 0; i < n; i++) {
            int32_t rounded = round_to_int(w[first + i] * inverse);
            block[i] = (int8_t)rounded;
            sum += rounded;
        }
        for (size_t i = 0; i < BLOCK; i += 4, numbers += KERNEL_ROW_BYTES)
            memcpy(numbers, block + i, 4);
    }
    return sum;
}

void kernels_pack_column(enum compute_type type, size_t k, const float *w, size_t lane, void *panel,
                         float *scale, int32_t *sum)
{
    if (type == COMPUTE_F32) {
        pack_f32(k, w, (float *)panel + lane);
    } else if (type == COMPUTE_BF16) {
        pack_bf16(k, w, (char *)panel + 4 * lane);
    } else {
        float largest = largest_magnitude(k, w);
        *scale = largest / 127.0f;
        *sum =
            pack_int8(k, w, largest > 0.0f ? 127.0f / largest : 0.0f, (int8_t *)panel + 4 * lane);
    }
}

static void clear_behind(enum compute_type type, size_t n, size_t k, void *panels)
{
    size_t bytes = kernel_padded(n) / KERNEL_PANEL * kernel_panel_bytes(type, k);
    memset((char *)panels + bytes, 0, kernel_packed_bytes(type, n, k) - bytes);
}

void kernels_pack(enum compute_type type, size_t n, size_t k, const float *w, size_t w_stride,
                  void *panels)
{
    size_t panel_bytes = kernel_panel_bytes(type, k);
    char *panel = panels;
    for (size_t first = 0; first < n; first += KERNEL_PANEL, panel += panel_bytes) {
        size_t columns = n - first < KERNEL_PANEL ? n - first : KERNEL_PANEL;
        if (columns < KERNEL_PANEL)
            memset(panel, 0, panel_bytes);
        for (size_t column = 0; column < columns; column++)
            kernels_pack_column(type, k, w + (first + column) * w_stride, column, panel, NULL,
                                NULL);
    }
    clear_behind(type, n, k, panels);
}

/* Two rows in one of a panel; `next` may be NULL. */
static void pack_rows_bf16(size_t n, const float *w, const float *next, uint32_t *words)
{
    for (size_t i = 0; i < n; i++)
        words[i] = kernels_bf16(w[i]);
    for (size_t i = 0; i < n && next; i++)
        words[i] |= (uint32_t)kernels_bf16(next[i]) << 16;
}

void kernels_pack_transposed(enum compute_type type, size_t n, size_t k, const float *w,
                             size_t w_stride, void *panels)
{
    size_t panel_bytes = kernel_panel_bytes(type, k), group = kernel_group(type);
    char *panel = panels;
    for (size_t first = 0; first < n; first += KERNEL_PANEL, panel += panel_bytes) {
        size_t columns = n - first < KERNEL_PANEL ? n - first : KERNEL_PANEL;
        if (columns < KERNEL_PANEL)
            memset(panel, 0, panel_bytes);
        for (size_t i = 0; i < k; i += group) {
            const float *row = w + i * w_stride + first;
            void *out = panel + i / group * KERNEL_ROW_BYTES;
            if (type == COMPUTE_F32)
                memcpy(out, row, columns * sizeof(*row));
            else
                pack_rows_bf16(columns, row, i + 1 < k ? row + w_stride : NULL, out);
        }
    }
    clear_behind(type, n, k, panels);
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

void kernels_offer(struct logit_scan *scan, int32_t id, float logit)
{
    struct candidate candidate = {.id = id, .logit = logit};
    if (scan->allowed && !(scan->allowed[id / 32] >> (id % 32) & 1))
        return;
    if (scan->n == scan->k) {
        if (!is_better(&candidate, &scan->best[scan->k - 1]))
            return;
        scan->n--;
    }
    int i = scan->n++;
    for (; i > 0 && is_better(&candidate, &scan->best[i - 1]); i--)
        scan->best[i] = scan->best[i - 1];
    scan->best[i] = candidate;
}
