/* host.cc - acre_cuda.so's side of device/library.h: the one function that it exports, and the
 * engine's memory by way of the table that it is given. Part of the library only: a program that
 * has the backend linked in has the engine's own. */
#include <cstring>

extern "C" {
#include "base/error.h"
#include "base/mem.h"
#include "device/library.h"
}

static struct cuda_host host;

extern "C" {

void *mem_alloc(size_t bytes)
{
    return host.alloc(bytes);
}

void *mem_calloc(size_t n, size_t bytes)
{
    return host.calloc(n, bytes);
}

void mem_free(void *memory)
{
    host.free(memory);
}

void mem_note(ptrdiff_t bytes)
{
    host.note(bytes);
}

__attribute__((visibility("default"))) int acre_cuda_open(const struct cuda_host *of, int ordinal,
                                                          struct device **device,
                                                          struct acre_err *err)
{
    const struct cuda_host mine = {CUDA_HOST_FACTS, NULL, NULL, NULL, NULL};
    if (of->bytes != mine.bytes || of->interface != mine.interface)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "cuda: " CUDA_LIBRARY ": expected interface %d, found %d", of->interface,
                       mine.interface);
    if (strcmp(of->version, mine.version) != 0 || of->ops_bytes != mine.ops_bytes ||
        of->shape_bytes != mine.shape_bytes || of->search_bytes != mine.search_bytes)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "cuda: " CUDA_LIBRARY ": expected the library of this build of Acre %s, "
                       "found another one's, of Acre %s",
                       of->version, mine.version);
    host = *of;
    return device_cuda_open(ordinal, device, err);
}
}
