#include "serve/buckets.h"

#include <stdlib.h>

#include "common/hash.h"

#define MINUTE_NS UINT64_C(60000000000)

enum { N_SETS = 16384, N_WAYS = 8 };

struct bucket {
    uint64_t id; /* 0: none */
    uint64_t full_ns;
};

struct buckets {
    uint64_t seed; /* so that nobody can choose addresses of one set */
    struct bucket sets[N_SETS][N_WAYS];
};

bool bucket_take(uint64_t *full_ns, int64_t per_minute, uint64_t now_ns, uint64_t *wait_ns)
{
    const uint64_t token_ns = MINUTE_NS / (uint64_t)per_minute;
    const uint64_t full = (*full_ns > now_ns ? *full_ns : now_ns) + token_ns;

    if (full > now_ns + MINUTE_NS) {
        *wait_ns = full - now_ns - MINUTE_NS;
        return false;
    }
    *full_ns = full;
    return true;
}

struct buckets *buckets_open(void)
{
    struct buckets *buckets = calloc(1, sizeof(*buckets));

    if (buckets)
        buckets->seed = hash_seed();
    return buckets;
}

void buckets_close(struct buckets *buckets)
{
    free(buckets);
}

static struct bucket *set_of(struct buckets *buckets, uint64_t id)
{
    return buckets->sets[hash_number(buckets->seed, id) % N_SETS];
}

bool buckets_take(struct buckets *buckets, uint64_t id, int64_t per_minute, uint64_t now_ns,
                  uint64_t *wait_ns)
{
    struct bucket *set = set_of(buckets, id), *found = set;

    for (int i = 0; i < N_WAYS; i++) {
        if (set[i].id == id) {
            found = &set[i];
            break;
        }
        if (set[i].full_ns < found->full_ns)
            found = &set[i];
    }
    if (found->id != id)
        *found = (struct bucket){.id = id};
    return bucket_take(&found->full_ns, per_minute, now_ns, wait_ns);
}
