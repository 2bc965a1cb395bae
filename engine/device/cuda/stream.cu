#include "device/cuda/stream.h"

#include <algorithm>

#include "device/cuda/attend.h"
#include "device/cuda/attend_areas.h"
#include "device/cuda/linear.h"
#include "device/cuda/wait.h"

static void take(struct stream *stream, const struct stream_limits *limits)
{
    static const int32_t one = 1;
    struct gpu_memory *memory = &stream->memory;
    size_t rows = limits->max_rows, planes = limits->max_planes;
    int depth = linear_depth(NUMBER_INT8, (int)limits->max_width);
    stream->sums_stride = depth;
    gpu_take(memory, &stream->sums, rows * (size_t)depth, GPU_ZEROED);
    gpu_take(memory, &stream->quantised, rows * (size_t)depth, GPU_ZEROED);
    gpu_take(memory, &stream->scales, rows, GPU_ZEROED);
    cuda_upload(memory, &one, sizeof(one), (void **)&stream->one);
    gpu_take(memory, &stream->weights, planes * limits->max_memory);
    if (!limits->has_areas)
        return;
    gpu_take(memory, &stream->rows, rows * (size_t)depth, GPU_ZEROED);
    gpu_take(memory, &stream->turned, rows * (size_t)depth, GPU_ZEROED);
    items_take_all(memory, rows, limits->max_width, planes, &stream->areas);
}

/* Whether what a block keeps in shared memory fits: the scores of a query and, where keys are made
 * of areas, some rows of a head. Pictures take areas one by one, whatever the attention. */
static bool fits(const struct cuda_device *device, const struct stream_limits *limits)
{
    struct area_shape shape = {(int)limits->max_planes, 1, 1, 1, 1};
    int length = (int)limits->max_memory;
    size_t most = attend_bytes(length, MAX_AREA_WIDTH);
    if (limits->has_areas || limits->is_shown)
        most = std::max(most, attend_areas_bytes(&shape, length));
    if (limits->has_area_keys)
        most = std::max(most, head_product_bytes((int)limits->max_head_width));
    return most <= device->shared_bytes;
}

/* For what the driver takes on its own when passes run, as graphs and stacks of kernels. Where that
 * finds none, the device is lost. A stream is opened last of all that a model works with. */
static const size_t LEFT_BYTES = 128 << 20;

/* Pictures, which come and go, may take half of it. */
static cudaError_t leave_memory(const struct stream_limits *limits)
{
    size_t free_bytes = 0, all_bytes = 0, least = limits->is_shown ? LEFT_BYTES / 2 : LEFT_BYTES;
    cudaError_t error = cudaMemGetInfo(&free_bytes, &all_bytes);
    return error != cudaSuccess || free_bytes >= least ? error : cudaErrorMemoryAllocation;
}

int cuda_stream_open(struct device *device, const struct stream_limits *limits, struct stream **out)
{
    if (!fits(cuda_device_of(device), limits))
        return ACRE_EUNSUPPORTED;
    struct stream *stream = cuda_new<struct stream>();
    if (!stream)
        return ACRE_ENOMEM;
    stream->device = cuda_device_of(device);
    cuda_use(stream->device);
    take(stream, limits);
    bool has_graphs = stream->device->launches >= LAUNCHES_RECORDED;
    if (has_graphs)
        stream->graphs = graphs_open();
    if (stream->memory.error == cudaSuccess)
        gpu_note(&stream->memory, cudaStreamCreateWithFlags(&stream->cuda, cudaStreamNonBlocking));
    if (stream->memory.error == cudaSuccess)
        gpu_note(&stream->memory, leave_memory(limits));
    int status = has_graphs && !stream->graphs ? ACRE_ENOMEM : cuda_status(stream->memory.error);
    if (status != 0) {
        cuda_stream_close(stream);
        return status;
    }
    *out = stream;
    return 0;
}

void cuda_stream_close(struct stream *stream)
{
    if (!stream)
        return;
    int device = stream->device->ordinal;
    cuda_use(stream->device);
    cudaGetLastError(); /* no poll's to tell */
    if (stream->cuda)
        gpu_wait(device, stream->cuda);
    if (stream->cuda && !gpu_is_abandoned(device))
        cudaStreamDestroy(stream->cuda);
    graphs_close(stream->graphs, device);
    gpu_release(&stream->memory);
    mem_free(stream);
}
