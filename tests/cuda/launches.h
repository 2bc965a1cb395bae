/* launches.h - what kernels ask for when a Base model of 512 positions runs, for the static gate.
 */
#ifndef TESTS_CUDA_LAUNCHES_H
#define TESTS_CUDA_LAUNCHES_H

#include <cstddef>

/* Prints "ADDRESS THREADS SHARED_BYTES" of every launch on a device whose blocks may have so many
 * bytes of shared memory. */
void launches_print(size_t shared_bytes);

#endif
