/* backend.h - the CUDA backend: struct device of device/device.h on one NVIDIA GPU.
 *
 * Numbers are of three types: what products with a weight are computed in, float32 for residuals,
 * states and whatever sums are made of, and `half` for what attention and products read where
 * weights are bf16 or int8. Opened and closed by any thread; what is opened on it says who may use
 * that.
 */
#ifndef DEVICE_CUDA_BACKEND_H
#define DEVICE_CUDA_BACKEND_H

#include <pthread.h>

#include "device/cuda/memory.h"
#include "device/cuda/search.h" /* first: it says how the rules are compiled */

extern "C" {
#include "base/error.h"
#include "base/mem.h"
#include "device/device.h"
}

/* How far the host goes in launching passes; ACRE_GPU caps it. */
enum cuda_launches {
    LAUNCHES_PLAIN,       /* one kernel after the other */
    LAUNCHES_RECORDED,    /* passes as graphs (graphs.h) */
    LAUNCHES_OVERLAPPING, /* and kernels begin before those before them have ended (gpu.h) */
};

struct cuda_device {
    struct device device; /* first: device_ops get a pointer to it */
    int ordinal;
    size_t shared_bytes;   /* that a block may have */
    enum number_type half; /* of bf16 and int8: bf16; f16 where the GPU has none */
    enum cuda_launches launches;
    char name[128];
    pthread_mutex_t loading; /* guards what follows: weights are brought over by one thread */
    cudaStream_t stream;
    struct gpu_memory memory;
    float *staging;  /* on the device: rows of weights on their way */
    int32_t *n_rows; /* on the device: how many */
};

inline const struct cuda_device *cuda_device_of(const struct device *device)
{
    return reinterpret_cast<const struct cuda_device *>(device);
}

/* The calling thread's calls go to this GPU. */
inline void cuda_use(const struct cuda_device *device)
{
    cudaSetDevice(device->ordinal);
    gpu_overlaps = device->launches == LAUNCHES_OVERLAPPING;
}

/* What is written for whoever reads a product's result, and what weights of a type are kept in. */
inline enum number_type cuda_half_of(const struct cuda_device *device, enum compute_type type)
{
    return type == COMPUTE_F32 ? NUMBER_F32 : type == COMPUTE_F16 ? NUMBER_F16 : device->half;
}

inline enum number_type cuda_weight_type(const struct cuda_device *device, enum compute_type type)
{
    return type == COMPUTE_INT8 ? NUMBER_INT8 : cuda_half_of(device, type);
}

/* Memory for one that is opened on a device; NULL if there is none. */
template <class T> T *cuda_new()
{
    return static_cast<T *>(mem_calloc(1, sizeof(T)));
}

/* What opening comes to: 0, ACRE_ENOMEM, or ACRE_EDEVICE. */
inline int cuda_status(cudaError_t error)
{
    return error == cudaSuccess                 ? 0
           : error == cudaErrorMemoryAllocation ? ACRE_ENOMEM
                                                : ACRE_EDEVICE;
}

inline int cuda_padded(size_t n, int multiple)
{
    return (int)((n + (size_t)multiple - 1) / (size_t)multiple) * multiple;
}

#endif
