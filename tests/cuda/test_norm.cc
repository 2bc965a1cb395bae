/* Embeddings and layer norms against the CPU's scalar kernels and plain sums. */
#include "suites.h"

#include "device/cuda/norm.h"
#include "support.h"

extern "C" {
#include "kernels/kernels.h"
}

namespace
{
struct closing {
    int m, width, stride;
    enum number_type type;
    std::vector<float> hidden, sums, gain, bias; /* [M,stride], likewise, [width], likewise */
};
} // namespace

enum { WIDEST = 3100 }; /* more than blocks of several rows take */

static closing make_closing(enum number_type type, int width)
{
    closing c = {random_int(1, 9), width, 0, type, {}, {}, {}, {}};
    c.stride = c.width + random_int(0, 1) * random_int(0, 2) * 4;
    c.hidden = random_numbers((size_t)(c.m * c.stride), 3);
    c.sums = random_numbers((size_t)(c.m * c.stride), 3);
    c.gain = random_numbers((size_t)c.width, 1);
    c.bias = random_numbers((size_t)c.width, 1);
    return c;
}

/* Rows first ... first + m - 1, [m,stride]; what was rounded is held to what was not. */
static std::vector<float> run(const closing &c, int first, int m)
{
    auto begin = first * c.stride, end = (first + m) * c.stride;
    device_array<float> hidden(std::vector<float>(&c.hidden[(size_t)begin], &c.hidden[0] + end));
    device_array<float> sums(std::vector<float>(&c.sums[(size_t)begin], &c.sums[0] + end));
    device_array<f16> rounded(hidden.n);
    device_array<float> gain(c.gain), bias(c.bias);
    device_array<int32_t> n_rows(std::vector<int32_t>(1, m));
    hidden_rows rows = {hidden, rounded.at, c.type, c.width, c.stride};
    close_launch(test_stream(), {sums, c.stride, gain, bias, n_rows, rows, 1e-5f, false}, m + 5);
    test_wait();
    std::vector<float> y = hidden.get();
    std::vector<f16> half = rounded.get();
    for (int i = 0; c.type == NUMBER_F16 && i < m * c.stride; i++)
        if (i % c.stride < c.width)
            assert_int_equal(half[(size_t)i].bits, narrow<f16>(y[(size_t)i]).bits);
    return y;
}

static void test_closing(void **)
{
    for (int i = 0; i < 30; i++) {
        int width = i == 0 ? WIDEST : i % 3 == 0 ? random_int(1, 150) : 4 * random_int(1, 150);
        closing c = make_closing(i % 2 ? NUMBER_F16 : NUMBER_F32, width);
        std::vector<float> y = run(c, 0, c.m), x((size_t)c.width), want((size_t)c.width);
        for (int row = 0; row < c.m; row++) {
            for (int j = 0; j < c.width; j++)
                x[(size_t)j] =
                    c.hidden[(size_t)(row * c.stride + j)] + c.sums[(size_t)(row * c.stride + j)];
            kernels_scalar.layer_norm(1, (size_t)c.width, x.data(), c.gain.data(), c.bias.data(),
                                      1e-5f, want.data());
            for (int j = 0; j < c.stride; j++) {
                size_t at = (size_t)(row * c.stride + j);
                if (j < c.width)
                    check_near("norm", fabs((double)y[at] - want[(size_t)j]), 2e-5);
                else
                    assert_true(y[at] == c.hidden[at]);
            }
        }
    }
}

static void test_closing_alone(void **)
{
    closing c = make_closing(NUMBER_F16, 77);
    std::vector<float> all = run(c, 0, c.m);
    int row = random_int(0, c.m - 1);
    std::vector<float> alone = run(c, row, 1);
    assert_memory_equal(alone.data(), &all[(size_t)(row * c.stride)], alone.size() * sizeof(float));
    check_schedules("norm", [&] { return bytes_of(run(c, 0, c.m)); });
}

static const int V = 11, P = 7;

static std::vector<float> run_embed(const std::vector<float> &table, const float *positions,
                                    const std::vector<int32_t> &ids,
                                    const std::vector<int32_t> &places, int width)
{
    int m = (int)ids.size(), stride = width + 3;
    device_array<f16> d_table(narrowed<f16>(table)), rounded((size_t)(m * stride));
    device_array<float> d_positions((size_t)(P * width));
    if (positions)
        d_positions.put(std::vector<float>(positions, positions + P * width));
    device_array<int32_t> d_ids(ids), d_places(places);
    device_array<int32_t> n_rows(std::vector<int32_t>(1, m));
    device_array<float> hidden(std::vector<float>((size_t)(m * stride)));
    hidden_rows rows = {hidden, rounded.at, NUMBER_F16, width, stride};
    embed_launch(test_stream(),
                 {d_table.at, NUMBER_F16, 2.5f, positions ? d_positions.at : nullptr, d_ids,
                  d_places, n_rows, rows},
                 m + 6);
    test_wait();
    return hidden.get();
}

static void test_embedding(void **)
{
    for (int i = 0; i < 20; i++) {
        int width = random_int(1, 100), m = random_int(1, 12), stride = width + 3;
        std::vector<float> table = widened(narrowed<f16>(random_numbers((size_t)(V * width), 1)));
        std::vector<float> positions = random_numbers((size_t)(P * width), 1);
        std::vector<int32_t> ids, places;
        for (int row = 0; row < m; row++) {
            ids.push_back(random_int(0, V - 1));
            places.push_back(random_int(0, P - 1));
        }
        bool has_positions = i % 2 == 0;
        const float *p = has_positions ? positions.data() : nullptr;
        std::vector<float> y = run_embed(table, p, ids, places, width);
        for (int row = 0; row < m; row++)
            for (int j = 0; j < width; j++) {
                float want = 2.5f * table[(size_t)(ids[(size_t)row] * width + j)];
                if (has_positions)
                    want += positions[(size_t)(places[(size_t)row] * width + j)];
                assert_true(y[(size_t)(row * stride + j)] == want);
            }
        check_schedules("embedding",
                        [&] { return bytes_of(run_embed(table, p, ids, places, width)); });
    }
}

static uint32_t bf16_of_bits(uint32_t bits)
{
    return narrow<bf16>(float_of_bits(bits)).bits;
}

/* A NaN must not become a number: what GPUs make is 0x7fffffff, what x86 makes 0xffc00000. */
static void test_rounding_to_bf16(void **)
{
    assert_int_equal(bf16_of_bits(0x7fffffff), 0x7fff);
    assert_int_equal(bf16_of_bits(0xffc00000), 0xffc0);
    assert_int_equal(bf16_of_bits(0x7fc00000), 0x7fc0);
    assert_int_equal(bf16_of_bits(0x7f800000), 0x7f80); /* infinities */
    assert_int_equal(bf16_of_bits(0xff800000), 0xff80);
    assert_int_equal(bf16_of_bits(0x7f7f0000), 0x7f7f); /* the largest number there is, */
    assert_int_equal(bf16_of_bits(0x7f7f7fff), 0x7f7f); /* what is rounded to it, */
    assert_int_equal(bf16_of_bits(0xff7fffff), 0xff80); /* and what is beyond it */
    assert_int_equal(bf16_of_bits(0x3f808000), 0x3f80); /* ties go to even */
    assert_int_equal(bf16_of_bits(0x3f818000), 0x3f82);
    assert_int_equal(bf16_of_bits(0x80000000), 0x8000);
}

int norm_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_closing_alone),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_rounding_to_bf16),
    };
    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
