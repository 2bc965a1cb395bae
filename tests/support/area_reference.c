#include "area_reference.h"

#include <math.h>
#include <string.h>

size_t area_reference_count(size_t L, int A)
{
    size_t n = 0;
    for (size_t w = 1; w <= (size_t)A && w <= L; w++)
        n += L - w + 1;
    return n;
}

static double dot_mean(const float *q, const float *k, size_t j, size_t w, size_t d)
{
    double sum = 0;
    for (size_t i = j; i < j + w; i++)
        for (size_t c = 0; c < d; c++)
            sum += (double)q[c] * (double)k[i * d + c];
    return sum / (double)w;
}

static bool is_allowed(const bool *allowed, size_t j, size_t w)
{
    for (size_t i = j; allowed && i < j + w; i++)
        if (!allowed[i])
            return false;
    return true;
}

/* Two passes, the first for the largest logit, so that no storage is needed. */
void area_reference(const float *q, const float *k, const float *v, const bool *allowed, size_t L,
                    size_t d, int A, bool mean_value, double *out, double *weights)
{
    double scale = 1 / sqrt((double)d), top = -INFINITY, total = 0;
    for (size_t w = 1; w <= (size_t)A && w <= L; w++)
        for (size_t j = 0; j + w <= L; j++)
            if (is_allowed(allowed, j, w))
                top = fmax(top, scale * dot_mean(q, k, j, w, d));

    memset(out, 0, d * sizeof *out);
    size_t area = 0;
    for (size_t w = 1; w <= (size_t)A && w <= L; w++) {
        for (size_t j = 0; j + w <= L; j++, area++) {
            double p = 0;
            if (is_allowed(allowed, j, w))
                p = exp(scale * dot_mean(q, k, j, w, d) - top);
            total += p;
            if (weights)
                weights[area] = p;
            for (size_t i = j; i < j + w; i++)
                for (size_t c = 0; c < d; c++)
                    out[c] += p * (double)v[i * d + c] / (mean_value ? (double)w : 1.0);
        }
    }
    if (total <= 0)
        return;
    for (size_t c = 0; c < d; c++)
        out[c] /= total;
    for (size_t i = 0; weights && i < area; i++)
        weights[i] /= total;
}
