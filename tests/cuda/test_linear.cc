/* Products with weights: against sums in double precision, the same bits in every tile and alone,
 * and int8 as the CPU's scalar kernels have it. */
#include "suites.h"

#include "device/cuda/linear.h"
#include "support.h"

extern "C" {
#include "kernels/kernels.h"
}

enum { AMPLE = 232448, SMALL = 65536 }; /* shared memory of a block, H200 and T4 */

/* A weight and rows, as floats that the type can hold. */
namespace
{
struct problem {
    int m, n, k;
    enum number_type type;
    enum activation activation;
    enum number_type y_type;
    bool has_residual, has_narrow;
    std::vector<float> x, w, bias, residual; /* [M,K], [N,K], [N], [M,Np] */
};
} // namespace

static std::vector<float> rounded(enum number_type type, const std::vector<float> &x)
{
    if (type == NUMBER_F16)
        return widened(narrowed<f16>(x));
    if (type == NUMBER_BF16)
        return widened(narrowed<bf16>(x));
    return x;
}

static problem make_problem(enum number_type type, int m, int n, int k)
{
    problem p = {m, n, k, type, ACTIVATION_NONE, NUMBER_F32, false, false, {}, {}, {}, {}};
    p.x = rounded(type, random_numbers((size_t)(m * k), 1));
    p.w = rounded(type, random_numbers((size_t)(n * k), 1 / sqrtf((float)k)));
    p.bias = random_numbers((size_t)n, 1);
    p.residual = random_numbers((size_t)(m * linear_columns(n)), 1);
    return p;
}

/* Rows [rows,k] as the device has them: bytes, padded with zeros. */
template <class T>
static std::vector<char> padded(const std::vector<T> &x, int rows, int k, int max_rows, int depth)
{
    std::vector<T> y((size_t)max_rows * (size_t)depth, T());
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < k; i++)
            y[(size_t)(row * depth + i)] = x[(size_t)(row * k + i)];
    return bytes_of(y);
}

static std::vector<char> padded_as(enum number_type type, const std::vector<float> &x, int rows,
                                   int k, int max_rows)
{
    int depth = linear_depth(type, k);
    if (type == NUMBER_F16)
        return padded(narrowed<f16>(x), rows, k, max_rows, depth);
    if (type == NUMBER_BF16)
        return padded(narrowed<bf16>(x), rows, k, max_rows, depth);
    return padded(x, rows, k, max_rows, depth);
}

/* W's int8 rows and scales, as kernels_pack_column() rounds them. */
static std::vector<int8_t> quantised(const std::vector<float> &w, int n, int k,
                                     std::vector<float> *scales)
{
    std::vector<int8_t> rows(w.size());
    for (int row = 0; row < n; row++) {
        float largest = 0;
        for (int i = 0; i < k; i++)
            largest = fmaxf(largest, fabsf(w[(size_t)(row * k + i)]));
        float inverse = largest > 0 ? 127.0f / largest : 0;
        (*scales)[(size_t)row] = largest / 127.0f;
        for (int i = 0; i < k; i++)
            rows[(size_t)(row * k + i)] = (int8_t)rintf(w[(size_t)(row * k + i)] * inverse);
    }
    return rows;
}

/* Rows first ... first + m - 1 of the product, [m,Np]. */
static std::vector<float> run(const problem &p, int first, int m, int tile, size_t shared_bytes)
{
    int depth = linear_depth(p.type, p.k), np = linear_columns(p.n), max_rows = m + 3;
    std::vector<float> bias((size_t)np), w_scales((size_t)np);
    std::copy(p.bias.begin(), p.bias.end(), bias.begin());
    std::vector<float> x(p.x.begin() + first * p.k, p.x.begin() + (first + m) * p.k);
    std::vector<float> residual(p.residual.begin() + first * np,
                                p.residual.begin() + (first + m) * np);
    device_array<float> d_bias(bias), d_residual(residual), d_x_scales((size_t)m);
    device_array<int32_t> n_rows(std::vector<int32_t>(1, m));
    size_t y_bytes = p.y_type == NUMBER_F32 ? 4 : 2;
    device_array<char> y((size_t)m * (size_t)np * y_bytes);
    std::vector<char> w = p.type == NUMBER_INT8
                              ? padded(quantised(p.w, p.n, p.k, &w_scales), p.n, p.k, np, depth)
                              : padded_as(p.type, p.w, p.n, p.k, np);
    device_array<float> d_w_scales(w_scales);
    device_array<char> d_w(w);
    device_array<char> d_x(p.type == NUMBER_INT8 ? std::vector<char>((size_t)(m * depth))
                                                 : padded_as(p.type, x, m, p.k, m));
    if (p.type == NUMBER_INT8) {
        device_array<float> floats(x);
        quantise_launch(test_stream(), NUMBER_F32,
                        {floats, (int8_t *)d_x.at, d_x_scales, n_rows, p.k, depth, p.k}, max_rows);
        test_wait();
    }
    device_array<f16> rounded((size_t)m * (size_t)np);
    f16 *also = p.has_narrow ? rounded.at : nullptr;
    linear_task task = {d_x.at,      d_w.at,     d_bias,
                        d_x_scales,  d_w_scales, p.has_residual ? d_residual.at : nullptr,
                        y.at,        also,       n_rows,
                        np,          depth,      depth,
                        np,          p.y_type,   NUMBER_F16,
                        p.activation};
    linear_launch(test_stream(), p.type, task, max_rows + 150, tile, shared_bytes);
    test_wait();
    std::vector<char> bytes = y.get();
    std::vector<float> result((size_t)(m * np));
    for (size_t i = 0; i < result.size(); i++) {
        if (p.y_type == NUMBER_F32)
            memcpy(&result[i], &bytes[4 * i], 4);
        else
            result[i] = p.y_type == NUMBER_F16 ? widen(((const f16 *)bytes.data())[i])
                                               : widen(((const bf16 *)bytes.data())[i]);
    }
    if (p.has_narrow && p.y_type == NUMBER_F32)
        assert_true(widened(rounded.get()) == widened(narrowed<f16>(result)));
    return result;
}

static double activated(enum activation activation, double x)
{
    return activation == ACTIVATION_RELU    ? fmax(x, 0)
           : activation == ACTIVATION_SWISH ? x / (1 + exp(-x))
           : activation == ACTIVATION_GELU  ? 0.5 * x * (1 + erf(x * sqrt(0.5)))
                                            : x;
}

/* In double; with zeros in the columns that are not there, whatever the residual is. */
static std::vector<double> expected(const problem &p)
{
    int np = linear_columns(p.n);
    std::vector<double> y((size_t)(p.m * np));
    for (int row = 0; row < p.m; row++)
        for (int column = 0; column < np; column++) {
            double sum = column < p.n ? (double)p.bias[(size_t)column] : 0;
            for (int i = 0; i < p.k && column < p.n; i++)
                sum += (double)p.x[(size_t)(row * p.k + i)] * p.w[(size_t)(column * p.k + i)];
            sum = activated(p.activation, sum);
            size_t at = (size_t)(row * np + column);
            y[at] = sum + (p.has_residual ? (double)p.residual[at] : 0);
        }
    return y;
}

static const enum number_type types[] = {NUMBER_F32, NUMBER_F16, NUMBER_BF16, NUMBER_INT8};
static const double bounds[] = {1e-6, 1e-6, 1e-6, 2e-2}; /* int8: of its rounding */

static void test_against_double(void **)
{
    for (enum number_type type : types)
        for (int i = 0; i < 8; i++) {
            problem p =
                make_problem(type, random_int(1, 40), random_int(1, 70), random_int(1, 300));
            p.activation = (enum activation)(i % 4);
            p.has_residual = i % 3 == 1;
            p.has_narrow = i % 2 == 1;
            const int tiles[] = {16, 32, 64, 128};
            std::vector<float> y = run(p, 0, p.m, tiles[i % 4], AMPLE);
            check_near("product", distance(y, expected(p)), bounds[type]);
        }
}

/* What int8 does is exact but for a float or two: held to the CPU's scalar arithmetic. */
static void test_int8_as_cpu(void **)
{
    for (int i = 0; i < 6; i++) {
        problem p =
            make_problem(NUMBER_INT8, random_int(1, 20), random_int(1, 40), random_int(1, 600));
        std::vector<float> y = run(p, 0, p.m, 0, AMPLE), scales((size_t)p.n);
        std::vector<int8_t> w = quantised(p.w, p.n, p.k, &scales);
        for (int row = 0; row < p.m; row++) {
            std::vector<int8_t> x((size_t)p.k);
            float scale;
            kernels_scalar.pack_rows(COMPUTE_INT8, 1, (size_t)p.k, &p.x[(size_t)(row * p.k)],
                                     (size_t)p.k, x.data(), &scale);
            for (int column = 0; column < p.n; column++) {
                int32_t sum = 0;
                for (int k = 0; k < p.k; k++)
                    sum += x[(size_t)k] * w[(size_t)(column * p.k + k)];
                double want = (double)p.bias[(size_t)column] +
                              (double)sum * scale * (double)scales[(size_t)column];
                double off = fabs(want - y[(size_t)(row * linear_columns(p.n) + column)]);
                check_near("int8", off, 1e-5);
            }
        }
    }
}

static void test_result_types(void **)
{
    for (enum number_type y_type : {NUMBER_F16, NUMBER_BF16}) {
        problem p = make_problem(NUMBER_F16, 5, 20, 100);
        p.y_type = y_type;
        std::vector<float> y = run(p, 0, p.m, 0, AMPLE);
        check_near("rounded", distance(y, expected(p)), y_type == NUMBER_F16 ? 1e-3 : 1e-2);
    }
}

/* A row's bits are the same in every tile, in any batch, and alone. */
static void test_batch_invariance(void **)
{
    for (enum number_type type : types) {
        problem p =
            make_problem(type, random_int(33, 80), random_int(1, 100), random_int(256, 900));
        std::vector<float> all = run(p, 0, p.m, 16, AMPLE);
        for (int tile : {16, 32, 64, 128})
            if (run(p, 0, p.m, tile, AMPLE) != all)
                fail_msg("other bits in tiles of %d rows, type %d", tile, type);
        if (run(p, 0, p.m, 16, SMALL) != all)
            fail_msg("other bits with two stages, type %d", type);
        int row = random_int(0, p.m - 1), np = linear_columns(p.n);
        std::vector<float> alone = run(p, row, 1, 0, AMPLE);
        assert_memory_equal(alone.data(), &all[(size_t)(row * np)], (size_t)np * sizeof(float));
    }
}

static void test_schedules(void **)
{
    for (enum number_type type : types)
        for (int tile : {16, 64}) {
            problem p = make_problem(type, 18, 40, type == NUMBER_INT8 ? 1100 : 600);
            auto go = [&] { return bytes_of(run(p, 0, p.m, tile, tile == 16 ? SMALL : AMPLE)); };
            check_schedules("product", go);
        }
}

static void test_barriers(void **)
{
    for (int tile : {16, 64}) {
        problem p = make_problem(NUMBER_F16, 18, 40, 1000);
        check_barriers("product", [&] { return bytes_of(run(p, 0, p.m, tile, AMPLE)); });
        problem f = make_problem(NUMBER_F32, 18, 40, 100);
        check_barriers("f32 product", [&] { return bytes_of(run(f, 0, f.m, tile, AMPLE)); });
    }
}

int linear_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double), cmocka_unit_test(test_int8_as_cpu),
        cmocka_unit_test(test_result_types),   cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_schedules),      cmocka_unit_test(test_barriers),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
