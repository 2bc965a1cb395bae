/* tensor.h - tensor cores and asynchronous copies: each instruction once, and its twin. Fragments
 * are as PTX lays them out. On sm_75, which lacks the newer ones, the older do the same. */
#ifndef DEVICE_CUDA_TENSOR_H
#define DEVICE_CUDA_TENSOR_H

#include "device/cuda/gpu.h"

#ifdef __CUDACC__

GPU_CODE uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Four matrices of 8 rows of 16 bytes; lane 8i + r gives the address of row r of matrix i. */
GPU_CODE void load_matrices(uint32_t *m, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* Likewise, each matrix of 8x8 16-bit numbers transposed. */
GPU_CODE void load_matrices_transposed(uint32_t *m, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* d[16,8] += a[16,16] * b[16,8]. */
GPU_CODE void multiply(float *d, const uint32_t *a, const uint32_t *b, f16)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (int k = 0; k < 2; k++)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
#endif
}

GPU_CODE void multiply(float *d, const uint32_t *a, const uint32_t *b, bf16)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    (void)d, (void)a, (void)b; /* no bf16 there: the backend does not choose it */
#endif
}

/* d[16,8] += a[16,32] * b[32,8] of signed bytes, exactly. */
GPU_CODE void multiply(int32_t *d, const uint32_t *a, const uint32_t *b, int8_t)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                : "+r"(d[2 * half]), "+r"(d[2 * half + 1])
                : "r"(a[2 * k + half]), "r"(b[k]));
#endif
}

/* 16 bytes into shared memory, or zeros; there after copy_wait() and a barrier. */
GPU_CODE void copy_16(void *to, const void *from, bool is_wanted)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(is_wanted ? 16 : 0)
                 : "memory");
#else
    *(words4 *)to = is_wanted ? *(const words4 *)from : words4{};
#endif
}

GPU_CODE void copy_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* For this thread's copies but the last N groups. */
template <int N> GPU_CODE void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#else

inline void load_matrices(uint32_t *m, const void *row)
{
    words4 mine = *(const words4 *)row;
    emulate::share_matrices(m, mine.w);
}

inline void load_matrices_transposed(uint32_t *m, const void *row)
{
    words4 mine = *(const words4 *)row;
    emulate::share_transposed(m, mine.w);
}

inline void multiply(float *d, const uint32_t *a, const uint32_t *b, f16)
{
    emulate::multiply_f16(d, a, b);
}

inline void multiply(float *d, const uint32_t *a, const uint32_t *b, bf16)
{
    emulate::multiply_bf16(d, a, b);
}

inline void multiply(int32_t *d, const uint32_t *a, const uint32_t *b, int8_t)
{
    emulate::multiply_int8(d, a, b);
}

inline void copy_16(void *to, const void *from, bool is_wanted)
{
    emulate::copy_later(to, from, 16, is_wanted);
}

inline void copy_commit()
{
    emulate::copy_commit();
}

template <int N> inline void copy_wait()
{
    emulate::copy_wait(N);
}

#endif

#endif
