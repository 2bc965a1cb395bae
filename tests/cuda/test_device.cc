/* Opening and closing a GPU, and waiting for it: what is refused and how, which devices are woken
 * up, what other threads may do while one records, and what becomes of those who wait for a GPU
 * that hangs. */
#include "suites.h"

#include <ctime>
#include <thread>

#include "canaries.h"
#include "device/cuda/backend.h"
#include "device/cuda/buffer.h"
#include "device/cuda/weights.h"
#include "device/cuda/wait.h"
#include "support.h"

extern "C" int device_cuda_open(int ordinal, struct device **device, struct acre_err *err);

static void check_refused(const char *why)
{
    struct device *device = NULL;
    struct acre_err err = {};
    assert_int_equal(device_cuda_open(0, &device, &err), ACRE_EUNSUPPORTED);
    if (!strstr(err.text, why))
        fail_msg("expected \"%s\", found \"%s\"", why, err.text);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess); /* nothing is left for a poll */
    emulate::revive();
}

static void test_refused(void **)
{
    emulate::revive();
    emulate::machine.driver = 0;
    check_refused("expected an NVIDIA driver, found none");
    emulate::machine.driver = 12040;
    check_refused("expected a driver for CUDA 13.0 or newer, found one for 12.4");
    emulate::machine.n_devices = 0;
    check_refused("expected an NVIDIA GPU, found none");
    emulate::machine.major = 7;
    check_refused("expected a GPU of compute capability 7.5 or newer, found 7.0");
    emulate::machine.major = 8;
    check_refused("expected kernels for compute capability 8.0 in the library, found none");
    emulate::machine.refuses = true;
    check_refused("cudaErrorDevicesUnavailable");
}

static void check_opened(int major, int compiled_for, enum number_type half,
                         enum cuda_launches launches)
{
    struct device *device = NULL;
    struct acre_err err = {};
    emulate::machine.major = major;
    emulate::machine.compiled_for = compiled_for;
    if (device_cuda_open(0, &device, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(cuda_device_of(device)->half, half);
    assert_int_equal(cuda_device_of(device)->launches, launches);
    device_close(device);
    emulate::revive();
}

/* A new GPU does with kernels of an older one what these can. */
static void test_what_kernels_can(void **)
{
    check_opened(9, 90, NUMBER_BF16, LAUNCHES_OVERLAPPING);
    check_opened(12, 90, NUMBER_BF16, LAUNCHES_OVERLAPPING);
    check_opened(9, 80, NUMBER_BF16, LAUNCHES_RECORDED);
    check_opened(9, 75, NUMBER_F16, LAUNCHES_RECORDED);
    check_opened(8, 80, NUMBER_BF16, LAUNCHES_RECORDED);
}

static int open_stream(size_t shared_bytes, const struct stream_limits &limits)
{
    struct device *device = NULL;
    struct stream *stream = NULL;
    emulate::revive();
    emulate::machine.shared_bytes = shared_bytes;
    assert_int_equal(device_cuda_open(0, &device, NULL), 0);
    int status = cuda_stream_open(device, &limits, &stream);
    cuda_stream_close(stream);
    device_close(device);
    emulate::revive();
    return status;
}

enum : size_t { SHARED_SM_75 = 65536, SHARED_SM_86 = 101376, SHARED_SM_90 = 232448 };

/* Products of heads and keys of areas have rows of a head in shared memory: an LSTM's are wide. */
static void test_too_wide_heads(void **)
{
    struct stream_limits limits = {};
    limits.max_memory = 16;
    limits.max_head_width = limits.max_width = 1600;
    limits.max_planes = 2;
    limits.max_rows = 1;
    limits.has_areas = true;
    assert_int_equal(open_stream(SHARED_SM_75, limits), 0);
    limits.has_area_keys = true;
    assert_int_equal(open_stream(SHARED_SM_75, limits), ACRE_EUNSUPPORTED);
    assert_int_equal(open_stream(SHARED_SM_86, limits), ACRE_EUNSUPPORTED);
    assert_int_equal(open_stream(SHARED_SM_90, limits), 0);
}

/* Plain attention needs less than its pictures, for which areas are taken one by one. */
static void test_too_large_pictures(void **)
{
    struct stream_limits limits = {};
    limits.max_memory = 1024;
    limits.max_head_width = limits.max_width = 64;
    limits.max_planes = MAX_AREA_WIDTH;
    limits.max_rows = 1;
    assert_int_equal(open_stream(SHARED_SM_75, limits), 0);
    limits.is_shown = true;
    assert_int_equal(open_stream(SHARED_SM_75, limits), ACRE_EUNSUPPORTED);
    assert_int_equal(open_stream(SHARED_SM_86, limits), 0);
}

/* Whoever closes may never have used the device, and wakes no other one up. */
static void test_closed_by_another_thread(void **)
{
    struct device *device = NULL;
    struct buffer *buffer = NULL;
    emulate::revive();
    emulate::machine.n_devices = 2;
    assert_int_equal(device_cuda_open(1, &device, NULL), 0);
    assert_int_equal(cuda_buffer_open(device, 4, 300, &buffer), 0);
    emulate::machine.used = 0;
    std::thread([&] {
        cuda_buffer_close(buffer);
        device_close(device);
    }).join();
    assert_int_equal(emulate::machine.used, 1 << 1);
    cudaSetDevice(0);
    emulate::revive();
}

static int open_weight(struct device *device, size_t n, size_t k, struct acre_err *err)
{
    std::vector<float> numbers(n * k, 1.0f);
    struct weight_part part = {};
    struct weight *weight = NULL;
    part.weight.data = numbers.data();
    part.weight.dtype = DTYPE_F32;
    part.weight.n_dims = 2;
    part.weight.shape[0] = n;
    part.weight.shape[1] = k;
    part.scale = 1.0f;
    int status = device_bind_weight(device, COMPUTE_F32, &part, 1, "a weight", &weight, err);
    cuda_weight_close(weight);
    return status;
}

/* It is the GPU's, and not the host's. */
static void test_free_memory_is_told(void **)
{
    struct device *device = NULL;
    struct acre_err err = {};
    emulate::revive();
    assert_int_equal(device_cuda_open(0, &device, NULL), 0);
    emulate::fill(0, 3 << 20);
    assert_int_equal(open_weight(device, 1024, 1024, &err), ACRE_ENOMEM);
    assert_string_equal(err.text, "a weight: expected memory for the packed weights, found 3 MiB "
                                  "free on cuda:0 emulated GPU (sm_90)");
    device_close(device);
    emulate::revive();
}

/* What weights go over by, which all of a device share, is asked for again. */
static void test_memory_for_weights_comes_back(void **)
{
    struct device *device = NULL;
    emulate::revive();
    assert_int_equal(device_cuda_open(0, &device, NULL), 0);
    emulate::fill(0, 1 << 20);
    assert_int_equal(open_weight(device, 8, 8, NULL), ACRE_ENOMEM);
    emulate::fill(0, 32 << 20);
    assert_int_equal(open_weight(device, 8, 8, NULL), 0);
    device_close(device);
    emulate::revive();
}

/* Another thread opens a model meanwhile: neither hinders the other. */
static void test_memory_while_another_thread_records(void **)
{
    cudaGraph_t graph = NULL;
    struct gpu_memory memory = {};
    device_array<float> number(std::vector<float>(1, 0.0f));
    assert_int_equal(cudaStreamBeginCapture(test_stream(), cudaStreamCaptureModeThreadLocal), 0);
    std::thread([&] {
        float *numbers;
        gpu_take(&memory, &numbers, 100, GPU_ZEROED);
        gpu_release(&memory);
    }).join();
    add_one_launch(test_stream(), {number, 1, 1.0f});
    assert_int_equal(memory.error, cudaSuccess);
    assert_int_equal(cudaStreamEndCapture(test_stream(), &graph), cudaSuccess);
    cudaGraphDestroy(graph);
}

/* A launch that fails is told by the next poll, whatever is waited for until then. */
static void test_failed_launches_are_not_forgotten(void **)
{
    cudaEvent_t event;
    device_array<float> number(std::vector<float>(1, 0.0f));
    emulate::revive();
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    add_one_launch(test_stream(), {number, 1, 1.0f});
    cudaEventRecord(event, test_stream());
    emulate::machine.shared_bytes = 1;
    canary_launch(test_stream(), {});
    assert_int_equal(gpu_wait(0, event), cudaErrorInvalidValue);
    assert_int_equal(gpu_wait(0, test_stream()), cudaErrorInvalidValue);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    cudaGetLastError();
    assert_int_equal(gpu_wait(0, event), cudaSuccess);
    cudaEventDestroy(event);
    emulate::revive();
}

/* What is given back of a lost device fails; the thread's next calls go to another one. */
static void test_lost_memory_is_no_error(void **)
{
    struct gpu_memory memory = {};
    cudaStream_t stream;
    float *number;
    emulate::revive();
    emulate::machine.n_devices = 2;
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    gpu_take(&memory, &number, 1, GPU_ZEROED);
    emulate::machine.launches_until_fault = 0;
    add_one_launch(stream, {number, 1, 1.0f});
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    gpu_release(&memory);
    cudaSetDevice(0);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    cudaStreamDestroy(stream);
    emulate::revive();
}

/* Once one has waited for so long, nobody does again; other devices go on. */
static void check_given_up()
{
    time_t start = time(NULL);
    for (int i = 0; i < 100; i++)
        assert_int_equal(gpu_wait(0, test_stream()), cudaErrorNotReady);
    assert_in_range(time(NULL) - start, 0, LOST_S / 2);
    assert_true(gpu_is_abandoned(0));
    assert_false(gpu_is_abandoned(1));
}

/* Nor when weights are loaded; other devices have theirs. */
static void test_loading_ends_where_one_hangs(void **)
{
    leaks_allowed of_what_a_hung_gpu_keeps;
    struct device *device = NULL;
    emulate::revive();
    emulate::machine.n_devices = 4;
    assert_int_equal(device_cuda_open(3, &device, NULL), 0);
    emulate::machine.hangs = true;
    assert_int_equal(open_weight(device, 8, 8, NULL), ACRE_EDEVICE);
    assert_int_equal(open_weight(device, 8, 8, NULL), ACRE_EDEVICE);
    emulate::revive(); /* nothing is under way any more */
    device_close(device);
    cudaSetDevice(0);
}

/* Where one is given up, pinned memory is not given back, and yet does not grow. */
static void test_pinned_memory_is_used_again(void **)
{
    int *first, *second, *other;
    for (int **numbers : {&first, &second}) {
        struct gpu_memory memory = {};
        gpu_take(&memory, numbers, 100, GPU_PINNED);
        assert_int_equal((*numbers)[0], 0);
        (*numbers)[0] = 1;
        gpu_take(&memory, &other, 50, GPU_PINNED);
        gpu_release(&memory);
    }
    assert_true(first == second);
}

/* The last: memory is not given back any more. */
static void test_nobody_waits_for_ever(void **)
{
    cudaEvent_t event;
    device_array<float> number(std::vector<float>(1, 0.0f));
    emulate::revive();
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    add_one_launch(test_stream(), {number, 1, 1.0f});
    cudaEventRecord(event, test_stream());
    assert_int_equal(gpu_wait(0, event), cudaSuccess);
    assert_int_equal(gpu_wait(0, test_stream()), cudaSuccess);
    assert_false(gpu_is_abandoned(0));
    emulate::machine.hangs = true;
    add_one_launch(test_stream(), {number, 1, 1.0f});
    assert_int_equal(gpu_wait(0, test_stream()), cudaErrorNotReady);
    check_given_up();
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    cudaEventDestroy(event);
    emulate::revive();
}

int device_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_what_kernels_can),
        cmocka_unit_test(test_too_wide_heads),
        cmocka_unit_test(test_too_large_pictures),
        cmocka_unit_test(test_closed_by_another_thread),
        cmocka_unit_test(test_free_memory_is_told),
        cmocka_unit_test(test_memory_for_weights_comes_back),
        cmocka_unit_test(test_memory_while_another_thread_records),
        cmocka_unit_test(test_failed_launches_are_not_forgotten),
        cmocka_unit_test(test_lost_memory_is_no_error),
        cmocka_unit_test(test_loading_ends_where_one_hangs),
        cmocka_unit_test(test_pinned_memory_is_used_again),
        cmocka_unit_test(test_nobody_waits_for_ever),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
