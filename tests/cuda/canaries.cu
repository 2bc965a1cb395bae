/* Kernels with one fault each, which the emulator must find, and some without. */
#include "canaries.h"

__global__ static void canary(canary_task task)
{
    gpu_layout layout = {gpu_shared(), 0};
    float *a = layout.take<float>(CANARY_THREADS), *b = layout.take<float>(CANARY_THREADS);
    int i = (int)threadIdx.x;
    if (task.fault == READS_TOO_EARLY)
        b[i] = task.memory[i];
    if (task.fault == WRITES_TOO_EARLY && blockIdx.x == 0)
        task.memory[i] = 0.0f;
    if (task.fault != NEVER_AWAITS)
        gpu_await_previous();
    a[i] = task.memory[i];
    b[i] = 0.0f;
    float x = 0.0f;
    switch (task.fault) {
    case SHUFFLE_AS_BARRIER:
        x = __shfl_xor_sync(ALL_LANES, 0.0f, 1);
        x += a[i ^ 1];
        break;
    case VOTE_AS_BARRIER:
        x = __ballot_sync(ALL_LANES, i == 1) != 0;
        x += a[i ^ 1];
        break;
    case WARP_BARRIER_BETWEEN_WARPS:
        __syncwarp();
        x = a[i ^ 32];
        break;
    case PART_OVERRUN:
        __syncthreads();
        x = a[i + 1];
        break;
    case ALLOCATION_OVERRUN:
        x = task.memory[task.n + i];
        break;
    case UNWRITTEN:
        x = task.memory[CANARY_THREADS + i];
        break;
    case UNWRITTEN_SHARED:
        x = layout.take<float>(CANARY_THREADS)[i];
        break;
    case HOST_MEMORY:
        x = task.host[0];
        break;
    case EARLY_EXIT:
        if (i == 5)
            return;
        break;
    case TWO_BARRIERS:
        if (i < 32)
            __syncthreads();
        else
            __syncthreads();
        break;
    case THREADS_WRITE_ONE:
        task.memory[0] = (float)i;
        break;
    case BLOCKS_WRITE_ONE:
        if (i == 0)
            task.memory[0] = (float)blockIdx.x;
        break;
    case BLOCKS_READ_AND_WRITE:
        if (blockIdx.x == 0)
            task.memory[i] = x;
        break;
    case WRITTEN_WHILE_READ:
        __syncthreads();
        x = a[0];
        if (i == 40)
            a[0] = 1.0f;
        break;
    case PART_OF_WARP_SHUFFLES:
        if (i < 8)
            x = __shfl_xor_sync(ALL_LANES, a[i], 1);
        break;
    case MASK_OF_PART:
        x = __shfl_xor_sync(0xffu, a[i], 1);
        break;
    case COPY_NOT_WAITED_FOR:
        copy_16(b + i / 4 * 4, task.memory + i / 4 * 4, i % 4 == 0);
        copy_commit();
        x = b[i];
        break;
    default: /* the others have none */
        break;
    case WARPS_APART:
        if (i < 32)
            x = __shfl_xor_sync(ALL_LANES, a[i], 1);
        else
            __syncwarp();
        break;
    case COPY_WAITED_FOR:
        if (i % 4 == 0)
            copy_16(layout.take<float>(CANARY_THREADS) + i, task.memory + i, true);
        copy_commit();
        copy_wait<0>();
        break;
    }
    __syncthreads();
    task.memory[2 * CANARY_THREADS + (int)blockIdx.x * CANARY_THREADS + i] = x + a[i] + b[i];
}

void canary_launch(cudaStream_t stream, const canary_task &task)
{
    gpu_layout layout;
    for (int part = 0; part < 3; part++)
        layout.take<float>(CANARY_THREADS);
    gpu_launch(stream, canary, dim3(CANARY_BLOCKS), CANARY_THREADS, layout.bytes, task);
}

/* Warps add up what they read from memory that the last launch wrote. */
__global__ static void add_one(add_one_task task)
{
    gpu_await_previous();
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < task.n)
        task.memory[i] += task.addend;
}

void add_one_launch(cudaStream_t stream, const add_one_task &task)
{
    gpu_launch(stream, add_one, dim3((unsigned)(task.n + 63) / 64), 64, 0, task);
}
