/* canaries.h - kernels with a fault, see canaries.cu. */
#ifndef TESTS_CUDA_CANARIES_H
#define TESTS_CUDA_CANARIES_H

#include "device/cuda/tensor.h"

enum fault {
    NO_FAULT,
    SHUFFLE_AS_BARRIER,
    VOTE_AS_BARRIER,
    WARP_BARRIER_BETWEEN_WARPS,
    PART_OVERRUN,
    ALLOCATION_OVERRUN,
    UNWRITTEN,
    UNWRITTEN_SHARED,
    HOST_MEMORY,
    EARLY_EXIT,
    TWO_BARRIERS,
    THREADS_WRITE_ONE,
    BLOCKS_WRITE_ONE,
    BLOCKS_READ_AND_WRITE,
    WRITTEN_WHILE_READ,
    PART_OF_WARP_SHUFFLES,
    MASK_OF_PART,
    COPY_NOT_WAITED_FOR,
    READS_TOO_EARLY,
    WRITES_TOO_EARLY,
    NEVER_AWAITS,
    WARPS_APART,
    COPY_WAITED_FOR,
    N_FAULTS
};

enum { CANARY_THREADS = 64, CANARY_BLOCKS = 3 };

struct canary_task {
    float *memory; /* [n], the first CANARY_THREADS are written */
    const float *host;
    int n;
    enum fault fault;
};

struct add_one_task {
    float *memory;
    int n;
    float addend;
};

void canary_launch(cudaStream_t stream, const canary_task &task);
void add_one_launch(cudaStream_t stream, const add_one_task &task);

#endif
