/* random.h - repeatable random numbers for tests. One sequence for the whole program; not for
 * several threads. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void random_seed(uint64_t seed);
uint64_t random_bits(void);
size_t random_pick(size_t low, size_t high); /* low ... high, both included */
float random_uniform(float low, float high);

/* n numbers in -spread ... spread, exactly n floats long; the caller frees. */
float *random_floats(size_t n, float spread);

/* order[n] becomes a random permutation of 0 ... n - 1. */
void random_order(size_t n, size_t *order);

#endif
