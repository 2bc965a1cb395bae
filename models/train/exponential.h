/* The exponential of a softmax, whose largest is that of 0; vectorised by compilers. */
#ifndef EXPONENTIAL_H
#define EXPONENTIAL_H

#include <stdint.h>

static const float lowest = -60.0f;

/* e^x for lowest <= x <= 0, zero at the lowest: 2^n times a Taylor series of 2^f, |f| <= 1/2. */
static inline float exponential(float x)
{
    float y = x * 1.44269504f;
    int32_t n = (int32_t)(y - 0.5f);
    float f = (y - (float)n) * 0.69314718f;
    float series = f * (1.0f / 720) + 1.0f / 120;
    series = series * f + 1.0f / 24;
    series = series * f + 1.0f / 6;
    series = series * f + 0.5f;
    series = series * f + 1;
    series = series * f + 1;
    int32_t mask = -(x > lowest); /* compilers would make a branch of a choice between values */
    union {
        int32_t bits;
        float value;
    } power = {((n + 127) << 23) & mask};
    return series * power.value;
}

#endif
