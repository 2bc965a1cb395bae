/* memory.h - the one gate to the memory of a GPU, and to pinned memory that it shares with the
 * host.
 *
 * Whatever is opened on a device has a list of blocks that go together. What is taken counts as
 * held by the calling thread (base/mem.h), so that models tell what they take wherever it is.
 */
#ifndef DEVICE_CUDA_MEMORY_H
#define DEVICE_CUDA_MEMORY_H

#include "device/cuda/gpu.h"

enum gpu_kind { GPU_RAW, GPU_ZEROED, GPU_PINNED };

struct gpu_block;

/* Begins as zeros. */
struct gpu_memory {
    struct gpu_block *blocks;
    cudaError_t error; /* why some block could not be had; success: all are there */
};

/* Waits for copies and fillings that were given no stream, for which streams of ours do not wait.
 * Not for the device: that may not be asked while another thread records a graph on it. As
 * gpu_wait(). */
cudaError_t gpu_settle();

/* NULL if there is none, or the GPU is lost, which the list remembers; and for 0 bytes. */
void *gpu_take(struct gpu_memory *memory, size_t bytes, enum gpu_kind kind);
void gpu_release(struct gpu_memory *memory); /* leaves no error of CUDA behind */

/* The list remembers the first failure of what belongs to it. */
inline void gpu_note(struct gpu_memory *memory, cudaError_t error)
{
    if (memory->error == cudaSuccess)
        memory->error = error;
}

/* This GPU is hung: whatever waits for it would wait for ever. From now on nothing of it is given
 * back; nor is pinned memory, which all GPUs share: it is kept for the others. Never taken back. */
void gpu_abandon(int device);
bool gpu_is_abandoned(int device);

template <class T>
void gpu_take(struct gpu_memory *memory, T **out, size_t n, enum gpu_kind kind = GPU_RAW)
{
    *out = static_cast<T *>(gpu_take(memory, n * sizeof(T), kind));
}

#endif
