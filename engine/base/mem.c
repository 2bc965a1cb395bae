/* Every allocation asks refused() first, where tests let it fail, and then counts for its thread
 * what malloc really gave. Pages are mapped without reserving them: those never written cost
 * nothing. */
#include "base/mem.h"

#include <malloc.h> /* malloc_usable_size */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acre.h" /* ACRE_ENOMEM */

static atomic_long allowed = -1;
static atomic_ulong count;
static _Thread_local size_t held;

static bool refused(void)
{
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    if (atomic_load_explicit(&allowed, memory_order_relaxed) < 0)
        return false;
    if (atomic_fetch_sub(&allowed, 1) > 0)
        return false;
    atomic_store(&allowed, 0);
    return true;
}

static void *took(void *memory)
{
    held += malloc_usable_size(memory);
    return memory;
}

void *mem_alloc(size_t bytes)
{
    return refused() ? NULL : took(malloc(bytes ? bytes : 1));
}

void *mem_calloc(size_t n, size_t bytes)
{
    return refused() ? NULL : took(calloc(n ? n : 1, bytes ? bytes : 1));
}

char *mem_copy_text(const char *text, size_t bytes)
{
    char *copy = mem_alloc(bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

void mem_free(void *memory)
{
    held -= malloc_usable_size(memory);
    free(memory);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* What a mapping takes. */
static size_t whole_pages(size_t bytes)
{
    size_t page = page_bytes();
    return ((bytes ? bytes : 1) + page - 1) / page * page;
}

void *mem_map(size_t bytes)
{
    if (refused())
        return NULL;
    size_t mapped = whole_pages(bytes + MEM_GAP_BYTES);
    char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    mem_forbid(memory + bytes, mapped - bytes);
    held += whole_pages(bytes);
    return memory;
}

void mem_will_write(void *memory, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    madvise(memory, whole_pages(bytes), MADV_POPULATE_WRITE); /* older kernels refuse */
#else
    (void)memory;
    (void)bytes;
#endif
}

void mem_unmap(void *memory, size_t bytes)
{
    if (!memory)
        return;
    size_t mapped = whole_pages(bytes + MEM_GAP_BYTES);
    held -= whole_pages(bytes);
    mem_allow(memory, mapped);
    munmap(memory, mapped);
}

void mem_discard(void *part, size_t bytes)
{
    uintptr_t page = page_bytes();
    uintptr_t first = ((uintptr_t)part + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)part + bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

static void *resize(void *old, size_t bytes)
{
    if (refused())
        return NULL;
    size_t old_bytes = malloc_usable_size(old);
    void *moved = realloc(old, bytes ? bytes : 1);
    if (moved)
        held -= old_bytes;
    return took(moved);
}

int mem_reserve(void *items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity)
        return 0;
    size_t grown = *capacity + *capacity / 2;
    if (grown < wanted)
        grown = wanted;
    if (grown > SIZE_MAX / item_bytes)
        return ACRE_ENOMEM;
    void *old;
    memcpy(&old, items, sizeof(old)); /* items is a pointer to a pointer of any type */
    void *moved = resize(old, grown * item_bytes);
    if (!moved)
        return ACRE_ENOMEM;
    memcpy(items, &moved, sizeof(moved));
    *capacity = grown;
    return 0;
}

void mem_note(ptrdiff_t bytes)
{
    held += (size_t)bytes;
}

size_t mem_held(void)
{
    return held;
}

void mem_fail_after(long n)
{
    atomic_store(&allowed, n);
}

unsigned long mem_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}
