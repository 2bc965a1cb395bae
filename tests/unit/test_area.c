/* Area attention of every instruction set this machine has, against its definition in double
 * precision (tests/support/area_reference.h): coverage of a row of scores, context, weights.
 *
 * The head widths are odd squares and the query has one element that is not zero, their root: so
 * the scores q.k / sqrt(d) are the keys' first elements without rounding, and what is compared is
 * the attention alone, even where the scores are far apart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/area_reference.h"
#include "../support/random.h"
#include "kernels/kernels.h"

static const struct kernels *tested;
static const float spreads[] = {1e-3f, 1, 10, 1e3f};

/* One query over the first `seen` of L items. */
struct problem {
    size_t l, seen, d;
    int a;
    bool mean_value;
    float *query, *keys, *values; /* [d], [L,d], [L,d] */
};

static struct problem make_problem(size_t l, size_t seen, int a, float spread)
{
    size_t root = 2 * random_pick(0, 4) + 1, d = root * root;
    struct problem p = {.l = l, .seen = seen, .d = d, .a = a, .mean_value = random_pick(0, 1)};
    p.query = calloc(d, sizeof(float));
    p.query[0] = (float)root;
    p.keys = random_floats(l * d, spread);
    p.values = random_floats(l * d, 1);
    return p;
}

static void free_problem(struct problem *p)
{
    free(p->query), free(p->keys), free(p->values);
}

/* A score row as the engine has it: Lp floats, anything beyond the items that are seen. */
static float *scores_of(const struct problem *p)
{
    size_t lp = kernel_padded(p->seen);
    float *scores = malloc(lp * sizeof(*scores));
    for (size_t m = 0; m < lp; m++)
        scores[m] = m < p->seen ? p->keys[m * p->d] : m % 2 ? NAN : 1e30f;
    return scores;
}

/* coverage[Lp] replaces the scores; context[Dp] over a cache whose rows are in a random order. */
static void attend(const struct problem *p, float *scores, float *context)
{
    size_t dp = kernel_padded(p->d), *order = malloc(p->l * sizeof(*order));
    float *cache = calloc(p->l * dp, sizeof(*cache));
    float *scratch = malloc(area_scratch(p->seen) * sizeof(*scratch));
    int32_t *rows = malloc(p->l * sizeof(*rows));
    random_order(p->l, order);
    for (size_t m = 0; m < p->l; m++) {
        rows[m] = (int32_t)order[m];
        memcpy(cache + order[m] * dp, p->values + m * p->d, p->d * sizeof(float));
    }
    struct area_rule rule = {.width = p->a, .mean_value = p->mean_value};
    tested->area_coverage(p->seen, &rule, scores, scratch);
    tested->context_rows(p->seen, dp, scores, cache, rows, dp, context);
    free(order), free(cache), free(scratch), free(rows);
}

/* coverage[m] by its definition: the context over values that are 1 for item m and 0 elsewhere. */
static double reference_coverage(const struct problem *p, const bool *allowed, size_t item)
{
    float *one = calloc(p->l, sizeof(*one)), *keys = malloc(p->l * sizeof(*keys)), query = 1;
    double out;
    one[item] = 1;
    for (size_t m = 0; m < p->l; m++)
        keys[m] = p->keys[m * p->d];
    area_reference(&query, keys, one, allowed, p->l, 1, p->a, p->mean_value, &out, NULL);
    free(one), free(keys);
    return out;
}

static void assert_near(double got, double want, double bound, const struct problem *p,
                        const char *what, size_t i)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("L %zu of %zu, d %zu, A %d, %s: %s %zu: %.9g, expected %.9g", p->seen, p->l, p->d,
                 p->a, p->mean_value ? "mean" : "sum", what, i, got, want);
}

/* The bounds are relative to the sum of all coverage: that is how large a context can be. */
static void check_problem(const struct problem *p)
{
    bool *allowed = malloc(p->l * sizeof(*allowed));
    for (size_t m = 0; m < p->l; m++)
        allowed[m] = m < p->seen;
    double *want = malloc(p->d * sizeof(*want)), total = 0;
    float *coverage = scores_of(p), *context = malloc(kernel_padded(p->d) * sizeof(*context));
    attend(p, coverage, context);
    for (size_t m = 0; m < p->seen; m++)
        total += (double)coverage[m];
    assert_true(total >= 1 - 1e-5 || p->mean_value);
    area_reference(p->query, p->keys, p->values, allowed, p->l, p->d, p->a, p->mean_value, want,
                   NULL);
    for (size_t i = 0; i < p->d; i++)
        assert_near((double)context[i], want[i], 1e-5 * fmax(total, 1), p, "context", i);
    size_t item = random_pick(0, p->seen - 1);
    assert_near((double)coverage[item], reference_coverage(p, allowed, item), 1e-5 * fmax(total, 1),
                p, "coverage", item);
    for (size_t m = p->seen; m < kernel_padded(p->seen); m++)
        assert_near((double)coverage[m], 0, 0, p, "padding", m);
    free(allowed), free(want), free(coverage), free(context);
}

static void random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < 1200; round++) {
        size_t l = round % 40 == 0 ? random_pick(41, 300) : random_pick(1, 40);
        size_t seen = round % 2 ? l : random_pick(1, l);
        struct problem p =
            make_problem(l, seen, (int)random_pick(1, MAX_AREA_WIDTH), spreads[round % 4]);
        check_problem(&p);
        free_problem(&p);
    }
}

/* L < A, L = 1 and their neighbours. */
static void small_memories(void **state)
{
    (void)state;
    for (size_t l = 1; l <= 6; l++) {
        for (int a = 1; a <= MAX_AREA_WIDTH; a++) {
            for (int round = 0; round < 8; round++) {
                struct problem p = make_problem(l, l, a, spreads[round % 4]);
                check_problem(&p);
                free_problem(&p);
            }
        }
    }
}

static void all_but_one_masked(void **state)
{
    (void)state;
    for (int a = 1; a <= MAX_AREA_WIDTH; a++) {
        struct problem p = make_problem(20, 1, a, 10);
        float *coverage = scores_of(&p), *context = malloc(kernel_padded(p.d) * sizeof(*context));
        attend(&p, coverage, context);
        assert_true(coverage[0] == 1.0f);
        for (size_t i = 0; i < p.d; i++)
            assert_true(context[i] == p.values[i]);
        free(coverage), free(context);
        free_problem(&p);
    }
}

static void width_one_is_softmax(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct problem p = make_problem(random_pick(1, 100), 1, 1, spreads[round % 4]);
        p.seen = p.l;
        float *scores = scores_of(&p), *context = malloc(kernel_padded(p.d) * sizeof(*context));
        double total = 0, most = -INFINITY;
        for (size_t m = 0; m < p.l; m++)
            most = fmax(most, (double)scores[m]);
        for (size_t m = 0; m < p.l; m++)
            total += exp((double)scores[m] - most);
        attend(&p, scores, context);
        for (size_t m = 0; m < p.l; m++)
            assert_near((double)scores[m], exp((double)p.keys[m * p.d] - most) / total, 2e-6, &p,
                        "softmax", m);
        free(scores), free(context);
        free_problem(&p);
    }
}

static void weights_equal_reference(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t l = random_pick(1, 60);
        struct problem p =
            make_problem(l, l, (int)random_pick(1, MAX_AREA_WIDTH), spreads[round % 4]);
        size_t n = area_reference_count(l, p.a);
        struct area_rule rule = {.width = p.a, .mean_value = p.mean_value};
        float *scores = scores_of(&p), *got = malloc(2 * n * sizeof(*got));
        double *want = malloc(n * sizeof(*want)), *out = malloc(p.d * sizeof(*out));
        area_reference(p.query, p.keys, p.values, NULL, l, p.d, p.a, p.mean_value, out, want);
        assert_int_equal(kernels_area_weights(l, &rule, scores, got), n);
        for (size_t i = 0; i < n; i++)
            assert_near((double)got[i], want[i], 1e-6, &p, "weight", i);
        free(scores), free(got), free(want), free(out);
        free_problem(&p);
    }
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* coverage[l] of the areas whose weight is at least the k-th, from the weights of all. */
static void reference_top(const struct problem *p, size_t n, double *weights, int k,
                          double *coverage)
{
    double *sorted = malloc(n * sizeof(*sorted)), total = 0;
    memcpy(sorted, weights, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), descending);
    double least = (size_t)k < n ? sorted[k - 1] : 0;
    for (size_t i = 0; i < n; i++)
        total += weights[i] >= least ? weights[i] : 0;
    memset(coverage, 0, p->l * sizeof(*coverage));
    for (size_t width = 1, i = 0; i < n; width++)
        for (size_t j = 0; j + width <= p->l; j++, i++)
            for (size_t m = j; m < j + width && weights[i] >= least; m++)
                coverage[m] += weights[i] / total / (p->mean_value ? (double)width : 1);
    free(sorted);
}

static void top_areas_are_kept_and_renormalised(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t l = random_pick(1, 60);
        struct problem p = make_problem(l, l, (int)random_pick(1, MAX_AREA_WIDTH), 1);
        size_t n = area_reference_count(l, p.a);
        struct area_rule rule = {
            .width = p.a, .mean_value = p.mean_value, .top_k = (int)random_pick(1, n + 2)};
        float *got = scores_of(&p), *scratch = malloc(area_scratch(l) * sizeof(*scratch));
        double *weights = malloc(n * sizeof(*weights)), *out = malloc(p.d * sizeof(*out));
        double *want = malloc(l * sizeof(*want));
        area_reference(p.query, p.keys, p.values, NULL, l, p.d, p.a, p.mean_value, out, weights);
        reference_top(&p, n, weights, rule.top_k, want);
        tested->area_coverage(l, &rule, got, scratch);
        for (size_t m = 0; m < l; m++)
            assert_near((double)got[m], want[m], 1e-5, &p, "coverage of the top areas", m);
        free(got), free(scratch), free(weights), free(out), free(want);
        free_problem(&p);
    }
}

int main(void)
{
    enum cpu_level best, level;
    if (cpu_detect(&best, NULL) != 0)
        return 1;
    int failed = 0;
    for (level = CPU_SCALAR; level <= best; level++) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(random_shapes),
            cmocka_unit_test(small_memories),
            cmocka_unit_test(all_but_one_masked),
            cmocka_unit_test(width_one_is_softmax),
            cmocka_unit_test(weights_equal_reference),
            cmocka_unit_test(top_areas_are_kept_and_renormalised),
        };
        tested = kernels_find(level);
        random_seed(1);
        failed += cmocka_run_group_tests_name(cpu_level_name(level), tests, NULL, NULL);
    }
    return failed;
}
