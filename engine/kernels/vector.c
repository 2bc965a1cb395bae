/* The kernels in GCC's vector types, compiled once per instruction set (see the Makefile): the
 * same text is SSE2, AVX2 or AVX-512 code. Equations are in kernels.h, the oracle in scalar.c.
 *
 * Sums run in one order per result element whatever the number of rows: that is what makes a
 * sentence's translation independent of its batch.
 */
#include "kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

enum {
    LANES = VECTOR_BYTES / 4,
    PANEL_VECTORS = KERNEL_PANEL / LANES,
    /* Accumulators of a product tile: what the register file holds besides operands. */
    TILE_VECTORS = VECTOR_BYTES == 64 ? 24 : 12,
    TILE_ROWS = VECTOR_BYTES == 64 ? 12 : TILE_VECTORS / PANEL_VECTORS,
    TILE_PANELS = 4,
};

typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf_unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vf load(const float *p)
{
    return *(const vf_unaligned *)p;
}

ALWAYS_INLINE void store(float *p, vf v)
{
    *(vf_unaligned *)p = v;
}

ALWAYS_INLINE vf splat(float x)
{
    return x - (vf){0};
}

ALWAYS_INLINE vf vmax(vf a, vf b)
{
#if VECTOR_BYTES == 64
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif VECTOR_BYTES == 32
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#endif
}

ALWAYS_INLINE bool any(vi mask)
{
#if VECTOR_BYTES == 64
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif VECTOR_BYTES == 32
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    return _mm_movemask_ps((__m128)mask) != 0;
#endif
}

/* The lanes in a fixed order: halves are folded onto each other. */
ALWAYS_INLINE float lane_sum(vf v)
{
    float lanes[LANES];
    memcpy(lanes, &v, sizeof(v));
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

ALWAYS_INLINE float lane_max(vf v)
{
    float lanes[LANES];
    memcpy(lanes, &v, sizeof(v));
    float maximum = lanes[0];
    for (size_t i = 1; i < LANES; i++)
        maximum = lanes[i] > maximum ? lanes[i] : maximum;
    return maximum;
}

/* exp(x) for x <= 88, relative error below 2e-7; below -87.3 the result is exp(-87.3).
 * x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 6 (Cephes). */
ALWAYS_INLINE vf vexp(vf x)
{
    x = vmax(x, splat(-87.3f));
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vf shifted = x * 1.44269504f + round;
    vf n = shifted - round;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    vf e = p * (r * r) + r + 1.0f;
    vi exponent = ((vi)shifted - (vi)splat(round) + 127) << 23;
    return e * (vf)exponent;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* out[rows, panels * 16] = bias + x · panels. One multiply-add chain along k per element. */
ALWAYS_INLINE void tile(size_t rows, size_t panels, const struct product *p, size_t row,
                        size_t panel, float out[][TILE_PANELS * KERNEL_PANEL])
{
    const float *x = p->x + row * p->x_stride;
    const float *w = p->panels + panel * KERNEL_PANEL * p->k;
    vf sum[TILE_ROWS][TILE_PANELS * PANEL_VECTORS];
#pragma GCC unroll 16
    for (size_t c = 0; c < panels * PANEL_VECTORS; c++) {
        vf start = p->bias ? load(p->bias + panel * KERNEL_PANEL + c * LANES) : splat(0.0f);
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++)
            sum[r][c] = start;
    }
    for (size_t i = 0; i < p->k; i++) {
        vf column[TILE_PANELS * PANEL_VECTORS];
#pragma GCC unroll 16
        for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
            column[c] = load(w + c / PANEL_VECTORS * KERNEL_PANEL * p->k + i * KERNEL_PANEL +
                             c % PANEL_VECTORS * LANES);
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
            for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
                sum[r][c] += splat(x[r * p->x_stride + i]) * column[c];
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t c = 0; c < panels * PANEL_VECTORS; c++)
            store(out[r] + c * LANES, sum[r][c]);
}

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
static void gelu(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

/* Activation, residual and the columns that really exist, for one row of a tile. Not inlined, so
 * that every tile shape rounds alike. */
static __attribute__((noinline)) void finish_row(const struct product *p, size_t row, size_t column,
                                                 size_t n, float *sums)
{
    if (p->activation == KERNEL_GELU)
        gelu(n, sums);
    for (size_t c = 0; c < n; c += LANES)
        store(sums + c, activate(p->activation, load(sums + c)));
    float *y = p->y + row * p->y_stride + column;
    if (!p->residual) {
        memcpy(y, sums, n * sizeof(*y));
        return;
    }
    const float *residual = p->residual + row * p->residual_stride + column;
    for (size_t c = 0; c < n; c++)
        y[c] = sums[c] + residual[c];
}

/* One row block against all panels; `rows` is a constant, so each call site is its own kernel. */
ALWAYS_INLINE void row_block(size_t rows, const struct product *p, size_t row)
{
    float sums[TILE_ROWS][TILE_PANELS * KERNEL_PANEL];
    const size_t fit = TILE_VECTORS / (rows * PANEL_VECTORS);
    const size_t wide = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    size_t n_panels = kernel_padded(p->n) / KERNEL_PANEL;
    for (size_t panel = 0; panel < n_panels;) {
        size_t step = n_panels - panel >= wide ? wide : 1;
        if (step == wide)
            tile(rows, wide, p, row, panel, sums);
        else
            tile(rows, 1, p, row, panel, sums);
        size_t first = panel * KERNEL_PANEL;
        size_t n = p->n - first < step * KERNEL_PANEL ? p->n - first : step * KERNEL_PANEL;
        for (size_t r = 0; r < rows; r++)
            finish_row(p, row + r, first, n, sums[r]);
        panel += step;
    }
}

static void row_blocks(const struct product *p, size_t row, size_t rows)
{
    switch (rows) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        row_block(n <= TILE_ROWS ? n : TILE_ROWS, p, row);                                         \
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

/* Panels in the outer loop: a group of them stays in the first cache while the rows pass. */
static void linear(const struct product *product)
{
    const size_t group = 8 * KERNEL_PANEL;
    for (size_t column = 0; column < product->n; column += group) {
        struct product part = *product;
        part.n = product->n - column < group ? product->n - column : group;
        part.panels += column * product->k;
        part.y += column;
        if (part.bias)
            part.bias += column;
        if (part.residual)
            part.residual += column;
        for (size_t row = 0; row < part.m; row += TILE_ROWS)
            row_blocks(&part, row, part.m - row < TILE_ROWS ? part.m - row : TILE_ROWS);
    }
}

/* ---- Layer norm ------------------------------------------------------------------------------ */

static float sum_row(size_t c, const float *x)
{
    vf sum = splat(0.0f);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES)
        sum += load(x + i);
    float total = lane_sum(sum);
    for (; i < c; i++)
        total += x[i];
    return total;
}

static float sum_squares(size_t c, const float *x, float mean)
{
    vf sum = splat(0.0f);
    size_t i = 0;
    for (; i + LANES <= c; i += LANES) {
        vf d = load(x + i) - mean;
        sum += d * d;
    }
    float total = lane_sum(sum);
    for (; i < c; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

static void layer_norm(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y)
{
    for (size_t row = 0; row < m; row++, x += c, y += c) {
        float mean = sum_row(c, x) / (float)c;
        float scale = 1.0f / sqrtf(sum_squares(c, x, mean) / (float)c + epsilon);
        size_t i = 0;
        for (; i + LANES <= c; i += LANES)
            store(y + i, (load(x + i) - mean) * scale * load(gain + i) + load(bias + i));
        for (; i < c; i++)
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    }
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void scores_rows(size_t l, size_t dp, const float *query, const float *cache,
                        const int32_t *rows, size_t stride, float *scores)
{
    for (size_t m = 0; m < l; m++) {
        const float *key = cache + (size_t)rows[m] * stride;
        vf sum = splat(0.0f);
        for (size_t i = 0; i < dp; i += LANES)
            sum += load(query + i) * load(key + i);
        scores[m] = lane_sum(sum);
    }
}

static void context_rows(size_t l, size_t dp, const float *coverage, const float *cache,
                         const int32_t *rows, size_t stride, float *out)
{
    for (size_t i = 0; i < dp; i += KERNEL_PAD) {
        vf sum[PANEL_VECTORS];
        for (size_t v = 0; v < PANEL_VECTORS; v++)
            sum[v] = splat(0.0f);
        for (size_t m = 0; m < l; m++) {
            const float *value = cache + (size_t)rows[m] * stride + i;
            for (size_t v = 0; v < PANEL_VECTORS; v++)
                sum[v] += splat(coverage[m]) * load(value + v * LANES);
        }
        for (size_t v = 0; v < PANEL_VECTORS; v++)
            store(out + i + v * LANES, sum[v]);
    }
}

/* y^(N/w) for w = 1..a, N = lcm(1..a), by the shortest chains (design, section 3). power[w - 1]. */
ALWAYS_INLINE void root_powers(int a, vf y, vf power[5])
{
    vf y2 = y * y, y3 = y2 * y, y6 = y3 * y3, y12 = y6 * y6, y15 = y12 * y3, y20, y30;
    switch (a) {
    case 1:
        power[0] = y;
        break;
    case 2:
        power[0] = y2, power[1] = y;
        break;
    case 3:
        power[0] = y6, power[1] = y3, power[2] = y2;
        break;
    case 4:
        power[0] = y12, power[1] = y6, power[2] = y2 * y2, power[3] = y3;
        break;
    default:
        y20 = y12 * y6 * y2, y30 = y15 * y15;
        power[0] = y30 * y30, power[1] = y30, power[2] = y20, power[3] = y15, power[4] = y12;
        break;
    }
}

static vf below(size_t first, size_t limit, vf v)
{
    vi lane = {0};
    for (int32_t i = 0; i < LANES; i++)
        lane[i] = (int32_t)first + i;
    return (vf)((vi)v & (lane < (int32_t)limit));
}

/* What the areas of one row need: power[w-1][m] = exp((s_m - max) / w), 0 beyond L; from_width[t]
 * has KERNEL_PAD zeros in front. Each array is Lp + KERNEL_PAD floats long. */
struct area_row {
    size_t l, lp;
    int a;
    float *power, *from_width;
};

ALWAYS_INLINE float *area_array(const struct area_row *row, float *arrays, int i)
{
    return arrays + (size_t)i * (row->lp + KERNEL_PAD);
}

ALWAYS_INLINE void fill_powers(const struct area_row *row, int a, const float *scores,
                               float maximum)
{
    static const float lcm[] = {1, 1, 2, 6, 12, 60};
    for (size_t m = 0; m < row->lp; m += LANES) {
        vf y = below(m, row->l, vexp((load(scores + m) - maximum) * (1.0f / lcm[a])));
        vf power[5];
        root_powers(a, y, power);
        for (int w = 0; w < a; w++)
            store(area_array(row, row->power, w) + m, power[w]);
    }
    for (int w = 0; w < a; w++)
        memset(area_array(row, row->power, w) + row->lp, 0, KERNEL_PAD * sizeof(float));
}

/* from_width[t][j] = sum of the areas that begin at j and are wider than t; returns the sum of
 * all areas, each once. */
ALWAYS_INLINE float fill_areas(const struct area_row *row, int a, bool mean_value)
{
    for (int t = 0; t < a; t++)
        memset(area_array(row, row->from_width, t), 0, KERNEL_PAD * sizeof(float));
    vf total = splat(0.0f);
    for (size_t j = 0; j < row->lp; j += LANES) {
        vf wider = splat(0.0f);
#pragma GCC unroll 5
        for (int width = a; width >= 1; width--) {
            const float *power = area_array(row, row->power, width - 1) + j;
            vf area = load(power);
#pragma GCC unroll 5
            for (int i = 1; i < width; i++)
                area *= load(power + i);
            total += area;
            wider += mean_value ? area * (1.0f / (float)width) : area;
            store(area_array(row, row->from_width, width - 1) + KERNEL_PAD + j, wider);
        }
    }
    return lane_sum(total);
}

/* Wider than the chains go: one exponential per area, of a running sum of scores. */
static float fill_wide_areas(const struct area_row *row, const float *scores, float maximum,
                             bool mean_value)
{
    float *sum = row->power; /* [w][j]: sum of the w scores from j on */
    for (size_t j = 0; j < row->l; j++) {
        float running = 0.0f;
        for (int w = 0; w < row->a; w++) {
            running += j + (size_t)w < row->l ? scores[j + (size_t)w] - maximum : 0.0f;
            area_array(row, sum, w)[j] = running;
        }
    }
    vf total = splat(0.0f);
    for (int t = 0; t < row->a; t++)
        memset(area_array(row, row->from_width, t), 0, KERNEL_PAD * sizeof(float));
    for (size_t j = 0; j < row->lp; j += LANES) {
        vf wider = splat(0.0f);
        for (int width = row->a; width >= 1; width--) {
            size_t begins = row->l + 1 > (size_t)width ? row->l + 1 - (size_t)width : 0;
            vf mean = load(area_array(row, sum, width - 1) + j) * (1.0f / (float)width);
            vf area = below(j, begins, vexp(mean));
            total += area;
            wider += mean_value ? area * (1.0f / (float)width) : area;
            store(area_array(row, row->from_width, width - 1) + KERNEL_PAD + j, wider);
        }
    }
    return lane_sum(total);
}

ALWAYS_INLINE void spread(const struct area_row *row, int a, float total, float *coverage)
{
    float scale = 1.0f / total;
    for (size_t m = 0; m < row->lp; m += LANES) {
        vf sum = splat(0.0f);
        for (int t = 0; t < a; t++)
            sum += load(area_array(row, row->from_width, t) + KERNEL_PAD + m - t);
        store(coverage + m, below(m, row->l, sum * scale));
    }
}

static float row_maximum(size_t l, const float *scores)
{
    vf maximum = splat(scores[0]);
    size_t m = 0;
    for (; m + LANES <= l; m += LANES)
        maximum = vmax(maximum, load(scores + m));
    float most = lane_max(maximum);
    for (; m < l; m++)
        most = scores[m] > most ? scores[m] : most;
    return most;
}

static void area_coverage(size_t l, const struct area_rule *rule, float *scores, float *scratch)
{
    if (rule->top_k > 0) {
        kernels_top_coverage(l, rule, scores, scratch);
        return;
    }
    const int a = rule->width;
    const bool mean_value = rule->mean_value;
    struct area_row row = {.l = l, .lp = kernel_padded(l), .a = a, .power = scratch};
    row.from_width = area_array(&row, scratch, MAX_AREA_WIDTH);
    float maximum = row_maximum(l, scores);
    switch (a) {
#define CASE(width)                                                                                \
    case width:                                                                                    \
        fill_powers(&row, width, scores, maximum);                                                 \
        spread(&row, width, fill_areas(&row, width, mean_value), scores);                          \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
#undef CASE
    default:
        spread(&row, a, fill_wide_areas(&row, scores, maximum, mean_value), scores);
        break;
    }
}

/* ---- Output layer ---------------------------------------------------------------------------- */

static void offer_above(size_t n, int32_t first_id, const float *logits, struct logit_scan *scan)
{
    for (size_t i = 0; i < n; i += LANES) {
        float least = scan->n == scan->k ? scan->best[scan->k - 1].logit : -INFINITY;
        if (!any(load(logits + i) > least))
            continue;
        size_t end = i + LANES < n ? i + LANES : n;
        for (size_t c = i; c < end; c++)
            if (logits[c] > -INFINITY)
                kernels_offer(scan, first_id + (int32_t)c, logits[c]);
    }
}

static void scan_logits(size_t n, int32_t first_id, float *logits, struct logit_scan *scan)
{
    for (size_t i = n; i < kernel_padded(n); i++)
        logits[i] = -INFINITY;
    float maximum = row_maximum(n, logits);
    if (maximum < scan->maximum)
        maximum = scan->maximum;
    if (maximum == -INFINITY)
        return;
    vf sum = splat(0.0f);
    for (size_t i = 0; i < n; i += LANES)
        sum += vexp(load(logits + i) - maximum);
    scan->sum = scan->sum * expf(scan->maximum - maximum) + lane_sum(sum);
    scan->maximum = maximum;
    offer_above(n, first_id, logits, scan);
}

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)

const struct kernels CONCAT(kernels_, ISA_NAME) = {
    .name = STRING(ISA_NAME),
    .linear = linear,
    .layer_norm = layer_norm,
    .scores_rows = scores_rows,
    .area_coverage = area_coverage,
    .context_rows = context_rows,
    .scan_logits = scan_logits,
};

#endif
