#include "http/trim.h"

#include <malloc.h>

enum {
    TRIM_BYTES = 256 << 10,
    TRIMS = 10,
    HEAP_SPARE_BYTES = 1 << 20,
    MAPPED_BYTES = 128 << 10,
};

/* malloc_trim() leaves the free end of each thread's heap, which goes back when something is freed
 * beside it. For that no bin may hold small pieces apart (M_MXFAST), and how much may stay must not
 * grow with what was freed before, as it does up to 64 MiB a heap if nobody sets it. Nor may the
 * size from which what is large is mapped by itself, and goes back by itself. */
void trim_bound_heaps(void)
{
    mallopt(M_MXFAST, 0);
    mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES);
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

void trim_note(struct trim *trim, size_t bodies_bytes)
{
    if (bodies_bytes > trim->peak_bytes)
        trim->peak_bytes = bodies_bytes;
}

void trim_sweep(struct trim *trim, size_t bodies_bytes)
{
    if (trim->peak_bytes >= TRIM_BYTES && bodies_bytes <= trim->peak_bytes / 2) {
        trim->peak_bytes = bodies_bytes;
        trim->n_left = TRIMS;
    }
    if (trim->n_left > 0) {
        trim->n_left--;
        malloc_trim(0);
    }
}
