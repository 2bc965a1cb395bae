#include "area_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t at_least_one(int n)
{
    return n > 1 ? (size_t)n : 1;
}

size_t area_reference_places(const struct area_rule *rule, size_t l, struct area_place *places)
{
    size_t rows = at_least_one(rule->memory_height), columns = l / rows, n = 0;
    for (size_t h = 1; h <= at_least_one(rule->height) && h <= rows; h++)
        for (size_t w = 1; w <= (size_t)rule->width && w <= columns; w++)
            for (size_t y = 0; y + h <= rows; y++)
                for (size_t x = 0; x + w <= columns; x++, n++)
                    if (places)
                        places[n] = (struct area_place){y * columns + x, h, w, columns};
    return n;
}

/* ---- Keys and values ------------------------------------------------------------------------- */

struct area_features area_reference_features(const struct area_place *place, const float *x,
                                             size_t stride)
{
    double sum = 0, squares = 0, maximum = -INFINITY;
    double n = (double)(place->height * place->width);
    for (size_t row = 0; row < place->height; row++) {
        for (size_t column = 0; column < place->width; column++) {
            double item = (double)x[(place->first + row * place->columns + column) * stride];
            sum += item;
            squares += item * item;
            maximum = fmax(maximum, item);
        }
    }
    double mean = sum / n, variance = fabs(squares / n - mean * mean);
    return (struct area_features){sum, mean, sqrt(variance + 1e-6), maximum};
}

static bool adds_up(const struct area_reference *reference)
{
    return reference->key == AREA_KEY_SUM || reference->key == AREA_KEY_SAMPLE_SUM;
}

static bool has_deviation(const struct area_reference *reference)
{
    return reference->key == AREA_KEY_CONCAT || reference->key == AREA_KEY_SUM;
}

size_t area_reference_inputs(const struct area_reference *reference)
{
    size_t d = reference->d;
    if (reference->key == AREA_KEY_MEAN || reference->key == AREA_KEY_MAX)
        return 0;
    if (adds_up(reference))
        return d;
    return d + (has_deviation(reference) ? d : 0) + d / 2 * 2;
}

/* The embeddings of height and width, one after the other, and what remains of d is zero. */
static double embedding_of(const struct area_reference *reference, const struct area_place *place,
                           size_t c)
{
    size_t half = reference->d / 2;
    if (c < half)
        return (double)reference->height_embedding[(place->height - 1) * half + c];
    if (c < 2 * half)
        return (double)reference->width_embedding[(place->width - 1) * half + c - half];
    return 0;
}

/* What the dense layers read; of keys without them, the key itself. */
static void fill_inputs(const struct area_reference *reference, const struct area_place *place,
                        const float *k, double *inputs)
{
    size_t d = reference->d, n = has_deviation(reference) ? 2 * d : d;
    bool largest = reference->key == AREA_KEY_MAX || reference->key == AREA_KEY_MAX_CONCAT;
    for (size_t c = 0; c < d; c++) {
        struct area_features features = area_reference_features(place, k + c, d);
        inputs[c] = largest ? features.maximum : features.mean;
        if (adds_up(reference))
            inputs[c] += embedding_of(reference, place, c);
        if (reference->key == AREA_KEY_SUM)
            inputs[c] += features.deviation;
        if (reference->key == AREA_KEY_CONCAT)
            inputs[d + c] = features.deviation;
    }
    for (size_t c = n; c < area_reference_inputs(reference); c++)
        inputs[c] = embedding_of(reference, place, c - n);
}

/* y[n] = W[n, k] x + bias. */
static void dense(size_t n, size_t k, const float *w, const float *bias, const double *x, double *y)
{
    for (size_t row = 0; row < n; row++) {
        y[row] = (double)bias[row];
        for (size_t i = 0; i < k; i++)
            y[row] += (double)w[row * k + i] * x[i];
    }
}

/* scratch: 4 * d. */
static void fill_key(const struct area_reference *reference, const struct area_place *place,
                     const float *k, double *scratch, double *key)
{
    size_t d = reference->d, n_inputs = area_reference_inputs(reference);
    double *inputs = scratch, *hidden = scratch + 3 * d;
    fill_inputs(reference, place, k, inputs);
    if (n_inputs == 0) {
        memcpy(key, inputs, d * sizeof(*key));
        return;
    }
    dense(d, n_inputs, reference->fc1_weight, reference->fc1_bias, inputs, hidden);
    for (size_t c = 0; c < d; c++)
        hidden[c] = fmax(hidden[c], 0);
    dense(d, d, reference->fc2_weight, reference->fc2_bias, hidden, key);
}

static void fill_value(const struct area_reference *reference, const struct area_place *place,
                       const float *v, double *value)
{
    for (size_t c = 0; c < reference->d; c++) {
        struct area_features features = area_reference_features(place, v + c, reference->d);
        value[c] = reference->rule.value == AREA_VALUE_SUM    ? features.sum
                   : reference->rule.value == AREA_VALUE_MEAN ? features.mean
                                                              : features.maximum;
    }
}

struct area_memory area_reference_open(const struct area_reference *reference, size_t l,
                                       const float *k, const float *v)
{
    size_t n = area_reference_places(&reference->rule, l, NULL), d = reference->d;
    struct area_memory memory = {.rule = reference->rule, .n = n, .d = d};
    double *scratch = malloc(4 * d * sizeof(*scratch));
    memory.places = malloc(n * sizeof(*memory.places));
    memory.keys = malloc(n * d * sizeof(*memory.keys));
    memory.values = malloc(n * d * sizeof(*memory.values));
    area_reference_places(&reference->rule, l, memory.places);
    for (size_t i = 0; i < n; i++) {
        fill_key(reference, &memory.places[i], k, scratch, memory.keys + i * d);
        fill_value(reference, &memory.places[i], v, memory.values + i * d);
    }
    free(scratch);
    return memory;
}

void area_reference_close(struct area_memory *memory)
{
    free(memory->places), free(memory->keys), free(memory->values);
}

/* ---- Weights --------------------------------------------------------------------------------- */

static bool is_allowed(const struct area_place *place, const bool *allowed)
{
    for (size_t row = 0; allowed && row < place->height; row++)
        for (size_t column = 0; column < place->width; column++)
            if (!allowed[place->first + row * place->columns + column])
                return false;
    return true;
}

static void divide_by_sum(size_t n, double *weights)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += weights[i];
    for (size_t i = 0; i < n && total > 0; i++)
        weights[i] /= total;
}

/* The weights of all areas, as if there were no top_k. */
static void weigh(const struct area_memory *memory, const float *q, const bool *allowed,
                  double *weights)
{
    double top = -INFINITY;
    for (size_t i = 0; i < memory->n; i++) {
        double logit = 0;
        for (size_t c = 0; c < memory->d; c++)
            logit += (double)q[c] * memory->keys[i * memory->d + c];
        weights[i] = is_allowed(&memory->places[i], allowed) ? logit : -INFINITY;
        top = fmax(top, weights[i]);
    }
    for (size_t i = 0; i < memory->n; i++) {
        if (weights[i] == -INFINITY)
            weights[i] = 0;
        else
            weights[i] = memory->rule.sigmoid ? 1 / (1 + exp(-weights[i])) : exp(weights[i] - top);
    }
    divide_by_sum(memory->n, weights);
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The k-th largest weight; k counts from 1 to n. */
static double kth(const struct area_memory *memory, const double *weights, size_t k)
{
    double *sorted = malloc(memory->n * sizeof(*sorted));
    memcpy(sorted, weights, memory->n * sizeof(*sorted));
    qsort(sorted, memory->n, sizeof(*sorted), descending);
    double weight = sorted[k - 1];
    free(sorted);
    return weight;
}

static bool drops_areas(const struct area_memory *memory)
{
    return memory->rule.top_k > 0 && (size_t)memory->rule.top_k < memory->n;
}

static void keep_top(const struct area_memory *memory, double *weights)
{
    if (!drops_areas(memory))
        return;
    double least = kth(memory, weights, (size_t)memory->rule.top_k);
    for (size_t i = 0; i < memory->n; i++)
        weights[i] = weights[i] >= least ? weights[i] : 0;
    divide_by_sum(memory->n, weights);
}

void area_reference_attend(const struct area_memory *memory, const float *q, const bool *allowed,
                           double *out, double *weights)
{
    double *all = malloc(memory->n * sizeof(*all));
    weigh(memory, q, allowed, all);
    keep_top(memory, all);
    memset(out, 0, memory->d * sizeof(*out));
    for (size_t i = 0; i < memory->n; i++)
        for (size_t c = 0; c < memory->d; c++)
            out[c] += all[i] * memory->values[i * memory->d + c];
    if (weights)
        memcpy(weights, all, memory->n * sizeof(*weights));
    free(all);
}

double area_reference_margin(const struct area_memory *memory, const float *q, const bool *allowed)
{
    double margin = 1;
    if (!drops_areas(memory))
        return margin;
    double *weights = malloc(memory->n * sizeof(*weights));
    weigh(memory, q, allowed, weights);
    double kept = kth(memory, weights, (size_t)memory->rule.top_k);
    double dropped = kth(memory, weights, (size_t)memory->rule.top_k + 1);
    if (kept > 0)
        margin = (kept - dropped) / kept;
    free(weights);
    return margin;
}
