/* library.h - the CUDA backend as a library, acre_cuda.so, that is opened when somebody wants it.
 *
 * It exports acre_cuda_open() alone. What it needs of the engine comes in a table, and whether both
 * were built from the same interface is checked before anything else: they are told apart by
 * version and by the sizes of what they share. An opened library is never closed.
 */
#ifndef DEVICE_LIBRARY_H
#define DEVICE_LIBRARY_H

#include <stddef.h>

#include "device/device.h"

#define CUDA_LIBRARY "acre_cuda.so"

/* Goes up when the meaning of something in device.h or here changes and no size does. */
enum { CUDA_INTERFACE = 3 };

struct cuda_host {
    size_t bytes; /* of this table */
    int interface;
    const char *version;
    size_t ops_bytes, shape_bytes, search_bytes; /* of what both sides know */
    void *(*alloc)(size_t bytes);
    void *(*calloc)(size_t n, size_t bytes);
    void (*free)(void *memory);
    void (*note)(ptrdiff_t bytes);
};

/* The sizes and versions that this is compiled with. */
#define CUDA_HOST_FACTS                                                                            \
    sizeof(struct cuda_host), CUDA_INTERFACE, ACRE_VERSION, sizeof(struct device_ops),             \
        sizeof(struct store_shape), sizeof(struct search)

typedef int cuda_open_fn(const struct cuda_host *host, int ordinal, struct device **device,
                         struct acre_err *err);

#endif
