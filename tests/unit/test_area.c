/* Area attention against its definition in double precision (tests/support/area_reference.h): what
 * kernels make of a row of scores, for every instruction set of this machine, and what areas.h
 * makes of scores and of vectors.
 *
 * Scores are the keys' first elements, as the query has a one there and zeros else: without
 * rounding, so that the attention alone is compared, even where scores are far apart. */
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
#include "kernels/areas.h"
#include "kernels/kernels.h"

static const struct kernels *tested;
static const float spreads[] = {1e-3f, 1, 10, 1e3f};

/* One query over the first `seen` of L items. */
struct problem {
    struct area_rule rule;
    size_t l, seen, d;
    float *query, *keys, *values; /* [d], [L,d], [L,d] */
    bool *allowed;                /* [L] */
};

static struct problem make_problem(size_t l, size_t seen, struct area_rule rule, float spread)
{
    struct problem p = {.rule = rule, .l = l, .seen = seen, .d = random_pick(1, 81)};
    p.query = calloc(p.d, sizeof(float));
    p.query[0] = 1;
    p.keys = random_floats(l * p.d, spread);
    p.values = random_floats(l * p.d, 1);
    p.allowed = calloc(l, sizeof(bool));
    for (size_t m = 0; m < seen; m++)
        p.allowed[m] = true;
    return p;
}

static void free_problem(struct problem *p)
{
    free(p->query), free(p->keys), free(p->values), free(p->allowed);
}

/* A rule that area_coverage serves. */
static struct area_rule plain_rule(int width)
{
    return (struct area_rule){.width = width, .value = (enum area_value)random_pick(0, 1)};
}

static void assert_near(double got, double want, double bound, const struct problem *p,
                        const char *what, size_t i)
{
    const struct area_rule *rule = &p->rule;
    if (!(fabs(got - want) <= bound))
        fail_msg("L %zu of %zu, d %zu, areas %d x %d of %d rows, value %d, top %d, %s: "
                 "%s %zu: %.9g, expected %.9g",
                 p->seen, p->l, p->d, rule->height, rule->width, rule->memory_height,
                 (int)rule->value, rule->top_k, rule->sigmoid ? "sigmoid" : "softmax", what, i, got,
                 want);
}

/* out[d], and weights[...] of all areas unless NULL. */
static void reference(const struct problem *p, double *out, double *weights)
{
    struct area_reference reference = {.rule = p->rule, .d = p->d};
    struct area_memory memory = area_reference_open(&reference, p->l, p->keys, p->values);
    area_reference_attend(&memory, p->query, p->allowed, out, weights);
    area_reference_close(&memory);
}

/* coverage[m] by its definition: the context over values that are 1 for item m and 0 elsewhere. */
static double reference_coverage(const struct problem *p, size_t item)
{
    float *one = calloc(p->l, sizeof(*one)), *keys = malloc(p->l * sizeof(*keys)), query = 1;
    struct problem single = *p;
    double out;
    one[item] = 1;
    for (size_t m = 0; m < p->l; m++)
        keys[m] = p->keys[m * p->d];
    single.d = 1, single.query = &query, single.keys = keys, single.values = one;
    reference(&single, &out, NULL);
    free(one), free(keys);
    return out;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

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
    tested->area_coverage(p->seen, &p->rule, scores, scratch);
    tested->context_rows(COMPUTE_F32, p->seen, dp, scores, cache, rows, dp, context);
    free(order), free(cache), free(scratch), free(rows);
}

/* The bounds are relative to the sum of all coverage: that is how large a context can be. */
static void check_problem(const struct problem *p)
{
    double *want = malloc(p->d * sizeof(*want)), total = 0;
    float *coverage = scores_of(p), *context = malloc(kernel_padded(p->d) * sizeof(*context));
    attend(p, coverage, context);
    for (size_t m = 0; m < p->seen; m++)
        total += (double)coverage[m];
    assert_true(total >= 1 - 1e-5 || p->rule.value == AREA_VALUE_MEAN);
    reference(p, want, NULL);
    for (size_t i = 0; i < p->d; i++)
        assert_near((double)context[i], want[i], 1e-5 * fmax(total, 1), p, "context", i);
    size_t item = random_pick(0, p->seen - 1);
    assert_near((double)coverage[item], reference_coverage(p, item), 1e-5 * fmax(total, 1), p,
                "coverage", item);
    for (size_t m = p->seen; m < kernel_padded(p->seen); m++)
        assert_near((double)coverage[m], 0, 0, p, "padding", m);
    free(want), free(coverage), free(context);
}

static void random_shapes(void **state)
{
    (void)state;
    for (int round = 0; round < 1200; round++) {
        size_t l = round % 40 == 0 ? random_pick(41, 300) : random_pick(1, 40);
        size_t seen = round % 2 ? l : random_pick(1, l);
        struct area_rule rule = plain_rule((int)random_pick(1, MAX_AREA_WIDTH));
        struct problem p = make_problem(l, seen, rule, spreads[round % 4]);
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
                struct problem p = make_problem(l, l, plain_rule(a), spreads[round % 4]);
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
        struct problem p = make_problem(20, 1, plain_rule(a), 10);
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
        size_t l = random_pick(1, 100);
        struct problem p = make_problem(l, l, plain_rule(1), spreads[round % 4]);
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

/* ---- Weights of planes ----------------------------------------------------------------------- */

/* A grid in every second rule; l becomes a multiple of its rows. */
static struct area_rule any_rule(size_t *l)
{
    struct area_rule rule = {
        .width = (int)random_pick(1, MAX_AREA_WIDTH),
        .value = (enum area_value)random_pick(0, 1),
        .sigmoid = random_pick(0, 2) == 0,
        .top_k = random_pick(0, 1) ? (int)random_pick(1, random_pick(1, 40)) : 0,
    };
    if (random_pick(0, 1)) {
        rule.memory_height = (int)random_pick(1, 6);
        rule.height = (int)random_pick(1, 4);
        *l = (size_t)rule.memory_height * random_pick(1, 1 + *l / (size_t)rule.memory_height);
    }
    return rule;
}

/* planes[planes][Lp] and coverage[Lp] of a problem. */
static void weigh_planes(const struct problem *p, float *planes, float *coverage)
{
    size_t lp = kernel_padded(p->l), n = area_planes(&p->rule) * lp;
    float *scratch = malloc((2 * n + 2 * lp) * sizeof(*scratch));
    for (size_t i = 0; i < n; i++)
        planes[i] = NAN; /* what is not written may not be read */
    for (size_t m = 0; m < p->l; m++)
        planes[m] = p->keys[m * p->d];
    area_mean_logits(&p->rule, p->l, planes, scratch);
    area_weights(&p->rule, p->l, p->seen, planes, scratch);
    area_coverage_of(&p->rule, p->l, planes, coverage);
    free(scratch);
}

static size_t plane_entry(const struct problem *p, const struct area_place *place)
{
    size_t plane = (place->height - 1) * (size_t)p->rule.width + place->width - 1;
    size_t last = place->first + (place->height - 1) * place->columns + place->width - 1;
    return plane * kernel_padded(p->l) + last;
}

/* A logit is as good as the largest score's last bit: near 1e3 that is 6e-5. */
static void check_weights(const struct problem *p, float spread)
{
    size_t n = area_reference_places(&p->rule, p->l, NULL), lp = kernel_padded(p->l);
    size_t n_planes = area_planes(&p->rule);
    struct area_place *places = malloc(n * sizeof(*places));
    float *planes = malloc(n_planes * lp * sizeof(*planes)), *coverage = malloc(lp * sizeof(float));
    double *want = malloc(n * sizeof(*want)), *out = malloc(p->d * sizeof(*out)), total = 0;
    double got_total = 0, bound = fmax(1e-6, 2e-7 * (double)spread);
    area_reference_places(&p->rule, p->l, places);
    reference(p, out, want);
    weigh_planes(p, planes, coverage);
    for (size_t i = 0; i < n; i++) {
        assert_near((double)planes[plane_entry(p, &places[i])], want[i], bound, p, "weight", i);
        total += want[i] * (double)(places[i].width * places[i].height);
    }
    for (size_t i = 0; i < n_planes * lp; i++)
        got_total += (double)planes[i]; /* of areas that do not exist too: they are zero */
    assert_near(got_total, 1, 1e-5, p, "sum of weights", 0);
    size_t item = random_pick(0, p->l - 1);
    assert_near((double)coverage[item], reference_coverage(p, item), 10 * bound * fmax(total, 1), p,
                "coverage", item);
    free(places), free(planes), free(coverage), free(want), free(out);
}

/* Whether top_k hangs on rounding; where items are as good as alike, it does. */
static bool is_near_tie(const struct problem *p, float spread)
{
    struct area_reference reference = {.rule = p->rule, .d = p->d};
    struct area_memory memory = area_reference_open(&reference, p->l, p->keys, p->values);
    double margin = area_reference_margin(&memory, p->query, p->allowed);
    area_reference_close(&memory);
    return margin < fmax(1e-5, 1e-6 * (double)spread);
}

static void weights_equal_reference(void **state)
{
    (void)state;
    int checked = 0;
    for (int round = 0; round < 1500; round++) {
        size_t l = round % 40 == 0 ? random_pick(41, 300) : random_pick(1, 40);
        struct area_rule rule = any_rule(&l);
        float spread = spreads[round % 4];
        bool is_grid = rule.memory_height > 1;
        struct problem p = make_problem(l, is_grid ? l : random_pick(1, l), rule, spread);
        if (!is_near_tie(&p, spread)) {
            check_weights(&p, spread);
            checked++;
        }
        free_problem(&p);
    }
    assert_true(checked > 1300);
}

/* Of weights that are alike all stay, as in the authors' code. */
static void top_areas_that_tie_all_stay(void **state)
{
    (void)state;
    for (int top_k = 1; top_k < 12; top_k++) {
        struct area_rule rule = {.width = 3, .top_k = top_k};
        struct problem p = make_problem(5, 5, rule, 1);
        float planes[3 * KERNEL_PAD], coverage[KERNEL_PAD];
        memset(p.keys, 0, p.l * p.d * sizeof(float));
        weigh_planes(&p, planes, coverage);
        for (size_t i = 0; i < 5; i++)
            assert_near((double)planes[i], 1.0 / 12, 1e-7, &p, "weight", i);
        free_problem(&p);
    }
}

/* ---- Features of areas ----------------------------------------------------------------------- */

/* What areas.h says of x[L,D], entries [L,D] of one size of area after the other. */
struct feature_planes {
    float *squares, *integrals[2], *columns[2], *sums[2], *windows[2], *deviations;
};

static struct feature_planes open_features(const struct area_rule *rule, size_t l, size_t d,
                                           const float *x, size_t stride)
{
    size_t bytes = l * d * sizeof(float);
    struct feature_planes f = {.squares = malloc(bytes), .deviations = malloc(bytes)};
    for (int i = 0; i < 2; i++) {
        f.integrals[i] = malloc(bytes), f.columns[i] = malloc(bytes);
        f.sums[i] = malloc(bytes), f.windows[i] = malloc(bytes);
    }
    for (size_t i = 0; i < l * d; i++)
        f.squares[i] = x[i / d * stride + i % d] * x[i / d * stride + i % d];
    area_integral(rule, l, d, x, stride, f.integrals[0]);
    area_integral(rule, l, d, f.squares, d, f.integrals[1]);
    return f;
}

static void next_features(const struct area_walk *walk, size_t l, size_t d, const float *x,
                          size_t stride, struct feature_planes *f)
{
    struct area_ends sums = {.last = f->sums[0]}, squares = {.last = f->sums[1]};
    for (int i = 0; i < 2; i++) {
        area_sums(walk, l, 0, l, d, f->integrals[i], f->sums[i]);
        area_extend(walk, l, d, x, stride, i == 1, f->columns[i], f->windows[i]);
    }
    kernels_scalar.area_deviations(l * d, walk->width * walk->height, &sums, &squares,
                                   f->deviations);
}

static void close_features(struct feature_planes *f)
{
    free(f->squares), free(f->deviations);
    for (int i = 0; i < 2; i++)
        free(f->integrals[i]), free(f->columns[i]), free(f->sums[i]), free(f->windows[i]);
}

/* How far from the definition the features may be. */
struct feature_bounds {
    double sum, window, variance;
};

static void check_features(const struct area_rule *rule, size_t l, size_t d, const float *x,
                           size_t stride, const struct feature_bounds *bounds)
{
    struct problem p = {.rule = *rule, .l = l, .seen = l, .d = d};
    size_t rows = rule->memory_height > 1 ? (size_t)rule->memory_height : 1, columns = l / rows;
    struct feature_planes f = open_features(rule, l, d, x, stride);
    struct area_walk walk = {.rule = rule};
    size_t n_areas = 0;
    while (area_next(&walk)) {
        size_t h = (size_t)walk.height, w = (size_t)walk.width;
        next_features(&walk, l, d, x, stride, &f);
        for (size_t i = 0; i < l * d; i++) {
            size_t last = i / d, c = i % d;
            if (!area_exists(&walk, l, last))
                continue;
            struct area_place place = {last - (h - 1) * columns - (w - 1), h, w, columns};
            struct area_features want = area_reference_features(&place, x + c, stride);
            double variance = pow((double)f.deviations[i], 2);
            assert_near((double)f.sums[0][i], want.sum, bounds->sum, &p, "sum", i);
            assert_near((double)f.windows[0][i], want.sum, bounds->window, &p, "window", i);
            assert_near((double)f.windows[1][i], want.maximum, 0, &p, "maximum", i);
            assert_near(variance, pow(want.deviation, 2), bounds->variance, &p, "variance", i);
            n_areas += c == 0;
        }
    }
    assert_int_equal(n_areas, area_reference_places(rule, l, NULL));
    close_features(&f);
}

/* Sixteenths, and their squares, add up without rounding: sums must be exact, wherever an area
 * lies, and a variance loses some last bits of the mean square only. */
static float *random_sixteenths(size_t n)
{
    float *x = random_floats(n, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = roundf(16 * x[i]) / 16;
    return x;
}

static void features_equal_definition(void **state)
{
    (void)state;
    static const struct feature_bounds bounds = {0, 0, 3e-7};
    for (int round = 0; round < 150; round++) {
        size_t d = random_pick(1, 5), stride = d + random_pick(0, 3);
        size_t most = round % 10 == 0 ? 150 : 12; /* rows or columns: beyond AREA_BLOCK, or few */
        size_t rows = round % 3 == 0 ? 1 : random_pick(1, round % 20 ? most : 4);
        size_t columns = random_pick(1, rows == 1 ? 300 : round % 20 ? 6 : most);
        struct area_rule rule = {.width = (int)random_pick(1, rows == 1 ? MAX_AREA_WIDTH : 5),
                                 .height = (int)random_pick(1, 4),
                                 .memory_height = (int)rows};
        float *x = random_sixteenths(rows * columns * stride);
        check_features(&rule, rows * columns, d, x, stride, &bounds);
        free(x);
    }
}

/* Sums over whole blocks are at most 128 here, with a last bit of 8e-6; one image over all items
 * would end at 2,000, with one of 1e-4, and be off by a multiple of the bound. */
static void long_memories_stay_accurate(void **state)
{
    (void)state;
    static const struct feature_bounds bounds = {6e-5, 1e-5, 6e-5};
    for (int round = 0; round < 3; round++) {
        size_t l = 2000, d = 4;
        struct area_rule rule = {.width = MAX_AREA_WIDTH};
        float *x = random_floats(l * d, 1);
        for (size_t i = 0; i < l * d; i++)
            x[i] += 1;
        check_features(&rule, l, d, x, d, &bounds);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest areas[] = {
        cmocka_unit_test(weights_equal_reference),
        cmocka_unit_test(top_areas_that_tie_all_stay),
        cmocka_unit_test(features_equal_definition),
        cmocka_unit_test(long_memories_stay_accurate),
    };
    enum cpu_level best, level;
    if (cpu_detect(&best, NULL) != 0)
        return 1;
    random_seed(1);
    int failed = cmocka_run_group_tests_name("areas", areas, NULL, NULL);
    for (level = CPU_SCALAR; level <= best; level++) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(random_shapes),
            cmocka_unit_test(small_memories),
            cmocka_unit_test(all_but_one_masked),
            cmocka_unit_test(width_one_is_softmax),
        };
        tested = kernels_find(level);
        random_seed(1);
        failed += cmocka_run_group_tests_name(cpu_level_name(level), tests, NULL, NULL);
    }
    return failed;
}
