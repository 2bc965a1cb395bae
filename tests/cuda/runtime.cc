#include "runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

#include "emulate.h"
#include "memory.h"

struct emulate::machine emulate::machine;
using emulate::machine;

struct emulated_stream;
using operation = std::function<void(emulated_stream *)>; /* whose turn it is */

/* Uploaded, it takes memory. Work that is under way shares in `under_way`. */
struct emulated_graph {
    std::vector<operation> operations;
    void *memory = nullptr;
    std::shared_ptr<int> under_way = std::make_shared<int>();
};

struct emulated_stream {
    int device = 0;
    std::deque<operation> queue;
    emulated_graph *capture = nullptr;
    bool is_capture_broken = false;
    uint32_t last_launch = 0;
};

/* Where an event was recorded last, and whether the stream has come there. */
struct mark {
    emulated_stream *stream;
    bool is_reached = false;
};

struct emulated_event {
    std::shared_ptr<mark> last;
};

static std::recursive_mutex lock;
static std::set<emulated_stream *> streams;
enum { MAX_DEVICES = 8, EVERY_GPU_HAS = 48 << 10 /* shared memory, for a block */ };
static cudaError_t faults[MAX_DEVICES];                   /* of kernels: for ever */
static std::set<const void *> loaded[MAX_DEVICES];        /* kernels */
static std::set<const void *> asked[MAX_DEVICES];         /* kernels, for much shared memory */
static thread_local int current;                          /* device */
static thread_local cudaError_t last_error = cudaSuccess; /* of a call */
using guard = std::lock_guard<std::recursive_mutex>;

int emulate::devices_of_program()
{
    const char *n = getenv("EMULATED_DEVICES");
    return n && atoi(n) > 0 && atoi(n) <= MAX_DEVICES ? atoi(n) : 1;
}

static cudaError_t finish(cudaError_t error)
{
    if (faults[current] != cudaSuccess)
        error = faults[current];
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

void emulate::revive()
{
    guard g(lock);
    last_error = cudaSuccess;
    for (cudaError_t &fault : faults)
        fault = cudaSuccess;
    for (std::set<const void *> &kernels : loaded)
        kernels.clear();
    for (emulated_stream *stream : streams)
        stream->queue.clear();
    machine = {};
}

size_t emulate::memory_held()
{
    guard g(lock);
    return ::memory_held(ALL_DEVICES);
}

void emulate::fill(int device, size_t left_bytes)
{
    guard g(lock);
    machine.memory_bytes = ::memory_held(device) + left_bytes;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void add(emulated_stream *stream, operation each)
{
    if (stream->capture)
        stream->capture->operations.push_back(std::move(each));
    else
        stream->queue.push_back(std::move(each));
}

static void run_first(emulated_stream *stream)
{
    operation first = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (faults[stream->device] == cudaSuccess)
        first(stream);
}

static void drain(emulated_stream *stream)
{
    while (!stream->queue.empty())
        run_first(stream);
}

static void drain_device()
{
    for (emulated_stream *stream : streams)
        if (stream->device == current)
            drain(stream);
}

static void reach(const std::shared_ptr<mark> &mark)
{
    while (mark && !mark->is_reached && !mark->stream->queue.empty())
        run_first(mark->stream);
}

/* Whether the file is there that an environment variable names, or the one of the device. */
static bool is_told(const char *variable, int device)
{
    const char *file = getenv(variable);
    return file && (access(file, F_OK) == 0 ||
                    access((file + ("." + std::to_string(device))).c_str(), F_OK) == 0);
}

static void run_kernel(const emulate::work *work, emulated_stream *stream)
{
    if (machine.launches_until_fault == 0 || is_told("EMULATED_FAULT", stream->device)) {
        faults[stream->device] = cudaErrorIllegalAddress;
        return;
    }
    if (machine.launches_until_fault > 0)
        machine.launches_until_fault--;
    emulate::execute(work, stream->device, &stream->last_launch);
}

static size_t memory_left()
{
    return machine.memory_bytes - ::memory_held(current);
}

/* By its first launch, unless all kernels were loaded before; false: there is no memory for it. */
static bool load(const void *kernel)
{
    const char *loading = getenv("CUDA_MODULE_LOADING");
    bool is_there = (loading && strcmp(loading, "EAGER") == 0) || loaded[current].count(kernel);
    if (is_there || memory_left() < machine.kernel_bytes)
        return is_there;
    loaded[current].insert(kernel);
    return true;
}

void emulate::enqueue(cudaStream_t stream, const work *owned)
{
    guard g(lock);
    std::shared_ptr<const emulate::work> work(owned);
    if (on_launch) {
        on_launch(owned);
        return;
    }
    bool is_asked = work->shared_bytes <= EVERY_GPU_HAS || asked[current].count(work->function);
    if (!is_asked || work->shared_bytes > machine.shared_bytes) {
        finish(cudaErrorInvalidValue);
        return;
    }
    if (!load(work->function)) {
        finish(cudaErrorMemoryAllocation);
        return;
    }
    stream->is_capture_broken |= machine.early_captures_fail && work->is_early;
    add(stream, [work](emulated_stream *on) { run_kernel(work.get(), on); });
}

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    memory_open();
    memmove(to, from, bytes);
    memory_written(to, bytes);
    memory_close();
}

static void set_bytes(void *memory, int value, size_t bytes)
{
    memory_open();
    memset(memory, value, bytes);
    memory_written(memory, bytes);
    memory_close();
}

/* What the direction says is the device's must be that. */
static bool is_copy_right(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return (!to_device || memory_has(to, bytes)) && (!from_device || memory_has(from, bytes));
}

/* ---- Errors and devices ---------------------------------------------------------------------- */

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable:
        return "cudaErrorDevicesUnavailable";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
    default:
        return "cudaErrorInvalidValue";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorDevicesUnavailable:
        return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    default:
        return "invalid argument";
    }
}

cudaError_t cudaGetLastError()
{
    guard g(lock);
    cudaError_t error = finish(last_error);
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError()
{
    guard g(lock);
    return finish(last_error);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = machine.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    guard g(lock);
    *n = machine.n_devices;
    if (machine.driver < 13000)
        return finish(cudaErrorInsufficientDriver);
    return finish(machine.n_devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    guard g(lock);
    if (device < 0 || device >= machine.n_devices)
        return finish(cudaErrorInvalidDevice);
    if (machine.refuses)
        return finish(cudaErrorDevicesUnavailable);
    current = device;
    return finish(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *)
{
    guard g(lock);
    attributes->ptxVersion = machine.compiled_for;
    return finish(machine.compiled_for <= 10 * machine.major + machine.minor
                      ? cudaSuccess
                      : cudaErrorNoKernelImageForDevice);
}

/* More than there is cannot be had. */
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    guard g(lock);
    machine.n_asked++;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return finish(cudaSuccess);
    asked[current].insert(kernel);
    return finish((size_t)value <= machine.shared_bytes ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    guard g(lock);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = machine.n_multiprocessors;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = machine.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = machine.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)machine.shared_bytes;
        break;
    }
    return finish(device >= 0 && device < machine.n_devices ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    guard g(lock);
    *properties = {};
    strcpy(properties->name, "emulated GPU");
    return finish(device >= 0 && device < machine.n_devices ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    guard g(lock);
    *total_bytes = machine.memory_bytes;
    *free_bytes = memory_left();
    return finish(cudaSuccess);
}

/* A thread that asks for the device ends what another one captures on it. */
static bool ends_captures()
{
    bool is_any = false;
    for (emulated_stream *stream : streams)
        if (stream->device == current && stream->capture)
            is_any = stream->is_capture_broken = true;
    return is_any;
}

cudaError_t cudaDeviceSynchronize()
{
    guard g(lock);
    if (ends_captures())
        return finish(cudaErrorStreamCaptureUnsupported);
    drain_device();
    return finish(cudaSuccess);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    guard g(lock);
    *memory = nullptr;
    machine.used |= 1u << current;
    if (faults[current] != cudaSuccess || bytes > memory_left())
        return finish(cudaErrorMemoryAllocation);
    *memory = memory_take(bytes, false, current);
    return cudaSuccess;
}

/* As CUDA's, it waits for all work of the device. */
cudaError_t cudaFree(void *memory)
{
    guard g(lock);
    machine.used |= 1u << current;
    drain_device();
    return finish(!memory || memory_give(memory) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    guard g(lock);
    *memory = faults[current] == cudaSuccess ? memory_take(bytes, true, current) : nullptr;
    return finish(cudaSuccess);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    guard g(lock);
    if (faults[current] == cudaSuccess && !is_copy_right(to, from, bytes, kind))
        return finish(cudaErrorInvalidValue);
    if (faults[current] == cudaSuccess)
        copy_bytes(to, from, bytes);
    return finish(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    guard g(lock);
    if (!is_copy_right(to, from, bytes, kind))
        return finish(cudaErrorInvalidValue);
    add(stream, [=](emulated_stream *) { copy_bytes(to, from, bytes); });
    return finish(cudaSuccess);
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    guard g(lock);
    if (!memory_has(memory, bytes))
        return finish(cudaErrorInvalidValue);
    set_bytes(memory, value, bytes);
    return finish(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    guard g(lock);
    if (!memory_has(memory, bytes))
        return finish(cudaErrorInvalidValue);
    add(stream, [=](emulated_stream *) { set_bytes(memory, value, bytes); });
    return finish(cudaSuccess);
}

/* ---- Streams and events ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    guard g(lock);
    *stream = new emulated_stream;
    (*stream)->device = current;
    streams.insert(*stream);
    return finish(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    guard g(lock);
    drain(stream);
    streams.erase(stream);
    delete stream;
    return finish(cudaSuccess);
}

/* Waiting for a stream that is being captured ends the capture. */
static bool is_capturing(emulated_stream *stream)
{
    stream->is_capture_broken |= stream->capture != nullptr;
    return stream->capture != nullptr;
}

/* NULL: the stream of calls that are given none, which have done their work. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    guard g(lock);
    if (!stream)
        return finish(cudaSuccess);
    if (is_capturing(stream))
        return finish(cudaErrorStreamCaptureUnsupported);
    drain(stream);
    return finish(cudaSuccess);
}

/* The work gets done between this question and the next. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    guard g(lock);
    if (!stream)
        return finish(cudaSuccess);
    if (is_capturing(stream))
        return finish(cudaErrorStreamCaptureUnsupported);
    if (stream->queue.empty())
        return finish(cudaSuccess);
    if (!machine.hangs && !is_told("EMULATED_HANG", stream->device))
        drain(stream);
    return finish(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    guard g(lock);
    std::shared_ptr<mark> last = event->last;
    add(stream, [last](emulated_stream *) { reach(last); });
    return finish(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new emulated_event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    guard g(lock);
    delete event;
    return finish(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    guard g(lock);
    auto last = std::make_shared<mark>();
    last->stream = stream;
    event->last = last;
    add(stream, [last](emulated_stream *) { last->is_reached = true; });
    return finish(cudaSuccess);
}

/* The work gets done between this question and the next. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    guard g(lock);
    if (!event->last || event->last->is_reached)
        return finish(cudaSuccess);
    if (!machine.hangs && !is_told("EMULATED_HANG", event->last->stream->device))
        reach(event->last);
    return finish(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    guard g(lock);
    reach(event->last);
    return finish(cudaSuccess);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    guard g(lock);
    if (stream->capture)
        return finish(cudaErrorInvalidValue);
    stream->capture = new emulated_graph;
    stream->is_capture_broken = false;
    return finish(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    guard g(lock);
    *graph = stream->capture;
    stream->capture = nullptr;
    if (!*graph)
        return finish(cudaErrorInvalidValue);
    if (!stream->is_capture_broken && !machine.captures_fail)
        return finish(cudaSuccess);
    delete *graph;
    *graph = nullptr;
    return finish(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, struct emulated_node **nodes, size_t *n)
{
    guard g(lock);
    *n = graph->operations.size();
    return finish(nodes ? cudaErrorInvalidValue : cudaSuccess); /* nobody wants them */
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    guard g(lock);
    *exec = new emulated_graph{graph->operations};
    return finish(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t)
{
    guard g(lock);
    cudaError_t error = cudaMalloc(&exec->memory, exec->operations.size() * machine.node_bytes);
    machine.n_recorded += error == cudaSuccess;
    return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    guard g(lock);
    for (const operation &each : exec->operations)
        add(stream, [each, mine = exec->under_way](emulated_stream *on) { each(on); });
    machine.n_replayed++;
    return finish(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

/* Its memory goes, and so its work must have ended. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    guard g(lock);
    bool is_running = exec->under_way.use_count() > 1;
    memory_give(exec->memory);
    delete exec;
    return finish(is_running ? cudaErrorInvalidValue : cudaSuccess);
}
