/* cache.h - translations of sentences that were translated before, to be given again.
 *
 * The key is all that a translation depends on: the model, the source's tokens, and the decoding.
 * A sentence's result does not depend on what it was decoded with, so that what is kept is what
 * decoding it again would give, to the last bit. When memory is short the entry that was not used
 * for longest goes. Any thread; one mutex, held for a copy.
 */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/sentence.h"

struct cache;

/* Holds at most max_bytes, itself included. NULL if there is no memory. */
struct cache *cache_open(size_t max_bytes);
void cache_close(struct cache *cache); /* NULL is allowed */

/* Whether the cache has what this model made of the sentence; then it is filled in. `model` is a
 * number that no other model has, nor had. */
bool cache_get(struct cache *cache, uint64_t model, struct sentence *sentence);

/* Keeps what came out of it. */
void cache_put(struct cache *cache, uint64_t model, const struct sentence *sentence);

/* What it holds now. */
size_t cache_bytes(struct cache *cache);

#endif
