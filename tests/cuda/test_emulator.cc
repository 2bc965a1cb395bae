/* The emulator itself: it finds every fault of the canaries, and nothing where there is none. Which
 * faults a build can find is in the table: some are seen by the race build only. */
#include "suites.h"

#include <thread>

#include "canaries.h"
#include "memory.h"
#include "support.h"

struct canary_case {
    const char *name;
    int emulate::control::*found; /* NULL: nothing */
    bool by_accesses;             /* in the race build only */
};

static const canary_case cases[N_FAULTS] = {
    [NO_FAULT] = {"no fault", nullptr, false},
    [SHUFFLE_AS_BARRIER] = {"a shuffle taken for a barrier", &emulate::control::races, true},
    [VOTE_AS_BARRIER] = {"a vote taken for a barrier", &emulate::control::races, true},
    [WARP_BARRIER_BETWEEN_WARPS] = {"a warp's barrier between warps", &emulate::control::races,
                                    true},
    [PART_OVERRUN] = {"a part of shared memory overrun", &emulate::control::wild, true},
    [ALLOCATION_OVERRUN] = {"an allocation overrun", &emulate::control::wild, true},
    [UNWRITTEN] = {"device memory nobody wrote", &emulate::control::unwritten, true},
    [UNWRITTEN_SHARED] = {"shared memory nobody wrote", &emulate::control::unwritten, true},
    [HOST_MEMORY] = {"memory of the host", &emulate::control::wild, true},
    [EARLY_EXIT] = {"a thread leaves before a barrier", &emulate::control::diverged, false},
    [TWO_BARRIERS] = {"different barriers at once", &emulate::control::diverged, false},
    [THREADS_WRITE_ONE] = {"threads write one place", &emulate::control::races, true},
    [BLOCKS_WRITE_ONE] = {"blocks write one place", &emulate::control::races, true},
    [BLOCKS_READ_AND_WRITE] = {"a block writes what others read", &emulate::control::races, true},
    [WRITTEN_WHILE_READ] = {"written while others read", &emulate::control::races, true},
    [PART_OF_WARP_SHUFFLES] = {"part of a warp shuffles", &emulate::control::diverged, false},
    [MASK_OF_PART] = {"the mask of part of a warp", &emulate::control::diverged, false},
    [COPY_NOT_WAITED_FOR] = {"a copy not waited for", &emulate::control::unwritten, true},
    [READS_TOO_EARLY] = {"a read of what the kernel before writes", &emulate::control::races, true},
    [WRITES_TOO_EARLY] = {"a write of what the kernel before has", &emulate::control::races, true},
    [NEVER_AWAITS] = {"threads that await no kernel", &emulate::control::races, false},
    [WARPS_APART] = {"warps that go their ways", nullptr, false},
    [COPY_WAITED_FOR] = {"a copy waited for", nullptr, false},
};

/* Wrong addresses would be the address sanitizer's, which ends the program: not run there. */
static bool is_left_to_sanitizer(enum fault fault)
{
#if defined(__SANITIZE_ADDRESS__)
    return cases[fault].by_accesses;
#else
    return (fault == ALLOCATION_OVERRUN || fault == HOST_MEMORY) && !emulate::sees_accesses;
#endif
}

static void run_canary(enum fault fault, emulate::order order)
{
    const int n = (2 + CANARY_BLOCKS) * CANARY_THREADS;
    std::vector<float> zeros(CANARY_THREADS);
    device_array<float> memory((size_t)n);
    cudaMemcpy(memory, zeros.data(), sizeof(float) * CANARY_THREADS, cudaMemcpyHostToDevice);
    float *on_heap = new float[1]();
    emulate::test = {};
    emulate::test.quiet = true;
    emulate::test.schedule = order;
    add_one_launch(test_stream(), {memory, CANARY_THREADS, 0.0f}); /* what is before it */
    canary_launch(test_stream(), {memory, on_heap, n, fault});
    test_wait();
    delete[] on_heap;
}

static void test_canaries(void **)
{
    for (int fault = 0; fault < N_FAULTS; fault++) {
        const canary_case *c = &cases[fault];
        if (is_left_to_sanitizer((enum fault)fault))
            continue;
        for (int order = 0; order < emulate::N_ORDERS; order++) {
            run_canary((enum fault)fault, (emulate::order)order);
            const emulate::control &test = emulate::test;
            bool is_visible = c->found && (emulate::sees_accesses || !c->by_accesses);
            if (is_visible && test.*(c->found) == 0)
                fail_msg("%s: not found", c->name);
            if (!c->found && test.found() > 0)
                fail_msg("%s: %d races, %d wild, %d unwritten, %d diverged", c->name, test.races,
                         test.wild, test.unwritten, test.diverged);
        }
    }
}

static void test_host_may_not_read(void **)
{
#if defined(__SANITIZE_ADDRESS__)
    device_array<float> memory(std::vector<float>(16, 1.0f));
    assert_true(memory_is_closed_at(memory.at));
#else
    skip();
#endif
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static const int N = 100;

static void test_work_waits(void **)
{
    device_array<float> memory(std::vector<float>(N, 1.0f));
    add_one_launch(test_stream(), {memory, N, 1.0f});
    assert_true(memory.get()[0] == 1.0f); /* nobody has waited */
    test_wait();
    assert_true(memory.get()[N - 1] == 2.0f);
}

static void test_events(void **)
{
    device_array<float> memory(std::vector<float>(N, 0.0f));
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    assert_int_equal(cudaEventQuery(event), cudaSuccess);
    add_one_launch(test_stream(), {memory, N, 1.0f});
    cudaEventRecord(event, test_stream());
    add_one_launch(test_stream(), {memory, N, 10.0f});
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady); /* until it is asked for */
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaEventQuery(event), cudaSuccess);
    assert_true(memory.get()[0] == 1.0f);
    test_wait();
    assert_true(memory.get()[0] == 11.0f);
    cudaEventDestroy(event);
}

static void test_streams_wait_for_events(void **)
{
    device_array<float> memory(std::vector<float>(N, 1.0f)), copied(N);
    cudaStream_t other;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    add_one_launch(test_stream(), {memory, N, 1.0f});
    cudaEventRecord(event, test_stream());
    cudaStreamWaitEvent(other, event);
    cudaMemcpyAsync(copied, memory, N * sizeof(float), cudaMemcpyDeviceToDevice, other);
    assert_int_equal(cudaStreamSynchronize(other), cudaSuccess);
    assert_true(copied.get()[0] == 2.0f);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    test_wait();
}

/* A replay has the arguments of the capture, and runs nothing while it is captured. */
static void test_graphs(void **)
{
    device_array<float> memory(std::vector<float>(N, 0.0f));
    float *pinned;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    add_one_task task = {memory, N, 1.0f};
    cudaHostAlloc((void **)&pinned, N * sizeof(float), cudaHostAllocMapped);
    assert_int_equal(cudaStreamBeginCapture(test_stream(), cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    add_one_launch(test_stream(), task);
    cudaMemcpyAsync(pinned, memory, N * sizeof(float), cudaMemcpyDeviceToHost, test_stream());
    task.addend = 100.0f;
    assert_int_equal(cudaStreamEndCapture(test_stream(), &graph), cudaSuccess);
    cudaGraphInstantiate(&exec, graph);
    cudaGraphDestroy(graph);
    test_wait();
    assert_true(memory.get()[0] == 0.0f);
    for (int i = 1; i <= 3; i++) {
        cudaGraphLaunch(exec, test_stream());
        test_wait();
        assert_true(pinned[N - 1] == (float)i);
    }
    cudaGraphExecDestroy(exec);
    cudaFreeHost(pinned);
}

static void test_no_wait_in_a_capture(void **)
{
    cudaGraph_t graph;
    cudaStreamBeginCapture(test_stream(), cudaStreamCaptureModeThreadLocal);
    assert_int_equal(cudaStreamSynchronize(test_stream()), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(test_stream(), &graph),
                     cudaErrorStreamCaptureInvalidated);
    emulate::revive();
}

static void test_faults_stay(void **)
{
    device_array<float> memory(std::vector<float>(N, 0.0f));
    void *more;
    emulate::machine.launches_until_fault = 1;
    add_one_launch(test_stream(), {memory, N, 1.0f});
    assert_int_equal(cudaStreamSynchronize(test_stream()), cudaSuccess);
    add_one_launch(test_stream(), {memory, N, 1.0f});
    assert_int_equal(cudaStreamSynchronize(test_stream()), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_not_equal(cudaMalloc(&more, 16), cudaSuccess);
    emulate::revive();
    assert_true(memory.get()[0] == 1.0f);
}

static void test_hanging(void **)
{
    device_array<float> memory(std::vector<float>(N, 0.0f));
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    emulate::machine.hangs = true;
    add_one_launch(test_stream(), {memory, N, 1.0f});
    cudaEventRecord(event, test_stream());
    for (int i = 0; i < 5; i++)
        assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    emulate::revive();
    cudaEventDestroy(event);
}

static void test_memory_ends(void **)
{
    void *memory;
    size_t before = emulate::memory_held();
    emulate::machine.memory_bytes = before + 1000;
    assert_int_equal(cudaMalloc(&memory, 1001), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaMalloc(&memory, 1000), cudaSuccess);
    assert_int_equal(emulate::memory_held(), before + 1000);
    cudaFree(memory);
    emulate::revive();
}

/* By a thread that has not launched anything before. */
static size_t asked_by_launches(int n)
{
    device_array<float> memory(std::vector<float>(1));
    size_t before = emulate::machine.n_asked;
    std::thread([&] {
        cudaStream_t stream = test_stream();
        for (int i = 0; i < n; i++)
            add_one_launch(stream, {memory, 1, 1.0f});
    }).join();
    test_wait();
    return emulate::machine.n_asked - before;
}

/* Its shared memory, and how a multiprocessor's is divided. */
static void test_a_kernel_is_prepared_once(void **)
{
    assert_int_equal(asked_by_launches(1), 2);
    assert_int_equal(asked_by_launches(5), 2);
}

int emulator_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canaries),
        cmocka_unit_test(test_host_may_not_read),
        cmocka_unit_test(test_work_waits),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_streams_wait_for_events),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_no_wait_in_a_capture),
        cmocka_unit_test(test_faults_stay),
        cmocka_unit_test(test_hanging),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_a_kernel_is_prepared_once),
    };
    return cmocka_run_group_tests_name("emulator", tests, NULL, NULL);
}
