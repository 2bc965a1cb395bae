/* buckets.h - token buckets: so many requests a minute, and as many at once.
 *
 * A bucket is one number: when it will be full again. Taking a token moves that by a token's time,
 * and a bucket that would be full later than in a minute is empty (the generic cell rate algorithm
 * of ATM). Those of addresses have a table of fixed size: who comes new takes the place of the
 * fullest of a few, which has the least to forget. Loop thread only.
 */
#ifndef SERVER_SERVE_BUCKETS_H
#define SERVER_SERVE_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

/* Takes a token of a bucket of `per_minute`, which is not 0. False: there is none, and *wait_ns is
 * until there is one. */
bool bucket_take(uint64_t *full_ns, int64_t per_minute, uint64_t now_ns, uint64_t *wait_ns);

struct buckets;

struct buckets *buckets_open(void); /* NULL: no memory */
void buckets_close(struct buckets *buckets);

/* Of the bucket of `id`, which is not 0. */
bool buckets_take(struct buckets *buckets, uint64_t id, int64_t per_minute, uint64_t now_ns,
                  uint64_t *wait_ns);

#endif
