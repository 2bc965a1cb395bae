/* gpu.h - what kernels are written in: CUDA C++ as nvcc compiles it, or the same text as C++ for
 * the emulator of tests/cuda. This and tensor.h are the only files that know the difference, and
 * each instruction that C++ lacks is written here once, with its twin.
 *
 * Rules that make both work: a kernel begins with gpu_await_previous(), or has only looked at
 * weights before; shared memory is dynamic and laid out by gpu_layout; only whole warps
 * shuffle and vote; no thread leaves before a barrier of its block; no atomics, no order between
 * blocks; threads do not write single bytes side by side. Where bits matter, sums are written with
 * fmaf() or __fadd_rn(), which no compiler contracts. Letters as in shapes.h.
 */
#ifndef DEVICE_CUDA_GPU_H
#define DEVICE_CUDA_GPU_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "emulate.h"
#endif

#define GPU_CODE __device__ __forceinline__
#define GPU_BOTH __host__ __device__ __forceinline__

enum : unsigned { ALL_LANES = 0xffffffffu };

/* ---- Numbers: f16 and bf16 are stored so, arithmetic is float or the tensor cores' ----------- */

struct f16 {
    uint16_t bits;
};

struct bf16 {
    uint16_t bits;
};

/* What numbers of an array are, where a kernel is told and not compiled for it. */
enum number_type { NUMBER_F32, NUMBER_F16, NUMBER_BF16, NUMBER_INT8 };

/* Of 16 bytes at once. */
struct alignas(16) words4 {
    uint32_t w[4];
};

GPU_BOTH float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

GPU_BOTH uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* What f16 has no number for becomes the largest it has; NaN stays. */
GPU_CODE float within_f16(float x)
{
    const float most = 65504.0f;
    return x > most ? most : x < -most ? -most : x;
}

#ifdef __CUDACC__
GPU_CODE float widen(f16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

GPU_CODE f16 to_f16(float x)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(within_f16(x)));
    return {bits};
}
#else
inline float widen(f16 x)
{
    return emulate::float_of_f16(x.bits);
}

inline f16 to_f16(float x)
{
    return {emulate::f16_of_float(within_f16(x))};
}
#endif

GPU_CODE float widen(float x)
{
    return x;
}

GPU_CODE float widen(bf16 x)
{
    return float_of_bits((uint32_t)x.bits << 16);
}

/* To the nearest, ties to even. */
template <class T> GPU_CODE T narrow(float x);

template <> GPU_CODE float narrow<float>(float x)
{
    return x;
}

template <> GPU_CODE f16 narrow<f16>(float x)
{
    return to_f16(x);
}

/* The one NaN that a GPU's arithmetic makes has all bits set: rounding would carry into its sign.
 */
template <> GPU_CODE bf16 narrow<bf16>(float x)
{
    uint32_t bits = bits_of_float(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return {(uint16_t)((bits == 0x7fffffff ? bits : rounded) >> 16)};
}

GPU_CODE float load_number(const void *array, enum number_type type, size_t i)
{
    if (type == NUMBER_F32)
        return static_cast<const float *>(array)[i];
    if (type == NUMBER_F16)
        return widen(static_cast<const f16 *>(array)[i]);
    return widen(static_cast<const bf16 *>(array)[i]);
}

GPU_CODE void store_number(void *array, enum number_type type, size_t i, float x)
{
    if (type == NUMBER_F32)
        static_cast<float *>(array)[i] = x;
    else if (type == NUMBER_F16)
        static_cast<f16 *>(array)[i] = narrow<f16>(x);
    else
        static_cast<bf16 *>(array)[i] = narrow<bf16>(x);
}

/* N numbers side by side of a row, the first at a multiple of N. */
template <class T, int N> struct alignas(N * sizeof(T)) adjacent {
    T x[N];
};

template <class T> using four = adjacent<T, 4>;

template <int N, class T> GPU_CODE adjacent<T, N> load_adjacent(const T *at)
{
    return *reinterpret_cast<const adjacent<T, N> *>(at);
}

template <class T> GPU_CODE four<T> load_four(const T *at)
{
    return load_adjacent<4>(at);
}

template <class T, int N>
GPU_CODE void narrow_adjacent(void *array, size_t i, const adjacent<float, N> &numbers)
{
    adjacent<T, N> narrowed;
#pragma unroll
    for (int j = 0; j < N; j++)
        narrowed.x[j] = narrow<T>(numbers.x[j]);
    *reinterpret_cast<adjacent<T, N> *>(static_cast<T *>(array) + i) = narrowed;
}

template <int N>
GPU_CODE void store_adjacent(void *array, enum number_type type, size_t i,
                             const adjacent<float, N> &numbers)
{
    if (type == NUMBER_F32)
        narrow_adjacent<float>(array, i, numbers);
    else if (type == NUMBER_F16)
        narrow_adjacent<f16>(array, i, numbers);
    else
        narrow_adjacent<bf16>(array, i, numbers);
}

/* 16 bytes of numbers, as floats. */
template <class T> struct numbers {
    enum { N = 16 / sizeof(T) };
    float x[N];

    GPU_CODE void load(const T *at)
    {
        words4 raw = *reinterpret_cast<const words4 *>(at);
#pragma unroll
        for (int i = 0; i < N; i++) {
            T number;
            memcpy(&number, reinterpret_cast<const char *>(&raw) + i * sizeof(T), sizeof(T));
            x[i] = widen(number);
        }
    }

    GPU_CODE void store(T *at) const
    {
        words4 raw;
#pragma unroll
        for (int i = 0; i < N; i++) {
            T number = narrow<T>(x[i]);
            memcpy(reinterpret_cast<char *>(&raw) + i * sizeof(T), &number, sizeof(T));
        }
        *reinterpret_cast<words4 *>(at) = raw;
    }
};

/* ---- Instructions ---------------------------------------------------------------------------- */

#ifdef __CUDACC__
GPU_CODE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

GPU_CODE char *gpu_shared()
{
    extern __shared__ __align__(16) char shared_memory[];
    return shared_memory;
}
#else
inline float exp2_fast(float x)
{
    return emulate::approximate(exp2f(x), 4.0f); /* 2^-22 is 4 half units */
}

inline char *gpu_shared()
{
    return emulate::shared();
}
#endif

/* ---- Kernels that begin early ---------------------------------------------------------------- */

/* Where launches overlap, a kernel's blocks may begin before the kernel before it on its stream has
 * ended (programmatic dependent launch, sm_90 and newer). Every thread of every kernel waits for
 * that one to end, with all that it wrote, before it touches anything but its parameters and
 * weights, which no pass writes; then the next kernel may begin. So at most two kernels are under
 * way, and what one reads or writes comes after all of the one before. */
GPU_CODE void gpu_await_previous()
{
#ifndef __CUDACC__
    emulate::await_previous();
#elif __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Whether what the calling thread launches may begin early: the device that it uses decides. And
 * whether it may not for now, whatever the device. */
inline thread_local bool gpu_overlaps, gpu_is_serial;

/* 2^x as good as the numbers are. Where T is float, CUDA's exp2f() keeps small results, which the
 * instruction flushes to zero, and is off by 2 units in the last place; so is the emulator's twin.
 */
template <class T> GPU_CODE float exp2_for(float x)
{
    if (sizeof(T) < sizeof(float))
        return exp2_fast(x);
#ifdef __CUDACC__
    return exp2f(x);
#else
    return emulate::approximate(exp2f(x), 4.0f); /* 2 units are 4 half ones */
#endif
}

/* ---- Shared memory --------------------------------------------------------------------------- */

/* Taken in order by a layout that host and kernel both run: with base NULL it only counts. */
struct gpu_layout {
    char *base = nullptr;
    size_t bytes = 0;

    template <class T> GPU_BOTH T *take(size_t n)
    {
        size_t at = bytes;
        bytes += (n * sizeof(T) + 15) / 16 * 16;
#ifndef __CUDACC__
        bytes += emulate::red_zone_bytes;
        if (!base)
            return nullptr;
        emulate::red_zone(at + n * sizeof(T), bytes);
#endif
        return reinterpret_cast<T *>(base + at);
    }
};

/* ---- Warps ----------------------------------------------------------------------------------- */

/* Of groups of LANES adjacent lanes, always in the same order. */
template <int LANES> GPU_CODE float sum_over(float x)
{
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

template <int LANES> GPU_CODE float max_over(float x)
{
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* A kernel that the calling thread has prepared on a device: others with its place push it out, and
 * it is prepared again. */
struct gpu_prepared {
    const void *kernel;
    int device;
};
inline thread_local struct gpu_prepared gpu_prepared[256];

/* Before its first launch. Whoever launches with more shared memory than every GPU has must ask for
 * it. It is asked for as much as there is, always: asking for less would take it from another
 * thread's launch. And where launches overlap, all kernels want the same share of a
 * multiprocessor's memory: one that had to wait until that is divided anew would not begin early.
 */
template <class P> void gpu_prepare(void (*kernel)(P))
{
    int device = 0, most = 0;
    cudaGetDevice(&device);
    struct gpu_prepared *place = &gpu_prepared[(uintptr_t)kernel / 16 % 256];
    if (place->kernel == (const void *)kernel && place->device == device)
        return;
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (gpu_overlaps)
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
    *place = {(const void *)kernel, device};
}

/* The architecture, times 10, that the present device's form of a kernel is compiled for: not more
 * than its own, and less where it compiles PTX of an older one itself. */
template <class P> cudaError_t gpu_compiled_for(void (*kernel)(P), int *architecture)
{
    struct cudaFuncAttributes attributes = {};
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    *architecture = attributes.ptxVersion;
    return error;
}

/* Errors are CUDA's last error. */
template <class P>
void gpu_launch(cudaStream_t stream, void (*kernel)(P), dim3 grid, int n_threads,
                size_t shared_bytes, const P &task)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return; /* nothing to do, which CUDA has no launch for */
    bool is_early = gpu_overlaps && !gpu_is_serial;
    gpu_prepare(kernel);
#ifdef __CUDACC__
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)n_threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = is_early ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, task);
#else
    emulate::launch(stream, kernel, grid, dim3((unsigned)n_threads), shared_bytes, is_early, task);
#endif
}

#endif
