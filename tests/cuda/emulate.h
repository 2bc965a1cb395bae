/* emulate.h - a GPU for tests: runs the text of kernels, compiled as C++, on one CPU thread.
 *
 * Every GPU thread is a fibre. Fibres switch at barriers, shuffles and matrix instructions, in an
 * order that tests choose: first warp first, last warp first, shuffled, and in the race build also
 * at every nth access. Blocks run one after the other. Shared memory is taken through gpu_layout
 * (gpu.h), has red zones between its parts and begins as NaNs; asynchronous copies happen as late
 * as they may, and so does all work of streams (runtime.h).
 *
 * What is found is counted in `test`: threads at different barriers or gone before one in every
 * build, overruns by the address sanitizer in its build. In the race build (hooks.cc) every access
 * of a kernel is seen, and these are found whatever the order was: accesses that conflict and are
 * not ordered by a barrier, reads of what nobody wrote, addresses that are not the device's.
 *
 * A program that ends with something found that no test has asked about has exit status
 * FOUND_STATUS.
 *
 * The functions of this file are called by one thread at a time: by runtime.h under its lock, or by
 * the kernel that runs.
 */
#ifndef TESTS_CUDA_EMULATE_H
#define TESTS_CUDA_EMULATE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime.h"

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3() = default;
    dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

namespace emulate
{
enum { FOUND_STATUS = 3 };
enum order { ASCENDING, DESCENDING, SHUFFLED, N_ORDERS };

/* What a test sets before a launch, and what it reads when the work is done. */
struct control {
    order schedule = ASCENDING;
    uint64_t seed = 1;
    int switch_every = 0;  /* race build: also switch at every nth access */
    int skipped_site = -1; /* this barrier does nothing: something must be found then */
    bool quiet = false;
    /* found: */
    int races = 0;
    int wild = 0;      /* addresses outside of what the kernel may touch */
    int unwritten = 0; /* reads of what nobody wrote */
    int diverged = 0;  /* threads that do not meet */
    int n_sites = 0;   /* barriers met since forget_sites(), numbered by where they stand */
    uint64_t n_switches = 0, n_accesses = 0;

    int found() const
    {
        return races + wild + unwritten + diverged;
    }
};
extern control test;
extern bool sees_accesses; /* in the race build */

/* Bytes between the parts of shared memory; 0 to learn how much kernels ask for on a GPU. */
extern size_t red_zone_bytes;

/* If set, launches go there and nothing runs. */
extern void (*on_launch)(const struct work *work);

void forget_sites();
const char *site_name(int site); /* FILE:LINE of a barrier; until they are forgotten */

/* ---- For launches ---------------------------------------------------------------------------- */

/* A kernel with its arguments. */
struct work {
    dim3 grid, block;
    size_t shared_bytes = 0, bytes = 0; /* bytes: of the whole object, which the kernel may read */
    const void *function = nullptr;
    bool is_early = false; /* it may begin before the kernel before it has ended */
    virtual void call() const = 0;
    virtual ~work() = default;
};

template <class P> struct kernel_call : work {
    void (*kernel)(P);
    P arguments;
    void call() const override
    {
        kernel(arguments);
    }
};

void enqueue(cudaStream_t stream, const work *owned);

/* On a device. The last launch that the work's stream has seen, by its first block; 0: none yet. */
void execute(const work *work, int device, uint32_t *last_launch);

template <class P>
void launch(cudaStream_t stream, void (*kernel)(P), dim3 grid, dim3 block, size_t shared_bytes,
            bool is_early, const P &arguments)
{
    auto *call = new kernel_call<P>;
    call->grid = grid;
    call->block = block;
    call->shared_bytes = shared_bytes;
    call->bytes = sizeof(*call);
    call->kernel = kernel;
    call->function = (const void *)kernel;
    call->is_early = is_early;
    call->arguments = arguments;
    enqueue(stream, call);
}

/* ---- For the kernel that runs ---------------------------------------------------------------- */

struct place {
    dim3 thread, block, n_threads, n_blocks;
};
extern place now;

char *shared();
void red_zone(size_t begin, size_t end); /* of shared memory */
/* The thread has waited for the kernel before this one. Every thread has to; what it accesses
 * before is not ordered behind that kernel, which the race build reports. */
void await_previous();

void block_barrier(const char *file, int line);
void warp_barrier(const char *file, int line);
int lane();

/* Every lane of the warp brings `bytes` at `mine`; [32] of them come back, the caller's copy until
 * the next but one such call. If `join` is not NULL, the last lane to come calls it on them. */
enum { MAX_LANE_BYTES = 64 };
const void *gather(const void *mine, size_t bytes, void (*join)(void *lanes));

/* Work of a lane on what all have brought, which is not an access of the kernel. */
void copy_later(void *to, const void *from, size_t bytes, bool is_wanted);
void copy_commit();
void copy_wait(size_t n_groups); /* for all but the last n */

/* Matrix instructions, see device/cuda/tensor.h. */
void share_matrices(uint32_t *m, const uint32_t *row);
void share_transposed(uint32_t *m, const uint32_t *row);
void multiply_f16(float *d, const uint32_t *a, const uint32_t *b);
void multiply_bf16(float *d, const uint32_t *a, const uint32_t *b);
void multiply_int8(int32_t *d, const uint32_t *a, const uint32_t *b);

float float_of_f16(uint16_t bits);
uint16_t f16_of_float(float x);

/* Off by up to so many half units in the last place, as instructions that approximate are. */
float approximate(float exact, float half_units);

void exchange(void *value, size_t bytes, int from); /* gets what lane `from` brings */

template <class T> T shuffle(T value, int from)
{
    exchange(&value, sizeof(T), from & 31);
    return value;
}

template <class T> T shuffle_up(T value, int by)
{
    return shuffle(value, lane() >= by ? lane() - by : lane());
}

template <class T> T shuffle_down(T value, int by)
{
    return shuffle(value, lane() + by < 32 ? lane() + by : lane());
}

unsigned ballot(bool vote);
void check_mask(unsigned mask); /* only whole warps shuffle and vote */
} // namespace emulate

#define threadIdx (emulate::now.thread)
#define blockIdx (emulate::now.block)
#define blockDim (emulate::now.n_threads)
#define gridDim (emulate::now.n_blocks)
#define __syncthreads() emulate::block_barrier(__FILE__, __LINE__)
#define __syncwarp() emulate::warp_barrier(__FILE__, __LINE__)
#define __shfl_sync(mask, x, from) (emulate::check_mask(mask), emulate::shuffle(x, from))
#define __shfl_xor_sync(mask, x, bits)                                                             \
    (emulate::check_mask(mask), emulate::shuffle(x, emulate::lane() ^ (bits)))
#define __shfl_up_sync(mask, x, by) (emulate::check_mask(mask), emulate::shuffle_up(x, by))
#define __shfl_down_sync(mask, x, by) (emulate::check_mask(mask), emulate::shuffle_down(x, by))
#define __ballot_sync(mask, vote) (emulate::check_mask(mask), emulate::ballot(vote))
#define __any_sync(mask, vote) (emulate::check_mask(mask), emulate::ballot(vote) != 0)
#define __popc(x) __builtin_popcount(x)
#define __ffs(x) __builtin_ffs((int)(x))
#define __clz(x) ((x) == 0 ? 32 : __builtin_clz((unsigned)(x)))
#define __fadd_rn(x, y) ((x) + (y)) /* compiled without contraction */
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __fsqrt_rn(x) sqrtf(x)
#define __float2int_rn(x) ((int)rintf(x))
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)

#endif
