#include "device/cuda/wait.h"

#include <time.h>

#include "device/cuda/memory.h"

/* So long it is asked for without sleeping: with the slack of Linux's timers a nap takes 70 us, in
 * which most steps are over. */
enum { SPIN_US = 200, NAP_NS = 20 * 1000 };

static int64_t now_us()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Whoever was kept from asking in time, on a busy machine, asks once more. What a launch has failed
 * with is not waited for, and stays for the poll to tell: to ask would write over it. */
template <class T> static cudaError_t wait_for(cudaError_t (*query)(T), T work, int device)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t start = now_us();
    bool is_late = false;
    cudaError_t of_launch = cudaPeekAtLastError();
    while (of_launch == cudaSuccess) {
        if (gpu_is_abandoned(device))
            return cudaErrorNotReady;
        cudaError_t error = query(work);
        int64_t waited = now_us() - start;
        if (error == cudaErrorNotReady)
            cudaGetLastError(); /* it is remembered as if it were one */
        if (error == cudaErrorNotReady && is_late)
            gpu_abandon(device);
        if (error != cudaErrorNotReady || is_late)
            return error;
        is_late = waited > LOST_S * 1000000;
        if (waited > SPIN_US)
            nanosleep(&nap, NULL);
    }
    return of_launch;
}

cudaError_t gpu_wait(int device, cudaEvent_t event)
{
    return wait_for(cudaEventQuery, event, device);
}

cudaError_t gpu_wait(int device, cudaStream_t stream)
{
    return wait_for(cudaStreamQuery, stream, device);
}
