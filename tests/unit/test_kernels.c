/* Every kernel of every instruction set this machine has, against the scalar oracle, on random odd
 * shapes; and that a row's result does not depend on the rows computed with it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static const struct kernels *tested;

static float uniform(float low, float high)
{
    return low + (high - low) * (float)rand() / (float)RAND_MAX;
}

static size_t pick(size_t low, size_t high)
{
    return low + (size_t)rand() % (high - low + 1);
}

static float *random_floats(size_t n, float spread)
{
    float *x = calloc(n, sizeof(*x));
    for (size_t i = 0; i < n; i++)
        x[i] = uniform(-spread, spread);
    return x;
}

static void assert_close(size_t n, const float *a, const float *b, float tolerance)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1.0f + fabsf(b[i]))))
            fail_msg("element %zu of %zu: %.9g, expected %.9g", i, n, (double)a[i], (double)b[i]);
    }
}

static void linear_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t m = pick(1, 40), n = pick(1, 300), k = pick(1, 200);
        float *x = random_floats(m * k, 1), *w = random_floats(n * k, 1);
        float *bias = random_floats(kernel_padded(n), 1), *residual = random_floats(m * n, 1);
        float *panels = calloc(kernel_padded(n) * k, sizeof(float));
        float *got = calloc(m * n, sizeof(float)), *want = calloc(m * n, sizeof(float));
        kernels_pack(n, k, w, k, panels);
        struct product p = {.m = m,
                            .n = n,
                            .k = k,
                            .x = x,
                            .x_stride = k,
                            .panels = panels,
                            .bias = rand() % 2 ? bias : NULL,
                            .activation = (enum kernel_activation)(rand() % 4),
                            .residual = rand() % 2 ? residual : NULL,
                            .residual_stride = n,
                            .y = got,
                            .y_stride = n};
        tested->linear(&p);
        p.y = want;
        kernels_scalar.linear(&p);
        assert_close(m * n, got, want, 2e-5f);
        free(x), free(w), free(bias), free(residual), free(panels), free(got), free(want);
    }
}

/* An independent implementation of the product. */
static void linear_equals_openblas(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        size_t m = pick(1, 40), n = pick(1, 300), k = pick(1, 200);
        float *x = random_floats(m * k, 1), *w = random_floats(n * k, 1);
        float *panels = calloc(kernel_padded(n) * k, sizeof(float));
        float *got = calloc(m * n, sizeof(float)), *want = calloc(m * n, sizeof(float));
        kernels_pack(n, k, w, k, panels);
        struct product p = {.m = m,
                            .n = n,
                            .k = k,
                            .x = x,
                            .x_stride = k,
                            .panels = panels,
                            .y = got,
                            .y_stride = n};
        tested->linear(&p);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, x, (int)k,
                    w, (int)k, 0, want, (int)n);
        assert_close(m * n, got, want, 2e-5f);
        free(x), free(w), free(panels), free(got), free(want);
    }
}

static void linear_rows_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        size_t m = pick(2, 50), n = pick(1, 300), k = pick(1, 200);
        float *x = random_floats(m * k, 1), *w = random_floats(n * k, 1);
        float *bias = random_floats(kernel_padded(n), 1);
        float *panels = calloc(kernel_padded(n) * k, sizeof(float));
        float *all = calloc(m * n, sizeof(float)), *one = calloc(n, sizeof(float));
        kernels_pack(n, k, w, k, panels);
        struct product p = {.m = m,
                            .n = n,
                            .k = k,
                            .x = x,
                            .x_stride = k,
                            .panels = panels,
                            .bias = bias,
                            .activation = (enum kernel_activation)(rand() % 4),
                            .residual = x,
                            .residual_stride = 0,
                            .y = all,
                            .y_stride = n};
        p.residual = n <= k ? x : NULL;
        tested->linear(&p);
        size_t row = pick(0, m - 1);
        p.m = 1, p.x += row * k, p.y = one;
        tested->linear(&p);
        assert_memory_equal(one, all + row * n, n * sizeof(float));
        free(x), free(w), free(bias), free(panels), free(all), free(one);
    }
}

static void layer_norm_equals_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        size_t m = pick(1, 5), c = pick(1, 300);
        float *x = random_floats(m * c, 3);
        float *gain = random_floats(c, 1), *bias = random_floats(c, 1);
        float *got = calloc(m * c, sizeof(float)), *want = calloc(m * c, sizeof(float));
        tested->layer_norm(m, c, x, gain, bias, 1e-5f, got);
        kernels_scalar.layer_norm(m, c, x, gain, bias, 1e-5f, want);
        assert_close(m * c, got, want, c == 1 ? 1e-3f : 2e-5f);
        free(x), free(gain), free(bias), free(got), free(want);
    }
}

static void coverage_equals_oracle(void **state)
{
    (void)state;
    static const float spreads[] = {1e-3f, 1, 10, 1000};
    for (int round = 0; round < 2000; round++) {
        size_t l = round % 3 ? pick(1, 40) : pick(1, 300), lp = kernel_padded(l);
        struct area_rule rule = {.width = (int)pick(1, MAX_AREA_WIDTH), .mean_value = rand() % 2};
        float *s = random_floats(lp, spreads[rand() % 4]);
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

static void cache_rows_equal_oracle(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t l = pick(1, 60), dp = KERNEL_PAD * pick(1, 5), stride = dp * 3, n = 100;
        float *cache = random_floats(n * stride, 1), *query = random_floats(dp, 1);
        float *coverage = random_floats(l, 1), *got = calloc(l + dp, 4), *want = calloc(l + dp, 4);
        int32_t *rows = calloc(l, sizeof(*rows));
        for (size_t m = 0; m < l; m++)
            rows[m] = (int32_t)pick(0, n - 1);
        tested->scores_rows(l, dp, query, cache, rows, stride, got);
        kernels_scalar.scores_rows(l, dp, query, cache, rows, stride, want);
        assert_close(l, got, want, 2e-5f);
        tested->context_rows(l, dp, coverage, cache, rows, stride, got);
        kernels_scalar.context_rows(l, dp, coverage, cache, rows, stride, want);
        assert_close(dp, got, want, 2e-5f);
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
        size_t v = pick(1, 700);
        float *logits = random_floats(v, 5);
        uint32_t *allowed = calloc(v / 32 + 1, sizeof(*allowed));
        for (size_t i = 0; i < v; i++)
            allowed[i / 32] |= (uint32_t)(rand() % 2) << (i % 32);
        for (size_t i = 0; i < v / 4; i++)
            logits[pick(0, v - 1)] = logits[pick(0, v - 1)]; /* ties */
        struct candidate best[2][8];
        struct logit_scan got = {.best = best[0], .k = (int)pick(1, 8), .maximum = -INFINITY};
        got.allowed = rand() % 2 ? allowed : NULL;
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

int main(void)
{
    enum cpu_level best, level;
    if (cpu_detect(&best, NULL) != 0)
        return 1;
    int failed = 0;
    for (level = CPU_SSE2; level <= best; level++) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(linear_equals_oracle),
            cmocka_unit_test(linear_equals_openblas),
            cmocka_unit_test(linear_rows_are_independent),
            cmocka_unit_test(layer_norm_equals_oracle),
            cmocka_unit_test(coverage_equals_oracle),
            cmocka_unit_test(cache_rows_equal_oracle),
            cmocka_unit_test(scan_equals_oracle),
        };
        tested = kernels_find(level);
        srand(1);
        failed += cmocka_run_group_tests_name(cpu_level_name(level), tests, NULL, NULL);
    }
    return failed;
}
