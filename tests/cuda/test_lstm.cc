/* LSTM cells against the CPU's scalar kernel, over whole sentences and in steps. */
#include "suites.h"

#include <algorithm>

#include "device/cuda/lstm.h"
#include "support.h"

extern "C" {
#include "kernels/kernels.h"
}

/* Sentences of several lengths, item by item: hidden [R][C]. */
static std::vector<float> run_sentences(int c, const std::vector<int32_t> &first,
                                        const std::vector<float> &gates,
                                        const std::vector<float> &recurrent)
{
    int n = (int)first.size() - 1, longest = 0;
    device_array<int32_t> d_first(first), d_n(std::vector<int32_t>(1, n));
    device_array<float> d_gates(gates), d_recurrent(recurrent),
        hidden((size_t)(first[(size_t)n] * c));
    device_array<float> cells(std::vector<float>((size_t)(n * c))), carried((size_t)(n * c));
    for (int b = 0; b < n; b++)
        longest = std::max(longest, first[(size_t)b + 1] - first[(size_t)b]);
    cell_task task = {};
    task.gates = d_gates, task.recurrent = d_recurrent;
    task.gates_stride = task.recurrent_stride = 4 * c, task.c = c;
    task.n_rows = d_n, task.first = d_first;
    task.cells = cells, task.cell_stride = (size_t)c;
    task.hidden = {hidden, nullptr, NUMBER_F32, c, c};
    task.carried = {carried, nullptr, NUMBER_F32, c, c};
    for (task.t = 0; task.t < longest; task.t++)
        cell_launch(test_stream(), task, n + 1);
    test_wait();
    std::vector<float> all = hidden.get(), last = carried.get();
    for (int b = 0; b < n; b++)
        assert_memory_equal(&last[(size_t)(b * c)], &all[(size_t)((first[(size_t)b + 1] - 1) * c)],
                            (size_t)c * sizeof(float));
    return all;
}

static void test_sentences(void **)
{
    for (int i = 0; i < 10; i++) {
        int n = random_int(1, 4), c = random_int(1, 200);
        std::vector<int32_t> first = {0};
        for (int b = 0; b < n; b++)
            first.push_back(first.back() + random_int(1, 5));
        std::vector<float> gates = random_numbers((size_t)(first.back() * 4 * c), 1.5f);
        std::vector<float> recurrent = random_numbers((size_t)(n * 4 * c), 1.5f);
        std::vector<float> hidden = run_sentences(c, first, gates, recurrent),
                           sums((size_t)(4 * c));
        for (int b = 0; b < n; b++) {
            std::vector<float> cell((size_t)c), want((size_t)c);
            for (int row = first[(size_t)b]; row < first[(size_t)b + 1]; row++) {
                for (int j = 0; j < 4 * c; j++)
                    sums[(size_t)j] =
                        gates[(size_t)(row * 4 * c + j)] + recurrent[(size_t)(b * 4 * c + j)];
                kernels_scalar.lstm_cell((size_t)c, sums.data(), cell.data(), cell.data(),
                                         want.data());
                std::vector<float> got(hidden.begin() + row * c, hidden.begin() + (row + 1) * c);
                check_near("cell", distance(got, {want.begin(), want.end()}), 2e-6);
            }
        }
        check_schedules("cells",
                        [&] { return bytes_of(run_sentences(c, first, gates, recurrent)); });
    }
}

/* A step reads the states of its parents and writes its own, in both forms of rows. */
static void test_steps(void **)
{
    const int c = 40, m = 3, states = 7;
    std::vector<int32_t> before = {2, 2, 5}, after = {0, 1, 6};
    std::vector<float> cells = random_numbers(states * c, 1), gates = random_numbers(m * 4 * c, 1);
    std::vector<float> zeros((size_t)(m * 4 * c));
    device_array<int32_t> d_before(before), d_after(after), n_rows(std::vector<int32_t>(1, m));
    device_array<float> d_cells(cells), recurrent(zeros);
    device_array<float> d_gates(gates), exact((size_t)(m * c));
    device_array<f16> hidden((size_t)(m * c));
    cell_task task = {};
    task.gates = d_gates, task.recurrent = recurrent;
    task.gates_stride = task.recurrent_stride = 4 * c, task.c = c;
    task.n_rows = n_rows;
    task.cells = d_cells, task.cell_stride = (size_t)c;
    task.before = d_before, task.after = d_after;
    task.hidden = {exact, hidden.at, NUMBER_F16, c, c};
    cell_launch(test_stream(), task, m + 2);
    test_wait();
    std::vector<float> got = exact.get(), now = d_cells.get();
    assert_true(widened(hidden.get()) == widened(narrowed<f16>(got)));
    for (int r = 0; r < m; r++) {
        std::vector<float> want((size_t)c), cell((size_t)c);
        kernels_scalar.lstm_cell((size_t)c, &gates[(size_t)(r * 4 * c)],
                                 &cells[(size_t)(before[(size_t)r] * c)], cell.data(), want.data());
        for (int i = 0; i < c; i++) {
            check_near("h", fabs((double)got[(size_t)(r * c + i)] - want[(size_t)i]), 1e-5);
            check_near("c", fabs((double)now[(size_t)(after[(size_t)r] * c + i)] - cell[(size_t)i]),
                       1e-5);
        }
    }
}

static void test_states(void **)
{
    const int width = 33, m = 4;
    std::vector<float> states = widened(narrowed<f16>(random_numbers(6 * width, 1)));
    std::vector<int32_t> of = {3, -1, 3, 0}, to = {5, -1, 4, 1};
    device_array<float> d_states(states);
    device_array<f16> x((size_t)(m * width));
    device_array<int32_t> d_of(of), d_to(to), n_rows(std::vector<int32_t>(1, m));
    states_task task = {d_states, (size_t)width, d_of, n_rows, x.at, width, width, NUMBER_F16};
    states_read_launch(test_stream(), task, m + 3);
    task.of = d_to;
    states_write_launch(test_stream(), task, m + 3);
    test_wait();
    std::vector<float> now = d_states.get(), read = widened(x.get());
    for (int i = 0; i < width; i++) {
        assert_true(read[(size_t)(width + i)] == 0.0f);
        assert_true(now[(size_t)(5 * width + i)] == states[(size_t)(3 * width + i)]);
        assert_true(now[(size_t)(4 * width + i)] == states[(size_t)(3 * width + i)]);
        assert_true(now[(size_t)(1 * width + i)] == states[(size_t)i]);
        assert_true(now[(size_t)(2 * width + i)] == states[(size_t)(2 * width + i)]);
    }
}

int lstm_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_states),
    };
    return cmocka_run_group_tests_name("lstm", tests, NULL, NULL);
}
