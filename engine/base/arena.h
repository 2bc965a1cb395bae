/* arena.h - one block of memory, sized at load, from which parts are taken in order.
 *
 * The owner of an arena writes one function that takes all its parts and calls it twice: first on
 * an arena without memory, which only counts, then, after arena_open(), for real. Parts are
 * aligned to cache lines and zeroed; pages never written cost nothing. Freed as a whole.
 * Used by one thread.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena {
    char *memory; /* owned; NULL while counting */
    size_t used_bytes;
    size_t capacity_bytes;
};

/* n items; NULL while counting. */
void *arena_take(struct arena *arena, size_t n, size_t item_bytes);

/* Gives a counted arena its memory and starts again; 0 or ACRE_ENOMEM. */
int arena_open(struct arena *arena);
void arena_close(struct arena *arena); /* may be called on any arena, also twice */

#endif
