/* Attention of single queries over scattered caches, and the coverage of area attention. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

/* Rows of a cache lie anywhere in it, so the processor must be told what comes next. */
enum { ROWS_AHEAD = 4, LINE_FLOATS = 16, KEYS_AT_ONCE = 4 };

ALWAYS_INLINE void prefetch_row(enum compute_type type, size_t n, const float *row)
{
    for (size_t i = 0; i < kernel_cache_floats(type, n); i += LINE_FLOATS)
        __builtin_prefetch(row + i);
}

/* Where a bf16 row has numbers i ... and, in the upper halves, i + KERNEL_PAD ... */
ALWAYS_INLINE size_t word_of(size_t i)
{
    return i / (2 * KERNEL_PAD) * KERNEL_PAD + i % (2 * KERNEL_PAD);
}

ALWAYS_INLINE vf lower_numbers(vf words)
{
    return (vf)((vi)words << 16);
}

ALWAYS_INLINE vf upper_numbers(vf words)
{
    return (vf)((vi)words >> 16 << 16);
}

void ISA(store_row)(enum compute_type type, size_t n, const float *x, float *row)
{
    if (type == COMPUTE_F32) {
        memcpy(row, x, n * sizeof(*x));
        return;
    }
    for (size_t block = 0; block < n; block += 2 * KERNEL_PAD) {
        for (size_t i = block; i < block + KERNEL_PAD; i += LANES) {
            vi lower = to_bf16(load(x + i)) >> 16 & 0xffff;
            vi upper = to_bf16(load(x + i + KERNEL_PAD)) >> 16 << 16;
            store(row + word_of(i), (vf)(lower | upper));
        }
    }
}

ALWAYS_INLINE vf products_f32(size_t n, const float *query, const float *key)
{
    vf sum = splat(0.0f);
    for (size_t i = 0; i < n; i += LANES)
        sum += load(query + i) * load(key + i);
    return sum;
}

ALWAYS_INLINE vf products_bf16(size_t n, const float *query, const float *key)
{
    vf sum = splat(0.0f);
    for (size_t block = 0; block < n; block += 2 * KERNEL_PAD) {
        for (size_t i = block; i < block + KERNEL_PAD; i += LANES) {
            vf words = load(key + word_of(i));
            sum += load(query + i) * lower_numbers(words);
            sum += load(query + i + KERNEL_PAD) * upper_numbers(words);
        }
    }
    return sum;
}

ALWAYS_INLINE vf products(enum compute_type type, size_t n, const float *query, const float *key)
{
    return type == COMPUTE_F32 ? products_f32(n, query, key) : products_bf16(n, query, key);
}

ALWAYS_INLINE void scores_of(enum compute_type type, size_t l, size_t n, const float *query,
                             const float *cache, const int32_t *rows, size_t stride, float *scores)
{
    size_t m = 0;
    for (; m + KEYS_AT_ONCE <= l; m += KEYS_AT_ONCE) {
        vf sums[KEYS_AT_ONCE];
        for (size_t i = 0; i < KEYS_AT_ONCE; i++) {
            if (m + i + ROWS_AHEAD < l)
                prefetch_row(type, n, cache + (size_t)rows[m + i + ROWS_AHEAD] * stride);
            sums[i] = products(type, n, query, cache + (size_t)rows[m + i] * stride);
        }
        lane_sums(sums, scores + m);
    }
    for (; m < l; m++)
        scores[m] = lane_sum(products(type, n, query, cache + (size_t)rows[m] * stride));
}

void ISA(scores_rows)(enum compute_type type, size_t l, size_t n, const float *query,
                      const float *cache, const int32_t *rows, size_t stride, float *scores)
{
    if (type == COMPUTE_F32)
        scores_of(COMPUTE_F32, l, n, query, cache, rows, stride, scores);
    else
        scores_of(COMPUTE_BF16, l, n, query, cache, rows, stride, scores);
}

/* `panels` panels of the output at a time, in registers; a constant at each call, even for bf16. */
ALWAYS_INLINE void context_panels(enum compute_type type, size_t panels, size_t l,
                                  const float *coverage, const float *cache, const int32_t *rows,
                                  size_t stride, float *out)
{
    enum { PAIR = 2 * PANEL_VECTORS };
    const size_t vectors = panels * PANEL_VECTORS;
    vf sum[4 * PANEL_VECTORS];
    for (size_t v = 0; v < vectors; v++)
        sum[v] = splat(0.0f);
    for (size_t m = 0; m < l; m++) {
        const float *value = cache + (size_t)rows[m] * stride;
        if (m + ROWS_AHEAD < l)
            prefetch_row(type, panels * KERNEL_PAD, cache + (size_t)rows[m + ROWS_AHEAD] * stride);
        for (size_t v = 0; v < vectors && type == COMPUTE_F32; v++)
            sum[v] += splat(coverage[m]) * load(value + v * LANES);
        for (size_t v = 0; v < vectors / 2 && type == COMPUTE_BF16; v++) {
            vf words = load(value + v * LANES);
            size_t at = v / PANEL_VECTORS * PAIR + v % PANEL_VECTORS;
            sum[at] += splat(coverage[m]) * lower_numbers(words);
            sum[at + PANEL_VECTORS] += splat(coverage[m]) * upper_numbers(words);
        }
    }
    for (size_t v = 0; v < vectors; v++)
        store(out + v * LANES, sum[v]);
}

ALWAYS_INLINE void context_of(enum compute_type type, size_t l, size_t n, const float *coverage,
                              const float *cache, const int32_t *rows, size_t stride, float *out)
{
    const size_t wide = VECTOR_BYTES == 16 ? 2 : 4, narrow = type == COMPUTE_F32 ? 1 : 2;
    size_t i = 0;
    for (; i + wide * KERNEL_PAD <= n; i += wide * KERNEL_PAD)
        context_panels(type, wide, l, coverage, cache + kernel_cache_floats(type, i), rows, stride,
                       out + i);
    for (; i < n; i += narrow * KERNEL_PAD)
        context_panels(type, narrow, l, coverage, cache + kernel_cache_floats(type, i), rows,
                       stride, out + i);
}

void ISA(context_rows)(enum compute_type type, size_t l, size_t n, const float *coverage,
                       const float *cache, const int32_t *rows, size_t stride, float *out)
{
    if (type == COMPUTE_F32)
        context_of(COMPUTE_F32, l, n, coverage, cache, rows, stride, out);
    else
        context_of(COMPUTE_BF16, l, n, coverage, cache, rows, stride, out);
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

/* power[w - 1] of LANES items from m on: exp((s - maximum) / w), zero from L on. */
ALWAYS_INLINE void item_powers(int a, size_t l, size_t m, const float *scores, float maximum,
                               vf power[5])
{
    static const float lcm[] = {1, 1, 2, 6, 12, 60};
    vf y = splat(0.0f);
    if (m < l)
        y = below(m, l, vexp((load(scores + m) - maximum) * (1.0f / lcm[a])));
    root_powers(a, y, power);
}

/* Of the areas that begin at LANES items, whose powers are `here`, those of the next items `next`:
 * from_width[t] is the sum of the areas wider than t. Returns the sum of all, each once. */
ALWAYS_INLINE vf areas_from(int a, bool mean_value, const vf here[5], const vf next[5],
                            vf from_width[5])
{
    vf sum = splat(0.0f), wider = splat(0.0f);
#pragma GCC unroll 5
    for (int width = a; width >= 1; width--) {
        vf area = here[width - 1];
#pragma GCC unroll 5
        for (int i = 1; i < width; i++)
            area *= ahead(here[width - 1], next[width - 1], i);
        sum += area;
        wider += mean_value ? area * (1.0f / (float)width) : area;
        from_width[width - 1] = wider;
    }
    return sum;
}

/* Item m is in the areas from m - t on that are wider than t. All in registers, LANES items at a
 * time; shares are divided by their sum at the end. */
ALWAYS_INLINE void cover(int a, size_t l, bool mean_value, float *scores)
{
    const float maximum = row_maximum(l, scores);
    const size_t lp = kernel_padded(l);
    vf here[5], next[5], before[5], from_width[5], total = splat(0.0f);
    for (int t = 0; t < a; t++)
        before[t] = splat(0.0f);
    item_powers(a, l, 0, scores, maximum, here);
    for (size_t m = 0; m < lp; m += LANES) {
        item_powers(a, l, m + LANES, scores, maximum, next);
        total += areas_from(a, mean_value, here, next, from_width);
        vf share = from_width[0];
#pragma GCC unroll 5
        for (int t = 1; t < a; t++)
            share += ahead(before[t], from_width[t], LANES - t);
        store(scores + m, share);
#pragma GCC unroll 5
        for (int t = 0; t < a; t++)
            here[t] = next[t], before[t] = from_width[t];
    }
    const float scale = 1.0f / lane_sum(total);
    for (size_t m = 0; m < lp; m += LANES)
        store(scores + m, load(scores + m) * scale);
}

/* What the wide areas of one row need: sum[w-1][j] = the sum of the w scores from j on;
 * from_width[t] has KERNEL_PAD zeros in front. Each array is Lp + KERNEL_PAD floats long. */
struct area_row {
    size_t l, lp;
    int a;
    float *sum, *from_width;
};

ALWAYS_INLINE float *area_array(const struct area_row *row, float *arrays, int i)
{
    return arrays + (size_t)i * (row->lp + KERNEL_PAD);
}

/* Wider than the chains go: one exponential per area, of a running sum of scores. */
static float fill_wide_areas(const struct area_row *row, const float *scores, float maximum,
                             bool mean_value)
{
    for (size_t j = 0; j < row->l; j++) {
        float running = 0.0f;
        for (int w = 0; w < row->a; w++) {
            running += j + (size_t)w < row->l ? scores[j + (size_t)w] - maximum : 0.0f;
            area_array(row, row->sum, w)[j] = running;
        }
    }
    vf total = splat(0.0f);
    for (int t = 0; t < row->a; t++)
        memset(area_array(row, row->from_width, t), 0, KERNEL_PAD * sizeof(float));
    for (size_t j = 0; j < row->lp; j += LANES) {
        vf wider = splat(0.0f);
        for (int width = row->a; width >= 1; width--) {
            size_t begins = row->l + 1 > (size_t)width ? row->l + 1 - (size_t)width : 0;
            vf mean = load(area_array(row, row->sum, width - 1) + j) * (1.0f / (float)width);
            vf area = below(j, begins, vexp(mean));
            total += area;
            wider += mean_value ? area * (1.0f / (float)width) : area;
            store(area_array(row, row->from_width, width - 1) + KERNEL_PAD + j, wider);
        }
    }
    return lane_sum(total);
}

static void spread(const struct area_row *row, float total, float *coverage)
{
    float scale = 1.0f / total;
    for (size_t m = 0; m < row->lp; m += LANES) {
        vf sum = splat(0.0f);
        for (int t = 0; t < row->a; t++)
            sum += load(area_array(row, row->from_width, t) + KERNEL_PAD + m - t);
        store(coverage + m, below(m, row->l, sum * scale));
    }
}

static void cover_wide(const struct area_rule *rule, size_t l, float *scores, float *scratch)
{
    struct area_row row = {.l = l, .lp = kernel_padded(l), .a = rule->width, .sum = scratch};
    row.from_width = area_array(&row, scratch, MAX_AREA_WIDTH);
    spread(&row,
           fill_wide_areas(&row, scores, row_maximum(l, scores), rule->value == AREA_VALUE_MEAN),
           scores);
}

/* The exponentials of one plane's logits, from an area's last item `first` on; zero elsewhere. */
ALWAYS_INLINE vf weigh_plane(size_t lp, size_t first, size_t seen, float maximum, float *plane)
{
    vf total = splat(0.0f);
    for (size_t i = 0; i < lp; i += LANES) {
        vi there = lanes_below(i, seen) & ~lanes_below(i, first);
        vf weights = (vf)((vi)vexp(load(plane + i) - maximum) & there);
        store(plane + i, weights);
        total += weights;
    }
    return total;
}

/* Of weights in planes: an item is in the areas wider than t that end t items after it. */
ALWAYS_INLINE void cover_planes(size_t lp, int a, bool mean_value, float scale, float *planes)
{
    for (size_t m = 0; m < lp; m += LANES) {
        vf wider = splat(0.0f);
        for (int t = a - 1; t >= 0; t--) {
            float *plane = planes + (size_t)t * lp + m;
            wider += load(plane) * (mean_value ? scale / (float)(t + 1) : scale);
            store(plane, wider);
        }
    }
    for (size_t m = 0; m < lp; m += LANES) {
        vf share = load(planes + m);
        for (size_t t = 1; t < (size_t)a; t++)
            share += below(m + t, lp, load(planes + t * lp + m + t));
        store(planes + m, share);
    }
}

void ISA(plane_coverage)(size_t l, size_t seen, const struct area_rule *rule, float *planes,
                         float *scratch)
{
    (void)scratch;
    const size_t lp = kernel_padded(l);
    float maximum = -INFINITY;
    vf total = splat(0.0f);
    for (size_t t = 0; t < (size_t)rule->width && t < seen; t++) {
        float most = row_maximum(seen - t, planes + t * lp + t);
        maximum = most > maximum ? most : maximum;
    }
    for (size_t t = 0; t < (size_t)rule->width; t++)
        total += weigh_plane(lp, t, seen, maximum, planes + t * lp);
    cover_planes(lp, rule->width, rule->value == AREA_VALUE_MEAN, 1.0f / lane_sum(total), planes);
}

void ISA(area_coverage)(size_t l, const struct area_rule *rule, float *scores, float *scratch)
{
    const bool mean_value = rule->value == AREA_VALUE_MEAN;
    switch (rule->width) {
#define CASE(width)                                                                                \
    case width:                                                                                    \
        cover(width, l, mean_value, scores);                                                       \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
#undef CASE
    default:
        cover_wide(rule, l, scores, scratch);
        break;
    }
}
