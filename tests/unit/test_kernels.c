/* Every kernel of every instruction set this machine has, against the scalar oracle, on random odd
 * shapes; and that a row's result does not depend on the rows computed with it. The text of AVX-512
 * and AMX is tested everywhere, with its instructions emulated (kernels/vector/isa.h, amx.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "kernels/kernels.h"

static const struct kernels *tested;
extern const struct kernels kernels_wide, kernels_pairs, kernels_tiles;

static void assert_close(size_t n, const float *a, const float *b, float tolerance)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1.0f + fabsf(b[i]))))
            fail_msg("element %zu of %zu: %.9g, expected %.9g", i, n, (double)a[i], (double)b[i]);
    }
}

/* A product of random shape, with everything it points to. */
struct case_ {
    struct product product;
    float *x, *w, *panels, *bias, *residual, *scales;
    int32_t *sums;
};

static struct packed pack(enum compute_type type, size_t n, size_t k, struct case_ *c)
{
    size_t padded = kernel_padded(n);
    c->panels = calloc(1, kernel_packed_bytes(type, n, k));
    c->scales = calloc(padded, sizeof(float));
    c->sums = calloc(padded, sizeof(int32_t));
    for (size_t column = 0; column < n; column++) {
        size_t offset = column / KERNEL_PANEL * kernel_panel_bytes(type, k);
        kernels_pack_column(type, k, c->w + column * k, column % KERNEL_PANEL,
                            (char *)c->panels + offset, c->scales + column, c->sums + column);
    }
    return (struct packed){.type = type,
                           .n = n,
                           .k = k,
                           .panels = c->panels,
                           .bias = random_bits() % 2 ? c->bias : NULL,
                           .scales = c->scales,
                           .sums = c->sums};
}

static struct case_ random_case(void)
{
    enum compute_type type = (enum compute_type)(random_bits() % 3);
    size_t m = random_pick(1, 40), n = random_pick(1, 300), k = random_pick(1, 300);
    struct case_ c = {.x = random_floats(m * k, 1), .w = random_floats(n * k, 1)};
    c.bias = random_floats(kernel_padded(n), random_bits() % 4 ? 1 : 500); /* activations far out */
    c.residual = random_floats(m * n, 1);
    if (random_bits() % 8 == 0)
        memset(c.x, 0, k * sizeof(float));
    c.product = (struct product){.m = m,
                                 .w = pack(type, n, k, &c),
                                 .activation = (enum activation)(random_bits() % 4),
                                 .residual = random_bits() % 2 ? c.residual : NULL,
                                 .residual_stride = n,
                                 .y_stride = n};
    return c;
}

static void free_case(struct case_ *c)
{
    free(c->x), free(c->w), free(c->panels), free(c->bias), free(c->residual);
    free(c->scales), free(c->sums);
}

/* y[rows,N] of rows `first` ... of x, allocated. */
static float *multiply(const struct kernels *kernels, const struct case_ *c, size_t first,
                       size_t rows)
{
    struct product p = c->product;
    size_t row_bytes = kernels->row_bytes(p.w.type, p.w.k);
    void *packed = calloc(rows + KERNEL_ROW_STEP, row_bytes);
    float *scales = calloc(rows, sizeof(float));
    kernels->pack_rows(p.w.type, rows, p.w.k, c->x + first * p.w.k, p.w.k, packed, scales);
    p.m = rows, p.x = packed, p.x_stride = row_bytes, p.x_scales = scales;
    p.y = calloc(rows * p.w.n, sizeof(float));
    if (p.residual)
        p.residual += first * p.residual_stride;
    kernels->linear(&p);
    free(packed), free(scales);
    return p.y;
}

/* A number of x that lies between two integers may be rounded either way, so that int8 rows have
 * the precision of a few such steps; elsewhere only the order of sums differs. */
static void linear_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        struct case_ c = random_case();
        float *got = multiply(tested, &c, 0, c.product.m);
        float *want = multiply(&kernels_scalar, &c, 0, c.product.m);
        assert_close(c.product.m * c.product.w.n, got, want,
                     c.product.w.type == COMPUTE_INT8 ? 2e-2f : 2e-5f);
        free(got), free(want);
        free_case(&c);
    }
}

/* What an independent implementation says of the product that the types approximate. */
static void linear_equals_openblas(void **state)
{
    (void)state;
    static const float tolerances[] = {
        [COMPUTE_F32] = 2e-5f, [COMPUTE_BF16] = 5e-2f, [COMPUTE_INT8] = 15e-2f};
    for (int round = 0; round < 200; round++) {
        struct case_ c = random_case();
        size_t m = c.product.m, n = c.product.w.n, k = c.product.w.k;
        c.product.w.bias = NULL, c.product.residual = NULL, c.product.activation = ACTIVATION_NONE;
        float *got = multiply(tested, &c, 0, m), *want = calloc(m * n, sizeof(float));
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, c.x, (int)k,
                    c.w, (int)k, 0, want, (int)n);
        assert_close(m * n, got, want, tolerances[c.product.w.type]);
        free(got), free(want);
        free_case(&c);
    }
}

static void linear_rows_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct case_ c = random_case();
        size_t m = c.product.m, n = c.product.w.n, row = random_pick(0, m - 1);
        float *all = multiply(tested, &c, 0, m), *one = multiply(tested, &c, row, 1);
        assert_memory_equal(one, all + row * n, n * sizeof(float));
        free(all), free(one);
        free_case(&c);
    }
}

/* Integers are integers: with numbers that int8 holds exactly nothing is lost. */
static void int8_products_are_exact(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct case_ c = random_case();
        size_t m = c.product.m, n = c.product.w.n, k = c.product.w.k;
        for (size_t i = 0; i < m * k; i++)
            c.x[i] = i % k == 0 ? 127.0f : (float)((int)random_pick(0, 254) - 127);
        for (size_t i = 0; i < n * k; i++)
            c.w[i] = i % k == 0 ? -127.0f : (float)((int)random_pick(0, 254) - 127);
        free(c.panels), free(c.scales), free(c.sums);
        c.product.w = pack(COMPUTE_INT8, n, k, &c);
        c.product.w.bias = NULL, c.product.residual = NULL, c.product.activation = ACTIVATION_NONE;
        float *got = multiply(tested, &c, 0, m);
        for (size_t row = 0; row < m; row++) {
            for (size_t column = 0; column < n; column++) {
                int32_t sum = 0;
                for (size_t i = 0; i < k; i++)
                    sum += (int32_t)c.x[row * k + i] * (int32_t)c.w[column * k + i];
                assert_true(got[row * n + column] == (float)sum);
            }
        }
        free(got);
        free_case(&c);
    }
}

/* The largest depth that is admitted, and the largest integers all along it. */
static void int8_sums_fit(void **state)
{
    (void)state;
    enum { K = COMPUTE_MAX_INT8_K, M = 3, N = 20 };
    assert_int_equal(K, 133144);
    struct case_ c = {.x = calloc(M * K, sizeof(float)), .w = calloc(N * K, sizeof(float))};
    for (size_t i = 0; i < M * K; i++)
        c.x[i] = i / K == 1 ? -1.0f : 1.0f;
    for (size_t i = 0; i < N * K; i++)
        c.w[i] = i / K % 3 == 1 ? -1.0f : 1.0f;
    c.product = (struct product){.m = M, .w = pack(COMPUTE_INT8, N, K, &c), .y_stride = N};
    c.product.w.bias = NULL;
    float *got = multiply(tested, &c, 0, M), *want = multiply(&kernels_scalar, &c, 0, M);
    for (size_t i = 0; i < M * N; i++) {
        float exact = (i / N == 1) != (i % N % 3 == 1) ? -(float)K : (float)K;
        assert_true(fabsf(got[i] - exact) <= 1e-5f * (float)K);
        assert_true(fabsf(want[i] - exact) <= 1e-5f * (float)K);
    }
    free(got), free(want);
    free_case(&c);
}

static void layer_norm_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        size_t m = random_pick(1, 5), c = random_pick(1, 300);
        float *x = random_floats(m * c, 3);
        float *gain = random_floats(c, 1), *bias = random_floats(c, 1);
        float *got = calloc(m * c, sizeof(float)), *want = calloc(m * c, sizeof(float));
        tested->layer_norm(m, c, x, gain, bias, 1e-5f, got);
        kernels_scalar.layer_norm(m, c, x, gain, bias, 1e-5f, want);
        assert_close(m * c, got, want, c == 1 ? 1e-3f : 2e-5f);
        free(x), free(gain), free(bias), free(got), free(want);
    }
}

static void lstm_cell_equals_oracle(void **state)
{
    (void)state;
    static const float spreads[] = {1, 10, 200};
    for (int round = 0; round < 200; round++) {
        size_t c = random_pick(1, 100);
        float *gates = random_floats(4 * c, spreads[round % 3]), *before = random_floats(c, 3);
        float *got = calloc(2 * c, sizeof(float)), *want = calloc(2 * c, sizeof(float));
        tested->lstm_cell(c, gates, before, got, got + c);
        kernels_scalar.lstm_cell(c, gates, before, want, want + c);
        assert_close(2 * c, got, want, 1e-6f);
        tested->lstm_cell(c, gates, before, before, want); /* in place */
        assert_memory_equal(before, got, c * sizeof(float));
        free(gates), free(before), free(got), free(want);
    }
}

static void coverage_equals_oracle(void **state)
{
    (void)state;
    static const float spreads[] = {1e-3f, 1, 10, 1000};
    for (int round = 0; round < 2000; round++) {
        size_t l = round % 3 ? random_pick(1, 40) : random_pick(1, 300), lp = kernel_padded(l);
        struct area_rule rule = {.width = (int)random_pick(1, MAX_AREA_WIDTH),
                                 .value = (enum area_value)(random_bits() % 2)};
        float *s = random_floats(lp, spreads[random_bits() % 4]);
        float *got = malloc(lp * sizeof(float)), *want = malloc(lp * sizeof(float));
        float *scratch = malloc(area_scratch(l) * sizeof(float));
        memcpy(got, s, lp * sizeof(float));
        memcpy(want, s, lp * sizeof(float));
        tested->area_coverage(l, &rule, got, scratch);
        kernels_scalar.area_coverage(l, &rule, want, scratch);
        assert_close(lp, got, want, 1e-5f);
        free(s), free(got), free(want), free(scratch);
    }
}

/* The oracle is that of areas one by one; what is void, or not seen, holds anything. */
static void plane_coverage_equals_oracle(void **state)
{
    (void)state;
    static const float spreads[] = {1e-3f, 1, 10, 1000};
    for (int round = 0; round < 1000; round++) {
        size_t l = round % 3 ? random_pick(1, 40) : random_pick(1, 300), lp = kernel_padded(l),
               seen = random_pick(1, l);
        struct area_rule rule = {.width = (int)random_pick(1, MAX_AREA_WIDTH),
                                 .value = (enum area_value)(random_bits() % 2)};
        size_t n = (size_t)rule.width * lp;
        float *got = random_floats(n + KERNEL_PAD, spreads[random_bits() % 4]);
        float *want = malloc(n * sizeof(float)), *scratch = malloc(2 * n * sizeof(float));
        memcpy(want, got, n * sizeof(float));
        got[n + random_pick(0, KERNEL_PAD - 1)] = NAN;
        if (rule.width > 1)
            got[lp] = NAN;
        if (seen < l)
            got[random_pick(seen, l - 1)] = INFINITY;
        tested->plane_coverage(l, seen, &rule, got, scratch);
        kernels_scalar.plane_coverage(l, seen, &rule, want, scratch);
        assert_close(lp, got, want, 1e-5f);
        free(got), free(want), free(scratch);
    }
}

/* To the last bit: where all items of an area are alike, nothing else is left of a deviation. */
static void deviations_equal_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t n = random_pick(1, 200);
        int count = (int)random_pick(1, 20);
        float *x = random_floats(4 * n, 3), *got = calloc(n, 4), *want = calloc(n, 4);
        for (size_t i = 0; i < n; i++)
            x[n + i] = x[i] * x[i] / (float)count; /* alike items */
        bool is_first = random_bits() % 2;
        struct area_ends sums = {x, is_first ? NULL : x + 2 * n};
        struct area_ends squares = {x + n, is_first ? NULL : x + 3 * n};
        tested->area_deviations(n, count, &sums, &squares, got);
        kernels_scalar.area_deviations(n, count, &sums, &squares, want);
        assert_memory_equal(got, want, n * sizeof(*got));
        free(x), free(got), free(want);
    }
}

static void hidden_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t m = random_pick(1, 20), d = random_pick(1, 100);
        float *windows = random_floats(m * d, 3), *constants = random_floats(d, 1);
        float *got = random_floats(m * d, 1), *want = malloc(m * d * sizeof(*want));
        memcpy(want, got, m * d * sizeof(*want));
        tested->area_hidden(m, d, 0.2f, windows, constants, got);
        kernels_scalar.area_hidden(m, d, 0.2f, windows, constants, want);
        assert_close(m * d, got, want, 1e-6f);
        free(windows), free(constants), free(got), free(want);
    }
}

/* Rows are written by the tested kernels, and must be the oracle's to the last bit. */
static float *random_cache(enum compute_type type, size_t n_rows, size_t n, size_t stride)
{
    float *cache = calloc(n_rows * stride, sizeof(*cache)), *want = calloc(stride, sizeof(*want));
    for (size_t row = 0; row < n_rows; row++) {
        float *x = random_floats(n, 1);
        tested->store_row(type, n, x, cache + row * stride);
        kernels_scalar.store_row(type, n, x, want);
        assert_memory_equal(cache + row * stride, want, stride * sizeof(*want));
        free(x);
    }
    free(want);
    return cache;
}

static void cache_rows_equal_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        enum compute_type type = random_bits() % 2 ? COMPUTE_F32 : COMPUTE_BF16;
        size_t l = random_pick(1, 60), n = kernel_cache_padded(type, random_pick(1, 100)),
               n_rows = 100;
        size_t stride = 3 * kernel_cache_floats(type, n);
        float *cache = random_cache(type, n_rows, n, stride), *query = random_floats(n, 1);
        float *coverage = random_floats(l, 1), *got = calloc(l + n, 4), *want = calloc(l + n, 4);
        int32_t *rows = calloc(l, sizeof(*rows));
        for (size_t m = 0; m < l; m++)
            rows[m] = (int32_t)random_pick(0, n_rows - 1);
        tested->scores_rows(type, l, n, query, cache, rows, stride, got);
        kernels_scalar.scores_rows(type, l, n, query, cache, rows, stride, want);
        assert_close(l, got, want, 2e-5f);
        tested->context_rows(type, l, n, coverage, cache, rows, stride, got);
        kernels_scalar.context_rows(type, l, n, coverage, cache, rows, stride, want);
        assert_close(n, got, want, 2e-5f);
        free(cache), free(query), free(coverage), free(got), free(want), free(rows);
    }
}

static void scan_all(const struct kernels *kernels, size_t v, const float *logits,
                     struct logit_scan *scan)
{
    float block[128];
    for (size_t first = 0; first < v; first += 100) {
        size_t n = v - first < 100 ? v - first : 100;
        memcpy(block, logits + first, n * sizeof(float));
        kernels->scan_logits(n, (int32_t)first, block, scan);
    }
}

static void scan_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t v = random_pick(1, 700);
        float *logits = random_floats(v, 5);
        uint32_t *allowed = calloc(v / 32 + 1, sizeof(*allowed));
        for (size_t i = 0; i < v; i++)
            allowed[i / 32] |= (uint32_t)(random_bits() % 2) << (i % 32);
        for (size_t i = 0; i < v / 4; i++)
            logits[random_pick(0, v - 1)] = logits[random_pick(0, v - 1)]; /* ties */
        struct candidate best[2][8];
        struct logit_scan got = {
            .best = best[0], .k = (int)random_pick(1, 8), .maximum = -INFINITY};
        got.allowed = random_bits() % 2 ? allowed : NULL;
        struct logit_scan want = got;
        want.best = best[1];
        scan_all(tested, v, logits, &got);
        scan_all(&kernels_scalar, v, logits, &want);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.best, want.best, (size_t)got.n * sizeof(*got.best));
        assert_close(1, &got.maximum, &want.maximum, 0);
        assert_close(1, &got.sum, &want.sum, 1e-5f);
        free(logits), free(allowed);
    }
}

/* Wherever it stands, and however many there are. */
static void scan_tells_of_logits_that_are_no_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < 100; i++) {
        float *logits = random_floats(350, 5);
        struct candidate best[4];
        struct logit_scan scan = {.best = best, .k = 4, .maximum = -INFINITY};
        for (size_t n = random_pick(1, 3); n > 0; n--)
            logits[random_pick(0, 349)] = NAN;
        scan_all(tested, 350, logits, &scan);
        assert_true(isnan(scan.sum));
        free(logits);
    }
}

static int test_table(const struct kernels *kernels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_equals_oracle),
        cmocka_unit_test(linear_equals_openblas),
        cmocka_unit_test(linear_rows_are_independent),
        cmocka_unit_test(int8_products_are_exact),
        cmocka_unit_test(int8_sums_fit),
        cmocka_unit_test(layer_norm_equals_oracle),
        cmocka_unit_test(lstm_cell_equals_oracle),
        cmocka_unit_test(coverage_equals_oracle),
        cmocka_unit_test(plane_coverage_equals_oracle),
        cmocka_unit_test(deviations_equal_oracle),
        cmocka_unit_test(hidden_equals_oracle),
        cmocka_unit_test(cache_rows_equal_oracle),
        cmocka_unit_test(scan_equals_oracle),
        cmocka_unit_test(scan_tells_of_logits_that_are_no_numbers),
    };
    tested = kernels;
    random_seed(1);
    return cmocka_run_group_tests_name(kernels->name, tests, NULL, NULL);
}

int main(void)
{
    enum cpu_level best;
    int failed = 0;
    if (cpu_detect(&best, NULL) != 0)
        return 1;
    openblas_set_num_threads(1); /* ThreadSanitizer does not see how its threads wait */
    for (enum cpu_level level = CPU_SSE2; level <= best; level++)
        failed += test_table(kernels_find(level));
#if defined(__x86_64__)
    if (best >= CPU_AVX2)
        failed +=
            test_table(&kernels_wide) + test_table(&kernels_pairs) + test_table(&kernels_tiles);
#endif
    return failed;
}
