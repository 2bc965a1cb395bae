/* kernels.h - the CPU arithmetic, one table per instruction set.
 *
 * scalar.c fills every slot with the obvious loop and is the oracle of the tests; vector/ holds
 * the same slots written with vector types and is compiled once per instruction set. The engine
 * chooses a table at load. All slots are pure functions of their arguments: any thread may call.
 *
 * Batch invariance is a duty of every slot: a result row is computed by the same operations in the
 * same order however many rows are computed with it.
 *
 * Vector code reads and writes whole vectors, so score rows and head slices are padded to a
 * multiple of KERNEL_PAD floats. Lp and Dp are L and D rounded up to that.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "search/scan.h"
#include "tensor/area.h"
#include "tensor/compute.h"

enum {
    KERNEL_PANEL = 16,     /* columns of a packed weight panel */
    KERNEL_ROW_BYTES = 64, /* of a panel's row, whatever the type of its numbers */
    KERNEL_ROW_STEP = 32,  /* rows of x that are read together, see pack_rows */
    KERNEL_PAD = 16,       /* floats */
};

static inline size_t kernel_padded(size_t n)
{
    return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
}

/* Numbers of one column that stand together in a row of a panel. */
static inline size_t kernel_group(enum compute_type type)
{
    return type == COMPUTE_F32 ? 1 : type == COMPUTE_BF16 ? 2 : 4;
}

/* Of a row of x: k rounded up to what the widest instructions take at once; beyond k are zeros. */
static inline size_t kernel_depth(enum compute_type type, size_t k)
{
    size_t step = type == COMPUTE_F32 ? 1 : 16 * kernel_group(type);
    return (k + step - 1) / step * step;
}

/* In bf16 k is not padded: keys and values are packed like this, and each step reads them all. */
static inline size_t kernel_panel_bytes(enum compute_type type, size_t k)
{
    size_t depth = type == COMPUTE_BF16 ? k + k % 2 : kernel_depth(type, k);
    return depth / kernel_group(type) * KERNEL_ROW_BYTES;
}

/* Of W[N,K] in panels, with zeros behind them for those who read KERNEL_PANEL rows at a time. */
static inline size_t kernel_packed_bytes(enum compute_type type, size_t n, size_t k)
{
    size_t behind = type == COMPUTE_BF16 ? (KERNEL_PANEL - 1) * KERNEL_ROW_BYTES : 0;
    return kernel_padded(n) / KERNEL_PANEL * kernel_panel_bytes(type, k) + behind;
}

/* W[N,K] in panels of 16 columns, [Np/16][depth/group][16][group] with zeros beyond N and K. What
 * lies behind the panels is multiplied with zeros, so that it must be finite. */
struct packed {
    enum compute_type type;
    size_t n, k;
    const void *panels;
    const float *bias;   /* [Np]; NULL: zeros */
    const float *scales; /* [Np], int8 */
    const int32_t *sums; /* [Np], int8: of the integers of each column */
};

/* Columns first ... first + n - 1, first a multiple of 16. */
static inline struct packed packed_columns(const struct packed *w, size_t first, size_t n)
{
    size_t offset = first / KERNEL_PANEL * kernel_panel_bytes(w->type, w->k);
    return (struct packed){
        .type = w->type,
        .n = n,
        .k = w->k,
        .panels = (const char *)w->panels + offset,
        .bias = w->bias ? w->bias + first : NULL,
        .scales = w->scales ? w->scales + first : NULL,
        .sums = w->sums ? w->sums + first : NULL,
    };
}

/* Rows of attention caches are f32 or bf16. In bf16 each 32 numbers are 16 words, number i and
 * number 16 + i in the lower and the upper half of word i, so that vectors of words become vectors
 * of numbers that stand together. Numbers of a row, of which n are meant: */
static inline size_t kernel_cache_padded(enum compute_type type, size_t n)
{
    size_t step = type == COMPUTE_F32 ? KERNEL_PAD : 2 * KERNEL_PAD;
    return (n + step - 1) / step * step;
}

/* And the floats that it takes. */
static inline size_t kernel_cache_floats(enum compute_type type, size_t n)
{
    return kernel_cache_padded(type, n) / (type == COMPUTE_F32 ? 1 : 2);
}

/* Strides are from row to row: of x in bytes, of residual and y in floats. */
struct product {
    size_t m;
    const void *x; /* [M,K] as pack_rows writes it: floats for f32 */
    size_t x_stride;
    const float *x_scales; /* [M], int8 */
    struct packed w;
    const void *next; /* panels that are read after these, to be fetched; NULL: those behind them */
    enum activation activation;
    const float *residual; /* [M,N] or NULL */
    size_t residual_stride;
    float *y;
    size_t y_stride;
};

/* What an integral image has at the end of an area, and what it has before it: the sum over an
 * area on a line is the difference. Rows of several areas may stand one after the other. */
struct area_ends {
    const float *last, *before; /* before NULL: nothing */
};

struct kernels {
    const char *name;

    /* Puts x[M,K], rows x_stride floats apart, into the form that this table's linear reads for
     * products of this type: row_bytes() per row, and for int8 scales[M]. `rows` has room for M
     * rounded up to a multiple of KERNEL_ROW_STEP: linear may read there what nobody wrote. */
    size_t (*row_bytes)(enum compute_type type, size_t k);
    void (*pack_rows)(enum compute_type type, size_t m, size_t k, const float *x, size_t x_stride,
                      void *rows, float *scales);

    /* y[M,N] = activation(x[M,K]·Wᵀ + bias) + residual. The products of attention use it too, on
     * packed keys and values. */
    void (*linear)(const struct product *product);

    /* y[M,C] = (x - mean) / sqrt(variance + epsilon) * gain + bias; y may be x. */
    void (*layer_norm)(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y);

    /* One row of an LSTM cell, see device.h: gates[4C], cell state before[C] to after[C] (the same
     * is allowed), hidden[C]. */
    void (*lstm_cell)(size_t c, const float *gates, const float *before, float *after,
                      float *hidden);

    /* Writes x[n] into a cache, n = kernel_cache_padded(): as it is, or as bf16. */
    void (*store_row)(enum compute_type type, size_t n, const float *x, float *row);

    /* scores[m] = query[n] · key of item m, for keys scattered over a cache: item m's is at
     * cache + rows[m] * stride, m < L, as store_row wrote it. */
    void (*scores_rows)(enum compute_type type, size_t l, size_t n, const float *query,
                        const float *cache, const int32_t *rows, size_t stride, float *scores);

    /* Replaces scores[L] by the coverage of each item (area-attention identity): c_m = sum of the
     * probabilities of all areas of width 1..A that contain m; divided by their width where the
     * value of an area is the mean of its items. A = 1 is softmax. For plain rules, see
     * area_is_plain(); areas.h has what others need. scores has Lp floats, the coverage beyond L
     * is 0. scratch: area_scratch(L) floats. */
    void (*area_coverage)(size_t l, const struct area_rule *rule, float *scores, float *scratch);

    /* The same where areas have keys of their own: planes[A][Lp] are the logits of areas on a line,
     * as areas.h numbers them, of which those count that end in the first `seen` items; the
     * coverage is planes[Lp], what follows is anything, and room for KERNEL_PAD floats more.
     * scratch: 2 A Lp floats. */
    void (*plane_coverage)(size_t l, size_t seen, const struct area_rule *rule, float *planes,
                           float *scratch);

    /* deviations[n] = sqrt(|E[x²] - E[x]²| + AREA_EPSILON) of areas of `count` items, from integral
     * images of x and of x²; `before` of both is NULL or neither. Plain float32 arithmetic in this
     * order: all tables give the same bits. */
    void (*area_deviations)(size_t n, int count, const struct area_ends *sums,
                            const struct area_ends *squares, float *deviations);

    /* hidden[M,D] = relu(hidden + share * windows[M,D] + constants[D]). */
    void (*area_hidden)(size_t m, size_t d, float share, const float *windows,
                        const float *constants, float *hidden);

    /* out[n] = sum over m < L of coverage[m] * value of item m, scattered likewise. */
    void (*context_rows)(enum compute_type type, size_t l, size_t n, const float *coverage,
                         const float *cache, const int32_t *rows, size_t stride, float *out);

    /* Takes logits[n] of the ids first_id ... into the scan. Minus infinity is no candidate and has
     * no share of the sum. logits is padded to KERNEL_PAD and may be written beyond n. */
    void (*scan_logits)(size_t n, int32_t first_id, float *logits, struct logit_scan *scan);
};

/* The table for a level; scalar for levels this build does not have. */
const struct kernels *kernels_find(enum cpu_level level);

/* Floats of scratch that area_coverage needs for a memory of l items. */
size_t area_scratch(size_t l);

/* Packs W[n,k] (rows w_stride apart) into panels of f32 or bf16, kernel_packed_bytes(). */
void kernels_pack(enum compute_type type, size_t n, size_t k, const float *w, size_t w_stride,
                  void *panels);

/* Packs the transpose of W[k,n], likewise. */
void kernels_pack_transposed(enum compute_type type, size_t n, size_t k, const float *w,
                             size_t w_stride, void *panels);

/* Packs one column of a weight, w[k], into lane `lane` of a zeroed panel. For int8 *scale and *sum
 * get what struct packed says. */
void kernels_pack_column(enum compute_type type, size_t k, const float *w, size_t lane, void *panel,
                         float *scale, int32_t *sum);

/* The bits of the nearest bfloat16, ties to even. */
uint16_t kernels_bf16(float x);

/* Keeps the candidate if it belongs to the best k. Shared by all scans. */
void kernels_offer(struct logit_scan *scan, int32_t id, float logit);

extern const struct kernels kernels_scalar;
extern const struct kernels kernels_sse2, kernels_avx2, kernels_avx512, kernels_avx512bf16,
    kernels_amx;

#endif
