#include "common/hash.h"

#include <string.h>
#include <sys/random.h>

/* Where the system has no random numbers, the address of the stack has to do: it differs from
 * process to process. */
uint64_t hash_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = (uintptr_t)&seed;
    return seed;
}

uint64_t hash_number(uint64_t seed, uint64_t n)
{
    uint64_t mixed = (n ^ seed) * 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
    return mixed ^ mixed >> 32;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

uint64_t hash_bytes(const uint64_t seed[2], const void *data, size_t bytes)
{
    const uint64_t k0 = seed[0], k1 = seed[1];
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    const char *at = data;

    for (size_t left = bytes;; left -= 8, at += 8) {
        uint64_t m = left < 8 ? (uint64_t)bytes << 56 : 0;

        memcpy(&m, at, left < 8 ? left : 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
        if (left < 8)
            break;
    }
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
