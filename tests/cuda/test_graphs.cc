/* graphs.h by itself, with passes that add numbers; test_replays.cc has translations. */
#include "suites.h"

#include "canaries.h"
#include "device/cuda/buffer.h"
#include "device/cuda/graphs.h"
#include "device/cuda/store.h"
#include "support.h"

namespace
{
/* Passes that add 1 to a number `n_kernels` times. */
struct adder {
    struct stream stream = {};
    struct rows rows = {};
    struct store store = {};
    device_array<float> number;
    int n_kernels = 1, expected = 0;
    struct buffer_forms *written = nullptr, *read = nullptr, forms = {};
    struct buffer *converted = nullptr; /* and then written */

    adder() : number(std::vector<float>(1, 0.0f))
    {
        emulate::revive();
        stream.cuda = test_stream();
        stream.graphs = graphs_open();
    }
    adder(const adder &) = delete;
    ~adder()
    {
        test_wait();
        graphs_close(stream.graphs, 0);
    }
    static void body(void *user)
    {
        adder *a = static_cast<adder *>(user);
        if (a->written) {
            graphs_note_written(a->stream.graphs, a->written);
            *a->written = a->forms;
        }
        if (a->read)
            graphs_note_read(a->stream.graphs, a->read);
        if (a->converted) {
            buffer_as(&a->stream, a->converted, &a->rows, NUMBER_BF16);
            buffer_put(&a->stream, a->converted, ROW_NUMBERS, NUMBER_BF16);
        }
        for (int i = 0; i < a->n_kernels; i++)
            add_one_launch(a->stream.cuda, {a->number, 1, 1.0f});
    }
    void run(int most_rows)
    {
        rows.most_rows = most_rows;
        graphs_run(stream.graphs, &stream, &rows, &store, body, this);
        expected += n_kernels;
    }
    /* Another step has ended, as the poll has seen. */
    void step()
    {
        test_wait();
        store.n_polled = ++store.n_steps;
    }
    void check(size_t n_recorded)
    {
        test_wait();
        assert_int_equal(number.get()[0], expected);
        assert_int_equal(emulate::machine.n_recorded, n_recorded);
    }
};
} // namespace

/* The first pass tells what its body is, the next of a class is launched plainly, and one more is
 * recorded. */
static void test_classes_come_twice(void **)
{
    adder a;
    for (int i = 0; i < 5; i++)
        a.run(1 + i % 2);
    a.check(2);
    a.run(1);
    a.run(2);
    a.check(2);
    assert_int_equal(emulate::machine.n_replayed, 4);
}

/* More classes than are remembered, more nodes than there is room for: those used least go. */
static void test_graphs_make_room(void **)
{
    adder a;
    size_t before = emulate::memory_held(), most = 0;
    a.n_kernels = 200;
    for (int turn = 0; turn < 3; turn++)
        for (int rows = 1; rows <= 25; rows++) {
            a.run(rows), a.run(rows);
            a.step();
            size_t held = emulate::memory_held() - before;
            most = held > most ? held : most;
        }
    assert_in_range(most, 1, (size_t)GRAPH_NODES * GRAPH_NODE_BYTES);
    assert_true(most > (size_t)(GRAPH_NODES - 2 * 200) * GRAPH_NODE_BYTES);
    assert_true(emulate::machine.n_recorded > 2 * 25);
    a.n_kernels = 1;
    for (int rows = 100; rows < 300; rows++) {
        a.run(rows), a.run(rows);
        a.step();
    }
    a.check(emulate::machine.n_recorded);
}

/* None goes that is under way: then passes are launched plainly. */
static void test_running_graphs_stay(void **)
{
    adder a;
    a.n_kernels = 1000;
    for (int rows = 1; rows <= 6; rows++)
        a.run(rows), a.run(rows), a.run(rows);
    a.check(GRAPH_NODES / 1000);
    a.n_kernels = GRAPH_NODES;
    a.step();
    a.run(7), a.run(7), a.run(7); /* it is too long for a graph */
    a.check(GRAPH_NODES / 1000);
}

static void test_forms_are_restored(void **)
{
    adder a;
    struct buffer_forms forms = {};
    a.written = &forms;
    a.forms = {true, NUMBER_BF16};
    for (int i = 0; i < 3; i++)
        a.run(1);
    a.check(1);
    forms = {};
    a.run(1);
    assert_true(forms.has_numbers && forms.narrow == NUMBER_BF16);
    a.check(1);
}

/* What an earlier pass has left may be in another form the next time. */
static void test_readers_of_the_past_are_not_recorded(void **)
{
    adder a;
    struct buffer_forms forms = {};
    a.read = &forms;
    for (int i = 0; i < 4; i++)
        a.run(1);
    a.check(0);
    a.written = &forms;
    for (int i = 0; i < 3; i++)
        a.run(2);
    a.check(1);
}

/* Then kernels do not begin early in it: elsewhere they do. */
static void test_captures_of_early_kernels_fail(void **)
{
    adder a;
    emulate::machine.early_captures_fail = true;
    for (int i = 0; i < 5; i++)
        a.run(1);
    a.check(1);
    assert_int_equal(emulate::machine.n_replayed, 3);
    assert_true(gpu_overlaps && !gpu_is_serial);
}

/* Some failures are overcome, also if there are more of them later; many in a row are not. */
static void test_captures_fail_for_a_while(void **)
{
    adder a;
    for (int rows = 1; rows <= 5; rows++) {
        a.run(rows), a.run(rows);
        emulate::machine.captures_fail = true;
        a.run(rows), a.run(rows);
        emulate::machine.captures_fail = false;
        a.run(rows);
        a.check((size_t)rows);
    }
    emulate::machine.captures_fail = true;
    for (int i = 0; i < 20; i++)
        a.run(6);
    emulate::machine.captures_fail = false;
    a.run(6);
    a.check(5);
}

/* What a pass captured in vain makes of such a buffer, it makes when it is launched plainly. */
static void test_forms_of_the_past_stay(void **)
{
    adder a;
    device_array<float> numbers(std::vector<float>(ROW_NUMBERS, 1.0f));
    device_array<uint16_t> narrow(ROW_NUMBERS);
    device_array<int32_t> one(std::vector<int32_t>(1, 1));
    struct buffer_forms forms = {};
    struct buffer past = {};
    past.stride = ROW_NUMBERS, past.numbers = numbers, past.narrow = narrow, past.forms = &forms;
    a.converted = &past;
    a.rows.table.n_rows = one;
    for (int i = 0; i < 4; i++) {
        forms = {true, NUMBER_F32};
        narrow.put(std::vector<uint16_t>(ROW_NUMBERS));
        a.run(1);
        a.check(0);
        assert_int_equal(narrow.get()[0], 0x3f80);
        assert_true(forms.has_numbers && forms.narrow == NUMBER_BF16);
    }
}

int graphs_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_come_twice),
        cmocka_unit_test(test_graphs_make_room),
        cmocka_unit_test(test_running_graphs_stay),
        cmocka_unit_test(test_forms_are_restored),
        cmocka_unit_test(test_readers_of_the_past_are_not_recorded),
        cmocka_unit_test(test_captures_of_early_kernels_fail),
        cmocka_unit_test(test_captures_fail_for_a_while),
        cmocka_unit_test(test_forms_of_the_past_stay),
    };
    return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}
