/* The CUDA backend: opening a GPU, and the table of its operations.
 *
 * Opening fails with what there is and what is needed: no driver, too old a one, no such GPU, too
 * old a GPU. */
#include <cstdio>
#include <cstdlib>

#include "device/cuda/attention.h"
#include "device/cuda/convert.h"
#include "device/cuda/products.h"
#include "device/cuda/recurrent.h"

enum {
    LEAST_CAPABILITY = 75,   /* of what kernels are compiled for, times 10 */
    HALF_CAPABILITY = 80,    /* that has bf16 */
    OVERLAP_CAPABILITY = 90, /* whose kernels may begin early */
};

static void cuda_close(struct device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    if (cuda->stream && !gpu_is_abandoned(cuda->ordinal)) {
        cuda_use(cuda);
        cudaStreamDestroy(cuda->stream);
    }
    gpu_release(&cuda->memory);
    pthread_mutex_destroy(&cuda->loading);
    mem_free(cuda);
}

static size_t cuda_free_bytes(const struct device *device)
{
    size_t free_bytes = 0, all_bytes = 0;
    cuda_use(cuda_device_of(device));
    cudaMemGetInfo(&free_bytes, &all_bytes);
    return free_bytes;
}

static const struct device_ops *operations()
{
    static struct device_ops ops;
    ops.close = cuda_close;
    ops.free_bytes = cuda_free_bytes;
    ops.weight_open = cuda_weight_open;
    ops.weights_order = cuda_weights_order;
    ops.norm_open = cuda_norm_open;
    ops.embedding_open = cuda_embedding_open;
    ops.position_embedding_open = cuda_position_embedding_open;
    ops.area_key_open = cuda_area_key_open;
    ops.weight_close = cuda_weight_close;
    ops.norm_close = cuda_norm_close;
    ops.embedding_close = cuda_embedding_close;
    ops.position_embedding_close = cuda_position_embedding_close;
    ops.area_key_close = cuda_area_key_close;
    ops.stream_open = cuda_stream_open;
    ops.buffer_open = cuda_buffer_open;
    ops.rows_open = cuda_rows_open;
    ops.store_open = cuda_store_open;
    ops.store_token_bytes = cuda_store_token_bytes;
    ops.stream_close = cuda_stream_close;
    ops.buffer_close = cuda_buffer_close;
    ops.rows_close = cuda_rows_close;
    ops.store_close = cuda_store_close;
    ops.enter = cuda_enter;
    ops.force = cuda_force;
    ops.drop = cuda_drop;
    ops.run = cuda_run;
    ops.poll = cuda_poll;
    ops.embed = cuda_embed;
    ops.linear = cuda_linear;
    ops.linear_add = cuda_linear_add;
    ops.layer_norm = cuda_layer_norm;
    ops.linear_add_norm = cuda_linear_add_norm;
    ops.attend = cuda_attend;
    ops.attend_step = cuda_attend_step;
    ops.store_memory = cuda_store_memory;
    ops.attend_memory = cuda_attend_memory;
    ops.lstm_layer = cuda_lstm_layer;
    ops.state_read = cuda_state_read;
    ops.state_write = cuda_state_write;
    ops.search_begin = cuda_search_begin;
    ops.search_output = cuda_search_output;
    ops.search_advance = cuda_search_advance;
    ops.search_force = cuda_search_force;
    ops.memory_weights = cuda_memory_weights;
    ops.read = cuda_read;
    ops.write = cuda_write;
    return &ops;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int find(int ordinal, int *n_gpus, struct acre_err *err)
{
    int driver = 0, runtime = 0, n = 0;
    cudaError_t error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess && driver == 0)
        return err_set(err, ACRE_EUNSUPPORTED, "cuda: expected an NVIDIA driver, found none");
    cudaRuntimeGetVersion(&runtime);
    error = cudaGetDeviceCount(&n);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "cuda: expected a driver for CUDA %d.%d or newer, found one for %d.%d",
                       runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && n == 0))
        return err_set(err, ACRE_EUNSUPPORTED, "cuda: expected an NVIDIA GPU, found none");
    if (error != cudaSuccess)
        return err_set(err, ACRE_EUNSUPPORTED, "cuda: %s: %s", cudaGetErrorName(error),
                       cudaGetErrorString(error));
    if (ordinal >= n)
        return err_set(err, ACRE_EUNSUPPORTED, "cuda:%d: expected a GPU from 0 to %d", ordinal,
                       n - 1);
    *n_gpus = n;
    return 0;
}

static int attribute(int ordinal, enum cudaDeviceAttr which)
{
    int value = 0;
    cudaDeviceGetAttribute(&value, which, ordinal);
    return value;
}

/* The most that the GPU can and ACRE_GPU allows. */
static int choose_launches(struct cuda_device *cuda, int capability, struct acre_err *err)
{
    static const char *const names[] = {"plain", "graphs", "overlap"};
    const char *wanted = getenv("ACRE_GPU");
    int most = capability < OVERLAP_CAPABILITY ? LAUNCHES_RECORDED : LAUNCHES_OVERLAPPING;
    int cap = LAUNCHES_OVERLAPPING;
    while (wanted && *wanted && cap >= 0 && strcmp(names[cap], wanted) != 0)
        cap--;
    if (cap < 0)
        return err_set(err, ACRE_EOPTION,
                       "ACRE_GPU: expected plain, graphs or overlap, found \"%s\"", wanted);
    cuda->launches = (enum cuda_launches)(cap < most ? cap : most);
    return 0;
}

static int refuse(const struct cuda_device *cuda, cudaError_t error, struct acre_err *err)
{
    cudaGetLastError(); /* it is told here, and no poll's to tell */
    return err_set(err, ACRE_EUNSUPPORTED, "cuda:%d: %s: %s", cuda->ordinal,
                   cudaGetErrorName(error), cudaGetErrorString(error));
}

/* What kernels can do on this GPU follows from what they are compiled for, too: PTX of an older
 * architecture, compiled by the driver, lacks what that one lacked. */
static int find_capability(const struct cuda_device *cuda, int of_gpu, int *capability,
                           struct acre_err *err)
{
    int compiled = 0;
    cudaError_t error = cudaSetDevice(cuda->ordinal);
    if (error != cudaSuccess)
        return refuse(cuda, error, err);
    error = convert_compiled_for(&compiled);
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        cudaGetLastError();
        return err_set(err, ACRE_EUNSUPPORTED,
                       "cuda:%d: expected kernels for compute capability %d.%d in the library, "
                       "found none",
                       cuda->ordinal, of_gpu / 10, of_gpu % 10);
    }
    if (error != cudaSuccess)
        return refuse(cuda, error, err);
    *capability = compiled < of_gpu ? compiled : of_gpu;
    return 0;
}

static int describe(struct cuda_device *cuda, struct acre_err *err)
{
    int major = attribute(cuda->ordinal, cudaDevAttrComputeCapabilityMajor);
    int minor = attribute(cuda->ordinal, cudaDevAttrComputeCapabilityMinor);
    if (10 * major + minor < LEAST_CAPABILITY)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "cuda:%d: expected a GPU of compute capability %d.%d or newer, found %d.%d",
                       cuda->ordinal, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10, major, minor);
    int capability = 0, status = find_capability(cuda, 10 * major + minor, &capability, err);
    if (status != 0)
        return status;
    cuda->shared_bytes = (size_t)attribute(cuda->ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    cuda->half = capability < HALF_CAPABILITY ? NUMBER_F16 : NUMBER_BF16;
    struct cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, cuda->ordinal);
    snprintf(cuda->name, sizeof(cuda->name), "cuda:%d %.80s (sm_%d%d)", cuda->ordinal,
             properties.name, major, minor);
    return choose_launches(cuda, capability, err);
}

/* Kernels take memory of the device when they are loaded. By default that is when they are launched
 * first, where there may be none by then, and to have none loses the device. CUDA reads this before
 * anything else is asked of it. What the user says counts. */
static void load_kernels_early()
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

extern "C" int device_cuda_open(int ordinal, struct device **out, struct acre_err *err)
{
    load_kernels_early();
    int n_gpus = 0, status = find(ordinal, &n_gpus, err);
    if (status != 0)
        return status;
    struct cuda_device *cuda = cuda_new<struct cuda_device>();
    if (!cuda)
        return err_set(err, ACRE_ENOMEM, "cuda: no memory for the device");
    cuda->ordinal = ordinal;
    cuda->device.ops = operations();
    cuda->device.name = cuda->name;
    cuda->device.n_workers = 1;
    cuda->device.n_alike = n_gpus;
    cuda->device.runs_ahead = 1;
    cuda->device.has_f16 = true;
    pthread_mutex_init(&cuda->loading, NULL);
    status = describe(cuda, err);
    if (status == 0) {
        cuda_use(cuda);
        cudaError_t error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
        status = error == cudaSuccess ? 0 : refuse(cuda, error, err);
    }
    if (status != 0) {
        cuda_close(&cuda->device);
        return status;
    }
    *out = &cuda->device;
    return 0;
}
