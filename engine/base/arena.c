#include "base/arena.h"

#include <assert.h>

#include "acre.h" /* ACRE_ENOMEM */
#include "base/mem.h"

enum { LINE_BYTES = 64 };

void *arena_take(struct arena *arena, size_t n, size_t item_bytes)
{
    size_t start = arena->used_bytes, end = start + n * item_bytes;
    size_t next = (end + MEM_GAP_BYTES + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    arena->used_bytes = next;
    if (!arena->memory)
        return NULL;
    assert(arena->used_bytes <= arena->capacity_bytes);
    mem_forbid(arena->memory + end, next - end);
    return arena->memory + start;
}

int arena_open(struct arena *arena)
{
    arena->capacity_bytes = arena->used_bytes;
    arena->used_bytes = 0;
    arena->memory = mem_map(arena->capacity_bytes);
    return arena->memory ? 0 : ACRE_ENOMEM;
}

void arena_close(struct arena *arena)
{
    mem_unmap(arena->memory, arena->capacity_bytes);
    *arena = (struct arena){0};
}
