/* runtime.h - the functions of the CUDA runtime that the backend uses, over the emulator.
 *
 * Names, numbers and meanings are CUDA's. Work of a stream waits until somebody waits for it: for
 * the stream, for an event behind the work, or for all. So a host that reads too early, or that
 * changes what a copy has not read yet, shows. What a capture records are the arguments of then.
 * Any thread may call, on the device that it has set; one lock guards all. Devices have their own
 * memory, streams and faults.
 */
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include <cstddef>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
};

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

enum { cudaSharedmemCarveoutMaxShared = 100 };

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed,
};

enum {
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
};

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
struct cudaDeviceProp {
    char name[256];
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
struct cudaFuncAttributes {
    int ptxVersion;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel);
template <class P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P))
{
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
template <class P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P), cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void *memory, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, struct emulated_node **nodes, size_t *n);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

namespace emulate
{
/* The machine that is emulated, and what goes wrong on it. Tests set it before they use the device;
 * those of a whole program name files, which mean the same as soon as they are there, for all
 * devices or, with their number behind (FILE.1), for one: EMULATED_FAULT, the next kernel faults;
 * EMULATED_HANG, events never come. EMULATED_DEVICES says how many there are. */
int devices_of_program();
struct machine {
    int n_devices = devices_of_program(), driver = 13000, major = 9, minor = 0,
        n_multiprocessors = 132;
    int compiled_for = 90; /* what the kernels are; newer than the device, it has none */
    size_t memory_bytes = (size_t)8 << 30, /* of each device */
        shared_bytes = 232448;
    int launches_until_fault = -1; /* then a kernel faults, and every call says so ever after */
    bool hangs = false;            /* events never come, unless somebody waits for them */
    bool refuses = false;          /* devices are others' */
    bool captures_fail = false;
    bool early_captures_fail = false; /* of kernels that may begin early */
    size_t node_bytes = 4096;         /* of device memory, for a node of a graph */
    size_t kernel_bytes = 4096; /* likewise, that must be left when a kernel is launched first;
                                 * with CUDA_MODULE_LOADING=EAGER all are there before */
    /* seen: */
    size_t n_asked = 0;                    /* attributes of kernels that were set */
    size_t n_recorded = 0, n_replayed = 0; /* graphs */
    unsigned used = 0;                     /* bits: devices that memory was asked of, or given */
};
extern struct machine machine;
size_t memory_held();                     /* of all devices, by cudaMalloc */
void fill(int device, size_t left_bytes); /* leaves it so much of its memory */
void revive();                            /* forgets a fault, for the next test */
} // namespace emulate

#endif
