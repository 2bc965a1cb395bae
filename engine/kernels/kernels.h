/* kernels.h - the CPU arithmetic, one table per instruction set.
 *
 * scalar.c fills every slot with the obvious loop and is the oracle of the tests; vector.c holds
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
#include "shapes.h"

enum {
    KERNEL_PANEL = 16, /* columns of a packed weight panel */
    KERNEL_PAD = 16,   /* floats */
    KERNEL_MAX_BEST = 2 * MAX_BEAM,
};

static inline size_t kernel_padded(size_t n)
{
    return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
}

enum kernel_activation { KERNEL_NONE, KERNEL_RELU, KERNEL_SWISH, KERNEL_GELU };

/* How the items of a memory are joined into areas. */
struct area_rule {
    int width;       /* A, the widest area; 1 = regular attention */
    bool mean_value; /* an area's value is the mean of its items' values, not their sum */
    int top_k;       /* 0 = all areas count; else only those as probable as the k-th */
};

struct product {
    size_t m, n, k;
    const float *x;
    size_t x_stride;
    const float *panels;
    const float *bias;
    enum kernel_activation activation;
    const float *residual;
    size_t residual_stride;
    float *y;
    size_t y_stride;
};

/* A candidate for the next token of a hypothesis. */
struct candidate {
    int32_t id;
    float logit;
};

/* What is known of one row's logits so far: the best k of the allowed ids, and a running maximum
 * with the sum of exp(logit - maximum) over all ids. Start: n = 0, maximum = -inf, sum = 0. */
struct logit_scan {
    struct candidate *best; /* [k], sorted: higher logit first, then lower id */
    int n, k;
    float maximum, sum;
    const uint32_t *allowed; /* bit set of ids that may be chosen; NULL = all */
    bool renormalize;        /* ids that may not be chosen have no share of the sum either */
};

struct kernels {
    const char *name;

    /* y[M,N] = activation(x[M,K]·Wᵀ + bias) + residual. W[N,K] is packed as panels
     * [Np/16][K][16] with zeros beyond N; bias[Np] and residual[M,N] may be NULL. Strides are
     * floats from row to row. The products of attention use it too, on packed keys and values. */
    void (*linear)(const struct product *product);

    /* y[M,C] = (x - mean) / sqrt(variance + epsilon) * gain + bias; y may be x. */
    void (*layer_norm)(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y);

    /* scores[m] = query[Dp] · key of item m, for keys scattered over a cache: item m's is at
     * cache + rows[m] * stride, m < L. */
    void (*scores_rows)(size_t l, size_t dp, const float *query, const float *cache,
                        const int32_t *rows, size_t stride, float *scores);

    /* Replaces scores[L] by the coverage of each item (area-attention identity): c_m = sum of the
     * probabilities of all areas of width 1..A that contain m; divided by their width where the
     * value of an area is the mean of its items. A = 1 is softmax. scores has Lp floats, the
     * coverage beyond L is 0. scratch: area_scratch(L) floats. */
    void (*area_coverage)(size_t l, const struct area_rule *rule, float *scores, float *scratch);

    /* out[Dp] = sum over m < L of coverage[m] * value of item m, scattered likewise. */
    void (*context_rows)(size_t l, size_t dp, const float *coverage, const float *cache,
                         const int32_t *rows, size_t stride, float *out);

    /* Takes logits[n] of the ids first_id ... into the scan. Minus infinity is no candidate and has
     * no share of the sum. logits is padded to KERNEL_PAD and may be written beyond n. */
    void (*scan_logits)(size_t n, int32_t first_id, float *logits, struct logit_scan *scan);
};

/* The table for a level; scalar for levels this build does not have. */
const struct kernels *kernels_find(enum cpu_level level);

/* Floats of scratch that area_coverage needs for a memory of l items. */
size_t area_scratch(size_t l);

/* Packs W[n,k] (rows w_stride apart) into panels, see linear: kernel_padded(n) * k floats. */
void kernels_pack(size_t n, size_t k, const float *w, size_t w_stride, float *panels);

/* Packs the transpose of W[k,n] into panels, likewise. */
void kernels_pack_transposed(size_t n, size_t k, const float *w, size_t w_stride, float *panels);

/* The probabilities of all areas over scores[l]: ordered by width, then by first item. `weights`
 * has room for twice as many; returns how many. */
size_t kernels_area_weights(size_t l, const struct area_rule *rule, const float *scores,
                            float *weights);

/* area_coverage by way of the probabilities of all areas: what every table does for top-k. */
void kernels_top_coverage(size_t l, const struct area_rule *rule, float *scores, float *scratch);

/* Keeps the candidate if it belongs to the best k. Shared by all scans. */
void kernels_offer(struct logit_scan *scan, int32_t id, float logit);

extern const struct kernels kernels_scalar;
extern const struct kernels kernels_sse2, kernels_avx2, kernels_avx512;

#endif
