/* clock.h - how long launches take: recorded as a graph and replayed, so that what the host does
 * between two of them does not count. The emulator runs the same text, to try it: its times mean
 * nothing. */
#ifndef TESTS_CUDA_SPEED_CLOCK_H
#define TESTS_CUDA_SPEED_CLOCK_H

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/cuda/gpu.h"

#ifdef __CUDACC__
enum { LAUNCHES = 50, REPLAYS = 10, ROUNDS = 3 };
static const size_t ROTATED_BYTES = (size_t)256 << 20; /* more than the caches of a GPU hold */
#else
enum { LAUNCHES = 2, REPLAYS = 1, ROUNDS = 1 };
static const size_t ROTATED_BYTES = 1;
#endif

inline void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
    exit(1);
}

inline double now_seconds()
{
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

/* Microseconds of one launch(i), the best round; i rotates what is read. Negative: it cannot be
 * recorded or fails. */
template <class F> double microseconds_of(cudaStream_t stream, const F &launch)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    bool is_good = launch(0); /* its code may be loaded now, which cannot be recorded */
    is_good &= cudaStreamSynchronize(stream) == cudaSuccess;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return -1;
    for (int i = 0; i < LAUNCHES; i++)
        is_good &= launch(i);
    is_good &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    if (!is_good || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
        return -1;
    double best = -1;
    for (int round = 0; round <= ROUNDS; round++) { /* the first one warms up */
        double begin = now_seconds();
        for (int i = 0; i < REPLAYS; i++)
            is_good &= cudaGraphLaunch(exec, stream) == cudaSuccess;
        is_good &= cudaStreamSynchronize(stream) == cudaSuccess;
        double took = 1e6 * (now_seconds() - begin) / (REPLAYS * LAUNCHES);
        best = round == 1 || (round > 1 && took < best) ? took : best;
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return is_good ? best : -1;
}

/* An array of the device with these numbers. */
template <class T> T *uploaded(const std::vector<T> &numbers)
{
    T *at = nullptr;
    size_t bytes = numbers.size() * sizeof(T);
    check(cudaMalloc((void **)&at, bytes), "memory");
    check(cudaMemcpy(at, numbers.data(), bytes, cudaMemcpyHostToDevice), "copy");
    check(cudaDeviceSynchronize(), "copy");
    return at;
}

/* Uniform numbers in f16, the same in every run. */
inline std::vector<uint16_t> random_halves(size_t n)
{
    std::vector<uint16_t> numbers(n);
    uint32_t state = 1;
    for (uint16_t &each : numbers) {
        state = state * 1664525u + 1013904223u;
        each = (uint16_t)((state >> 16 & 0x83ff) | 0x2c00); /* 1/16 to 1/8, either sign */
    }
    return numbers;
}

inline size_t shared_bytes_of_block()
{
    int bytes = 0;
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    return (size_t)bytes;
}

#endif
