/* wait.h - waiting for a GPU, which may never come to an end.
 *
 * Every wait for work of a GPU is here, but for what CUDA waits for on its own when memory is given
 * back, or copied by a call that is given no stream. One that takes too long gives the GPU up
 * (gpu_abandon()): the thread goes on, and poll(), or what is opened, tells that the device is
 * lost.
 */
#ifndef DEVICE_CUDA_WAIT_H
#define DEVICE_CUDA_WAIT_H

#include "device/cuda/gpu.h"

enum { LOST_S = 10 }; /* what takes longer is never waited for again */

/* For what was launched on this GPU before the event, or for all work of a stream (NULL: of calls
 * that are given none): cudaSuccess; cudaErrorNotReady: it takes too long, or the GPU was given up;
 * or what went wrong. */
cudaError_t gpu_wait(int device, cudaEvent_t event);
cudaError_t gpu_wait(int device, cudaStream_t stream);

#endif
