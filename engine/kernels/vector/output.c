/* The scan of the output layer's logits. */
#include "kernels/vector/isa.h"
#include "kernels/vector/vector.h"

#include <math.h>

/* What a logit must exceed; ids rise, so that of equal ones the first is kept. */
ALWAYS_INLINE float threshold(const struct logit_scan *scan)
{
    return scan->n == scan->k ? scan->best[scan->k - 1].logit : -INFINITY;
}

static void offer_above(size_t n, int32_t first_id, const float *logits, struct logit_scan *scan)
{
    float least = threshold(scan);
    for (size_t i = 0; i < n; i += LANES) {
        uint32_t lanes = true_lanes(load(logits + i) > least);
        for (; lanes != 0; lanes &= lanes - 1) {
            size_t c = i + (size_t)__builtin_ctz(lanes);
            if (logits[c] > least) {
                kernels_offer(scan, first_id + (int32_t)c, logits[c]);
                least = threshold(scan);
            }
        }
    }
}

void ISA(scan_logits)(size_t n, int32_t first_id, float *logits, struct logit_scan *scan)
{
    for (size_t i = n; i < kernel_padded(n); i++)
        logits[i] = -INFINITY;
    float maximum = row_maximum(n, logits);
    if (maximum < scan->maximum)
        maximum = scan->maximum;
    if (maximum == -INFINITY)
        return;
    vf sum = splat(0.0f);
    vi none = {0}; /* as float: 0, or NaN where a logit is NaN */
    for (size_t i = 0; i < n; i += LANES) {
        vf x = load(logits + i);
        sum += vexp_part(x - maximum);
        none |= x != x;
    }
    scan->sum = scan->sum * expf(scan->maximum - maximum) + lane_sum(sum) + lane_sum((vf)none);
    scan->maximum = maximum;
    offer_above(n, first_id, logits, scan);
}
