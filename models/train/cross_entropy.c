/*
 * The loss of loss.py on a CPU, a row of logits at a time, so that it stays in the cache. Compiled
 * by native.py, called by loss.py alone.
 */
#include "exponential.h"
#include "rows.h"
#include <math.h>
#include <stdlib.h>

/* A row's loss; its logits become their gradient, p - q of loss.py. */
static float row_loss(float *row, int64_t count, int64_t target, float smoothing)
{
    float largest = -INFINITY, sum = 0, total = 0, rest = smoothing / (float)count;
#pragma omp simd reduction(max : largest) reduction(+ : sum)
    for (int64_t j = 0; j < count; j++) {
        largest = row[j] > largest ? row[j] : largest;
        sum += row[j];
    }
    float sought = (1 - smoothing) * row[target] + rest * sum;
    for (int64_t j = 0; j < count; j++) {
        float logit = row[j] - largest;
        row[j] = logit < lowest ? lowest : logit; /* a NaN stays */
    }
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < count; j++) {
        row[j] = exponential(row[j]);
        total += row[j];
    }
    float part = 1 / total;
    for (int64_t j = 0; j < count; j++)
        row[j] = row[j] * part - rest;
    row[target] += smoothing - 1;
    return largest + logf(total) - sought;
}

/*
 * Of logits [rows, count], which become their gradient, the losses [rows] of target [rows]. Logits
 * are bfloat16 or float. Returns whether there was memory.
 */
bool cross_entropy_rows(void *logits, const int64_t *target, float *losses, int64_t rows,
                        int64_t count, float smoothing, bool is_bf16, int threads)
{
    bool has_room = true;
#pragma omp parallel num_threads(threads) reduction(&& : has_room)
    {
        float *row = malloc((size_t)count * sizeof *row);
        has_room = row;
#pragma omp for
        for (int64_t i = 0; i < rows; i++) {
            if (!has_room)
                continue;
            load(row, logits, i * count, count, is_bf16);
            losses[i] = row_loss(row, count, target[i], smoothing);
            store(logits, i * count, row, count, is_bf16);
        }
        free(row);
    }
    return has_room;
}
