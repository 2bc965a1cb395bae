#include "kernels/areas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Integral images ------------------------------------------------------------------------- */

static size_t block_start(size_t i)
{
    return i / AREA_BLOCK * AREA_BLOCK;
}

static void add_to(size_t d, const float *x, float *sum)
{
    for (size_t c = 0; c < d; c++)
        sum[c] += x[c];
}

/* Sums along the rows, then down the columns. */
void area_integral(const struct area_rule *rule, size_t l, size_t d, const float *x, size_t stride,
                   float *integral)
{
    size_t columns = area_columns(rule, l);
    for (size_t i = 0; i < l; i++) {
        memcpy(integral + i * d, x + i * stride, d * sizeof(*x));
        if (i % columns % AREA_BLOCK > 0)
            add_to(d, integral + (i - 1) * d, integral + i * d);
    }
    for (size_t i = columns; i < l; i++)
        if (i / columns % AREA_BLOCK > 0)
            add_to(d, integral + (i - columns) * d, integral + i * d);
}

/* A rectangle within one block, from (y, x) to (last_y, last_x). */
struct rectangle {
    size_t y, x, last_y, last_x;
};

/* Adds the sum over the rectangle: four corners of the image, those outside of the block zero. */
static void add_rectangle(const struct rectangle *r, size_t columns, size_t d,
                          const float *integral, float *sum)
{
    const float *last = integral + (r->last_y * columns + r->last_x) * d;
    const float *above =
        r->y % AREA_BLOCK > 0 ? integral + ((r->y - 1) * columns + r->last_x) * d : NULL;
    const float *left =
        r->x % AREA_BLOCK > 0 ? integral + (r->last_y * columns + r->x - 1) * d : NULL;
    const float *corner = above && left ? integral + ((r->y - 1) * columns + r->x - 1) * d : NULL;
    for (size_t c = 0; c < d; c++) {
        float added = last[c] + (corner ? corner[c] : 0.0f);
        float taken = (above ? above[c] : 0.0f) + (left ? left[c] : 0.0f);
        sum[c] += added - taken;
    }
}

/* The sum over one area: over its part in every block that it reaches into. */
static void sum_area(const struct area_walk *walk, size_t columns, size_t last, size_t d,
                     const float *integral, float *sum)
{
    size_t last_y = last / columns, first_y = last_y + 1 - (size_t)walk->height;
    size_t last_x = last % columns, first_x = last_x + 1 - (size_t)walk->width;
    memset(sum, 0, d * sizeof(*sum));
    for (size_t y = first_y; y <= last_y; y = block_start(y) + AREA_BLOCK) {
        for (size_t x = first_x; x <= last_x; x = block_start(x) + AREA_BLOCK) {
            struct rectangle part = {y, x, block_start(y) + AREA_BLOCK - 1,
                                     block_start(x) + AREA_BLOCK - 1};
            part.last_y = part.last_y < last_y ? part.last_y : last_y;
            part.last_x = part.last_x < last_x ? part.last_x : last_x;
            add_rectangle(&part, columns, d, integral, sum);
        }
    }
}

void area_sums(const struct area_walk *walk, size_t l, size_t first, size_t end, size_t d,
               const float *integral, float *sums)
{
    size_t columns = area_columns(walk->rule, l);
    for (size_t i = first; i < end; i++) {
        if (area_exists(walk, l, i))
            sum_area(walk, columns, i, d, integral, sums + i * d);
        else
            memset(sums + i * d, 0, d * sizeof(*sums));
    }
}

/* ---- Windows --------------------------------------------------------------------------------- */

static void join(size_t d, bool largest, const float *x, float *window)
{
    for (size_t c = 0; c < d && largest; c++)
        window[c] = x[c] > window[c] ? x[c] : window[c];
    for (size_t c = 0; c < d && !largest; c++)
        window[c] += x[c];
}

void area_extend(const struct area_walk *walk, size_t l, size_t d, const float *x, size_t stride,
                 bool largest, float *columns, float *windows)
{
    size_t n_columns = area_columns(walk->rule, l), left = (size_t)walk->width - 1;
    size_t above = (size_t)(walk->height - 1) * n_columns;
    for (size_t i = 0; i < l; i++) {
        if (walk->height > 1) {
            if (i >= above)
                join(d, largest, columns + (i - above) * d, windows + i * d);
            continue;
        }
        if (left == 0)
            memcpy(columns + i * d, x + i * stride, d * sizeof(*x));
        else if (i % n_columns >= left)
            join(d, largest, x + (i - left) * stride, columns + i * d);
        if (windows != columns)
            memcpy(windows + i * d, columns + i * d, d * sizeof(*x));
    }
}

void area_mean_logits(const struct area_rule *rule, size_t l, float *planes, float *scratch)
{
    size_t lp = kernel_padded(l);
    float *columns = scratch, *windows = scratch + lp;
    struct area_walk walk = {.rule = rule};
    while (area_next(&walk)) {
        float share = 1.0f / (float)(walk.width * walk.height);
        area_extend(&walk, l, 1, planes, 1, false, columns, windows);
        for (size_t i = 0; i < l && walk.plane > 0; i++)
            planes[walk.plane * lp + i] = windows[i] * share;
    }
}

/* ---- Weights --------------------------------------------------------------------------------- */

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Keeps the weights that are at least the k-th; as the authors' code, all of equal ones. */
static void keep_top(size_t n, int k, float *weights, float *sorted)
{
    if (k == 0 || (size_t)k >= n)
        return;
    memcpy(sorted, weights, n * sizeof(*weights));
    qsort(sorted, n, sizeof(*sorted), descending);
    for (size_t i = 0; i < n; i++)
        if (weights[i] < sorted[k - 1])
            weights[i] = 0.0f;
}

/* Any factor that is the same for all areas will do: exp(-maximum), where nothing overflows so. */
static float weigh(const struct area_rule *rule, float logit, float maximum)
{
    if (!rule->sigmoid)
        return expf(logit - maximum);
    return maximum < 0.0f ? expf(logit - maximum) / (1.0f + expf(logit))
                          : 1.0f / (1.0f + expf(-logit));
}

/* The logits of the areas that count, one after the other; returns how many. */
static size_t gather(const struct area_rule *rule, size_t l, size_t seen, const float *planes,
                     float *logits)
{
    size_t n = 0, lp = kernel_padded(l);
    struct area_walk walk = {.rule = rule};
    while (area_next(&walk))
        for (size_t i = 0; i < seen; i++)
            if (area_exists(&walk, l, i))
                logits[n++] = planes[walk.plane * lp + i];
    return n;
}

static void scatter(const struct area_rule *rule, size_t l, size_t seen, const float *weights,
                    float scale, float *planes)
{
    size_t n = 0, lp = kernel_padded(l);
    struct area_walk walk = {.rule = rule};
    memset(planes, 0, area_planes(rule) * lp * sizeof(*planes));
    while (area_next(&walk))
        for (size_t i = 0; i < seen; i++)
            if (area_exists(&walk, l, i))
                planes[walk.plane * lp + i] = weights[n++] * scale;
}

void area_weights(const struct area_rule *rule, size_t l, size_t seen, float *planes,
                  float *scratch)
{
    size_t n = gather(rule, l, seen, planes, scratch);
    float maximum = -INFINITY;
    double total = 0.0;
    for (size_t i = 0; i < n; i++)
        maximum = scratch[i] > maximum ? scratch[i] : maximum;
    for (size_t i = 0; i < n; i++)
        scratch[i] = weigh(rule, scratch[i], maximum);
    keep_top(n, rule->top_k, scratch, scratch + n);
    for (size_t i = 0; i < n; i++)
        total += (double)scratch[i];
    scatter(rule, l, seen, scratch, (float)(1.0 / total), planes);
}

void area_coverage_of(const struct area_rule *rule, size_t l, const float *planes, float *coverage)
{
    size_t lp = kernel_padded(l), columns = area_columns(rule, l);
    struct area_walk walk = {.rule = rule};
    memset(coverage, 0, lp * sizeof(*coverage));
    while (area_next(&walk)) {
        const float *plane = planes + walk.plane * lp;
        float share = 1.0f / (float)(walk.width * walk.height);
        if (rule->value != AREA_VALUE_MEAN)
            share = 1.0f;
        for (size_t i = 0; i < l; i++)
            for (int row = 0; row < walk.height && plane[i] != 0.0f; row++)
                for (int column = 0; column < walk.width; column++)
                    coverage[i - (size_t)row * columns - (size_t)column] += plane[i] * share;
    }
}
