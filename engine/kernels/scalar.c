/* The oracle: every kernel as the loop its equation says. Also what ACRE_CPU=scalar runs. */
#include "kernels/areas.h"

#include <math.h>
#include <string.h>

static float activate(enum activation activation, float x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return x > 0.0f ? x : 0.0f;
    case ACTIVATION_SWISH:
        return x / (1.0f + expf(-x));
    case ACTIVATION_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ACTIVATION_NONE:
        break;
    }
    return x;
}

/* Rows of x: floats, floats that are bfloat16 numbers, or signed bytes. */
static size_t row_bytes(enum compute_type type, size_t k)
{
    return type == COMPUTE_INT8 ? k : k * sizeof(float);
}

static float quantize_row(size_t k, const float *x, int8_t *row)
{
    float largest = 0.0f;
    for (size_t i = 0; i < k; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (size_t i = 0; i < k; i++)
        row[i] = (int8_t)rintf(x[i] * inverse);
    return largest / 127.0f;
}

static float float_of_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static void pack_rows(enum compute_type type, size_t m, size_t k, const float *x, size_t x_stride,
                      void *rows, float *scales)
{
    for (size_t row = 0; row < m; row++, x += x_stride) {
        float *out = (float *)rows + row * k;
        if (type == COMPUTE_INT8)
            scales[row] = quantize_row(k, x, (int8_t *)rows + row * k);
        for (size_t i = 0; i < k && type != COMPUTE_INT8; i++)
            out[i] = type == COMPUTE_BF16 ? float_of_bf16(kernels_bf16(x[i])) : x[i];
    }
}

/* W[column, i] as it is packed. */
static float number_of(const struct packed *w, size_t column, size_t i)
{
    size_t group = kernel_group(w->type), lane = column % KERNEL_PANEL;
    const void *panel =
        (const char *)w->panels + column / KERNEL_PANEL * kernel_panel_bytes(w->type, w->k);
    size_t place = (i / group * KERNEL_PANEL + lane) * group + i % group;
    if (w->type == COMPUTE_F32)
        return ((const float *)panel)[place];
    if (w->type == COMPUTE_INT8)
        return ((const int8_t *)panel)[place];
    return float_of_bf16(((const uint16_t *)panel)[place]);
}

static float sum_of(const struct product *p, size_t row, size_t column)
{
    const void *x = (const char *)p->x + row * p->x_stride;
    float sum = p->w.bias ? p->w.bias[column] : 0.0f;
    if (p->w.type == COMPUTE_INT8) {
        int32_t exact = 0;
        for (size_t i = 0; i < p->w.k; i++)
            exact += ((const int8_t *)x)[i] * (int32_t)number_of(&p->w, column, i);
        return sum + (float)exact * (p->x_scales[row] * p->w.scales[column]);
    }
    for (size_t i = 0; i < p->w.k; i++)
        sum += ((const float *)x)[i] * number_of(&p->w, column, i);
    return sum;
}

static void linear(const struct product *p)
{
    for (size_t row = 0; row < p->m; row++) {
        for (size_t column = 0; column < p->w.n; column++) {
            float sum = activate(p->activation, sum_of(p, row, column));
            if (p->residual)
                sum += p->residual[row * p->residual_stride + column];
            p->y[row * p->y_stride + column] = sum;
        }
    }
}

static void layer_norm(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y)
{
    for (size_t row = 0; row < m; row++, x += c, y += c) {
        double mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < c; i++)
            mean += (double)x[i] / (double)c;
        for (size_t i = 0; i < c; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)c;
        double scale = 1.0 / sqrt(variance + (double)epsilon);
        for (size_t i = 0; i < c; i++)
            y[i] = (float)((x[i] - mean) * scale) * gain[i] + bias[i];
    }
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static void lstm_cell(size_t c, const float *gates, const float *before, float *after,
                      float *hidden)
{
    for (size_t i = 0; i < c; i++) {
        float kept = sigmoid(gates[c + i]) * before[i];
        float cell = kept + sigmoid(gates[i]) * tanhf(gates[2 * c + i]);
        after[i] = cell;
        hidden[i] = sigmoid(gates[3 * c + i]) * tanhf(cell);
    }
}

/* Where number i of a cache row in bf16 is. */
static size_t half_of(size_t i)
{
    size_t word = i / 32 * 16 + i % 16;
    return 2 * word + i / 16 % 2;
}

static void store_row(enum compute_type type, size_t n, const float *x, float *row)
{
    void *memory = row;
    uint16_t *halves = memory;
    for (size_t i = 0; i < n; i++) {
        if (type == COMPUTE_F32)
            row[i] = x[i];
        else
            halves[half_of(i)] = kernels_bf16(x[i]);
    }
}

static float cached(enum compute_type type, const float *row, size_t i)
{
    const void *memory = row;
    const uint16_t *halves = memory;
    return type == COMPUTE_F32 ? row[i] : float_of_bf16(halves[half_of(i)]);
}

static void scores_rows(enum compute_type type, size_t l, size_t n, const float *query,
                        const float *cache, const int32_t *rows, size_t stride, float *out)
{
    for (size_t m = 0; m < l; m++) {
        const float *key = cache + (size_t)rows[m] * stride;
        out[m] = 0.0f;
        for (size_t i = 0; i < n; i++)
            out[m] += query[i] * cached(type, key, i);
    }
}

/* Sections 1 and 2 of the design as they are written: one exponential per area. */
static void area_coverage(size_t l, const struct area_rule *rule, float *row, float *scratch)
{
    float *s = scratch;
    float maximum = row[0];
    for (size_t m = 0; m < l; m++) {
        s[m] = row[m];
        maximum = fmaxf(maximum, s[m]);
    }
    memset(row, 0, kernel_padded(l) * sizeof(*row));
    double total = 0.0;
    for (size_t width = 1; width <= (size_t)rule->width; width++) {
        for (size_t j = 0; j + width <= l; j++) {
            float sum = 0.0f;
            for (size_t m = j; m < j + width; m++)
                sum += s[m] - maximum;
            float p = expf(sum / (float)width);
            total += (double)p;
            for (size_t m = j; m < j + width; m++)
                row[m] += rule->value == AREA_VALUE_MEAN ? p / (float)width : p;
        }
    }
    for (size_t m = 0; m < l; m++)
        row[m] = (float)((double)row[m] / total);
}

static void plane_coverage(size_t l, size_t seen, const struct area_rule *rule, float *planes,
                           float *scratch)
{
    area_weights(rule, l, seen, planes, scratch);
    area_coverage_of(rule, l, planes, scratch);
    memcpy(planes, scratch, kernel_padded(l) * sizeof(*planes));
}

static void area_deviations(size_t n, int count, const struct area_ends *sums,
                            const struct area_ends *squares, float *deviations)
{
    for (size_t i = 0; i < n; i++) {
        float sum = sums->last[i] - (sums->before ? sums->before[i] : 0.0f);
        float square = squares->last[i] - (squares->before ? squares->before[i] : 0.0f);
        float mean = sum / (float)count;
        deviations[i] = sqrtf(fabsf(square / (float)count - mean * mean) + AREA_EPSILON);
    }
}

static void area_hidden(size_t m, size_t d, float share, const float *windows,
                        const float *constants, float *hidden)
{
    for (size_t i = 0; i < m * d; i++)
        hidden[i] = fmaxf(0.0f, hidden[i] + share * windows[i] + constants[i % d]);
}

static void context_rows(enum compute_type type, size_t l, size_t n, const float *coverage,
                         const float *cache, const int32_t *rows, size_t stride, float *out)
{
    memset(out, 0, n * sizeof(*out));
    for (size_t m = 0; m < l; m++)
        for (size_t i = 0; i < n; i++)
            out[i] += coverage[m] * cached(type, cache + (size_t)rows[m] * stride, i);
}

static void scan_logits(size_t n, int32_t first_id, float *logits, struct logit_scan *scan)
{
    float maximum = scan->maximum;
    for (size_t i = 0; i < n; i++)
        maximum = fmaxf(maximum, logits[i]);
    if (maximum == -INFINITY)
        return;
    scan->sum *= expf(scan->maximum - maximum);
    scan->maximum = maximum;
    for (size_t i = 0; i < n; i++) {
        scan->sum += expf(logits[i] - maximum);
        if (logits[i] > -INFINITY)
            kernels_offer(scan, first_id + (int32_t)i, logits[i]);
    }
}

const struct kernels kernels_scalar = {
    .name = "scalar",
    .row_bytes = row_bytes,
    .pack_rows = pack_rows,
    .linear = linear,
    .layer_norm = layer_norm,
    .lstm_cell = lstm_cell,
    .store_row = store_row,
    .scores_rows = scores_rows,
    .area_coverage = area_coverage,
    .plane_coverage = plane_coverage,
    .area_deviations = area_deviations,
    .area_hidden = area_hidden,
    .context_rows = context_rows,
    .scan_logits = scan_logits,
};
