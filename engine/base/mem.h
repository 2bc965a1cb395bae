/* mem.h - the one gate through which the engine allocates, and where it counts what it holds.
 *
 * Tests set mem_fail_after to make the n-th allocation fail and to count allocations; outside
 * tests it stays negative and costs one relaxed load. Memory that a library allocates for itself
 * (jansson, ICU, SentencePiece) does not pass here. Any thread may free what another one took; each
 * counts what it does itself.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t bytes); /* uninitialised; NULL if there is none */
void *mem_calloc(size_t n, size_t bytes);
char *mem_copy_text(const char *text, size_t bytes); /* adds a NUL */
void mem_free(void *memory);

/* Zeroed pages for large blocks; pages never written cost nothing. NULL if there are none. */
void *mem_map(size_t bytes);

/* A hint: all of a mapping is about to be written. The kernel gives the pages at once then, which
 * costs a fraction of one fault a page. */
void mem_will_write(void *memory, size_t bytes);
void mem_unmap(void *memory, size_t bytes); /* NULL is allowed */

/* Gives back the whole pages within a part of mapped memory; they read as zeros again. */
void mem_discard(void *part, size_t bytes);

/* The address sanitizer does not know the parts of a mapping: between them and behind the last are
 * gaps of so many bytes that must not be touched. Elsewhere there are none. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { MEM_GAP_BYTES = 256 };
#define mem_forbid(part, bytes) ASAN_POISON_MEMORY_REGION(part, bytes)
#define mem_allow(part, bytes) ASAN_UNPOISON_MEMORY_REGION(part, bytes)
#else
enum { MEM_GAP_BYTES = 0 };
#define mem_forbid(part, bytes) ((void)(part), (void)(bytes))
#define mem_allow(part, bytes) ((void)(part), (void)(bytes))
#endif

/* Makes room for `wanted` items of `item_bytes` in *items; grows *capacity at least by half.
 * Returns 0 or ACRE_ENOMEM with *items untouched. */
int mem_reserve(void *items, size_t *capacity, size_t wanted, size_t item_bytes);

/* Bytes that this thread has taken so far, less those it gave back: blocks with what malloc adds to
 * them, whole pages of mappings, written or not. Only differences mean something: what something
 * holds is how much more this is after opening it than before. */
size_t mem_held(void);

/* Counts memory of a device, taken elsewhere, as held by this thread; negative: given back. */
void mem_note(ptrdiff_t bytes);

/* Tests: after n more allocations every further one fails; -1 = never. */
void mem_fail_after(long n);
/* Tests: allocations since the process began. */
unsigned long mem_count(void);

#endif
