#include "random.h"

#include <stdlib.h>

static uint64_t state = 1;

void random_seed(uint64_t seed)
{
    state = seed;
}

/* SplitMix64. */
uint64_t random_bits(void)
{
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

size_t random_pick(size_t low, size_t high)
{
    return low + (size_t)(random_bits() % (high - low + 1));
}

float random_uniform(float low, float high)
{
    return low + (high - low) * (float)(random_bits() >> 40) / (float)(1 << 24);
}

float *random_floats(size_t n, float spread)
{
    float *x = malloc(n * sizeof(*x));
    for (size_t i = 0; i < n; i++)
        x[i] = random_uniform(-spread, spread);
    return x;
}

void random_order(size_t n, size_t *order)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = random_pick(0, i);
        order[i] = order[j];
        order[j] = i;
    }
}
