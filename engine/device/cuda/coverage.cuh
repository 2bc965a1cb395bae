/* coverage.cuh - from scores to the coverage of items, by the identity of area attention.
 *
 * y = 2^((score - largest) / N) is one exponential for each item, N the least common multiple of
 * 1 ... A. The area of w items that ends at item i weighs the product of their y^(N/w), which a
 * chain of multiplications gives for all w at once; y is 0 where there is no item. An item's
 * coverage is the sum of the weights of the areas that contain it. Wider areas than WIDEST_CHAIN
 * take an exponential each, and in float32 those of 5, too: a GPU's exponential is off by 2 units
 * in the last place, its 60th power would be by 1.4e-5 of itself.
 */
#ifndef DEVICE_CUDA_COVERAGE_CUH
#define DEVICE_CUDA_COVERAGE_CUH

#include "device/cuda/gpu.h"

enum { WIDEST_CHAIN = 5, WIDEST_CHAIN_F32 = 4 };

static constexpr float LOG2_E = 1.44269504f;

/* What scores are multiplied with before the exponential: log2(e) / N. */
GPU_BOTH float chain_scale(int a)
{
    return a <= 2 ? LOG2_E / (float)a : a == 3 ? LOG2_E / 6 : a == 4 ? LOG2_E / 12 : LOG2_E / 60;
}

/* powers[w - 1] = y^(N/w). */
template <int A> GPU_CODE void raise(float y, float *powers);

template <> GPU_CODE void raise<1>(float y, float *powers)
{
    powers[0] = y;
}

template <> GPU_CODE void raise<2>(float y, float *powers)
{
    powers[0] = y * y;
    powers[1] = y;
}

template <> GPU_CODE void raise<3>(float y, float *powers)
{
    float y2 = y * y, y3 = y2 * y;
    powers[0] = y3 * y3;
    powers[1] = y3;
    powers[2] = y2;
}

template <> GPU_CODE void raise<4>(float y, float *powers)
{
    float y2 = y * y, y3 = y2 * y, y6 = y3 * y3;
    powers[0] = y6 * y6;
    powers[1] = y6;
    powers[2] = y2 * y2;
    powers[3] = y3;
}

template <> GPU_CODE void raise<5>(float y, float *powers)
{
    float y2 = y * y, y3 = y2 * y, y6 = y3 * y3, y12 = y6 * y6, y15 = y12 * y3, y18 = y12 * y6;
    float y30 = y15 * y15;
    powers[0] = y30 * y30;
    powers[1] = y30;
    powers[2] = y18 * y2;
    powers[3] = y15;
    powers[4] = y12;
}

/* Goes along a row, one item after the other. The first A - 1 items it is given may be used for
 * their powers only: skip() them. */
template <int A> struct area_walk_along {
    float last[A][A];  /* [w - 1][t]: y^(N/w) of the item t before the present one */
    float coverage[A]; /* [t]: of the item t before the present one, as far as it is known */
    float values[A];   /* [w - 1]: what a value of such an area is divided by, inverted */
    float ended;       /* the weights of all areas that end at the present item */

    GPU_CODE void start(bool is_mean)
    {
#pragma unroll
        for (int w = 0; w < A; w++) {
            coverage[w] = 0.0f;
            values[w] = is_mean ? 1.0f / (float)(w + 1) : 1.0f;
#pragma unroll
            for (int t = 0; t < A; t++)
                last[w][t] = 0.0f;
        }
    }

    GPU_CODE void skip(float y)
    {
        float powers[A];
        raise<A>(y, powers);
#pragma unroll
        for (int w = 0; w < A; w++) {
#pragma unroll
            for (int t = A - 1; t > 0; t--)
                last[w][t] = last[w][t - 1];
            last[w][0] = powers[w];
        }
    }

    /* Takes the next item; returns the coverage of the item A - 1 before it, which is complete. */
    GPU_CODE float step(float y)
    {
        float share = 0.0f;
        skip(y);
        ended = 0.0f;
#pragma unroll
        for (int t = A - 1; t > 0; t--)
            coverage[t] = coverage[t - 1];
        coverage[0] = 0.0f;
#pragma unroll
        for (int w = A; w >= 1; w--) {
            float weight = last[w - 1][0];
#pragma unroll
            for (int t = 1; t < w; t++)
                weight *= last[w - 1][t];
            ended += weight;
            share = fmaf(weight, values[w - 1], share); /* of areas of at least w items */
            coverage[w - 1] += share;
        }
        return coverage[A - 1];
    }
};

#endif
