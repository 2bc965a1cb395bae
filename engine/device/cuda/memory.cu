#include "device/cuda/memory.h"

#include <atomic>
#include <pthread.h>

#include "device/cuda/wait.h"

extern "C" {
#include "base/mem.h"
}

struct gpu_block {
    struct gpu_block *next;
    void *at;
    size_t bytes;
    int device;
    bool is_pinned;
};

enum { MAX_GPUS = 64 };

/* By number; the last is that of all beyond. */
static std::atomic<bool> is_abandoned[MAX_GPUS], is_any_abandoned;

/* Pinned blocks that may not be given back: whoever needs one of the same size has it. Those of a
 * GPU that is given up stay here, for it may still write there. */
static struct gpu_block *kept;
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

static std::atomic<bool> *abandoned(int device)
{
    return &is_abandoned[device < MAX_GPUS ? device : MAX_GPUS - 1];
}

void gpu_abandon(int device)
{
    *abandoned(device) = true;
    is_any_abandoned = true;
}

bool gpu_is_abandoned(int device)
{
    return *abandoned(device);
}

cudaError_t gpu_settle()
{
    int device = 0;
    cudaGetDevice(&device);
    return gpu_wait(device, (cudaStream_t)NULL);
}

/* Of a GPU that is given up nothing is asked: that could take for ever. */
static cudaError_t take(int device, size_t bytes, enum gpu_kind kind, void **at)
{
    if (gpu_is_abandoned(device))
        return cudaErrorNotReady;
    if (kind == GPU_PINNED) {
        cudaError_t error = cudaHostAlloc(at, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
        if (error == cudaSuccess)
            memset(*at, 0, bytes);
        return error;
    }
    cudaError_t error = cudaMalloc(at, bytes);
    if (error == cudaSuccess && kind == GPU_ZEROED)
        error = cudaMemset(*at, 0, bytes);
    return error == cudaSuccess && kind == GPU_ZEROED ? gpu_settle() : error;
}

/* One that was kept, of just so many bytes; NULL: there is none. */
static struct gpu_block *take_kept(size_t bytes)
{
    pthread_mutex_lock(&keeping);
    struct gpu_block **link = &kept, *block;
    while (*link && ((*link)->bytes != bytes || gpu_is_abandoned((*link)->device)))
        link = &(*link)->next;
    block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&keeping);
    if (block) {
        cudaGetDevice(&block->device); /* that may write there from now on */
        memset(block->at, 0, bytes);
    }
    return block;
}

static struct gpu_block *take_new(size_t bytes, enum gpu_kind kind, cudaError_t *error)
{
    struct gpu_block *block = static_cast<struct gpu_block *>(mem_calloc(1, sizeof(*block)));
    *error = cudaErrorMemoryAllocation;
    if (!block)
        return NULL;
    block->bytes = bytes;
    block->is_pinned = kind == GPU_PINNED;
    cudaGetDevice(&block->device);
    *error = take(block->device, bytes, kind, &block->at);
    if (*error == cudaSuccess)
        return block;
    cudaGetLastError(); /* it is told by *error */
    mem_free(block);
    return NULL;
}

void *gpu_take(struct gpu_memory *memory, size_t bytes, enum gpu_kind kind)
{
    if (bytes == 0 || memory->error != cudaSuccess)
        return NULL;
    struct gpu_block *block = kind == GPU_PINNED ? take_kept(bytes) : NULL;
    if (!block)
        block = take_new(bytes, kind, &memory->error);
    if (!block)
        return NULL;
    block->next = memory->blocks;
    memory->blocks = block;
    mem_note((ptrdiff_t)bytes);
    return block->at;
}

/* By a thread that may never have used the device: another one would be woken up for it. */
static void give(const struct gpu_block *block)
{
    cudaSetDevice(block->device);
    if (block->is_pinned)
        cudaFreeHost(block->at);
    else
        cudaFree(block->at);
}

static bool may_give(const struct gpu_block *block)
{
    return block->is_pinned ? !is_any_abandoned : !gpu_is_abandoned(block->device);
}

static void keep(struct gpu_block *block)
{
    pthread_mutex_lock(&keeping);
    block->next = kept;
    kept = block;
    pthread_mutex_unlock(&keeping);
}

/* What a lost device answers is told by its polls, and no error of the thread's next calls. */
void gpu_release(struct gpu_memory *memory)
{
    for (struct gpu_block *block = memory->blocks, *next; block; block = next) {
        next = block->next;
        mem_note(-(ptrdiff_t)block->bytes);
        if (may_give(block)) {
            give(block);
        } else if (block->is_pinned) {
            keep(block);
            continue;
        }
        mem_free(block);
    }
    memory->blocks = NULL;
    cudaGetLastError();
}
