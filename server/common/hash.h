/* hash.h - numbers for tables, which nobody can choose keys for who does not know the seed.
 *
 * No state, any thread.
 */
#ifndef SERVER_COMMON_HASH_H
#define SERVER_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Random, if the system has random numbers. */
uint64_t hash_seed(void);

/* Another one for each n. */
uint64_t hash_number(uint64_t seed, uint64_t n);

/* SipHash-1-3 (Aumasson and Bernstein, 2012). */
uint64_t hash_bytes(const uint64_t seed[2], const void *data, size_t bytes);

#endif
