/* The attention operations of the CPU device, for every instruction set of this machine: against
 * the definition of area attention row by row, against each other, and that what else is in the
 * batch changes not a bit. */
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
#include "device/device.h"

enum { MAX_LENGTH = 90, MAX_WIDTH = 70, MAX_SENTENCES = 5, N_ROUNDS = 60 };

static struct device *device;
static struct stream *stream;

/* Sentences packed one after the other, as an encoder layer has them. */
struct packed_rows {
    struct attention attention;
    size_t n, c;
    size_t first[MAX_SENTENCES + 1];
    float *qkv; /* [R,3C], queries scaled */
};

static struct attention random_attention(void)
{
    return (struct attention){
        .n_heads = random_pick(1, 4),
        .head_width = random_pick(1, 2) == 1 ? random_pick(1, 20) : random_pick(1, MAX_WIDTH),
        .area = {.width = (int)random_pick(1, 3) == 1 ? 1 : (int)random_pick(2, MAX_AREA_WIDTH),
                 .mean_value = random_pick(0, 1)},
    };
}

static struct packed_rows random_packed(void)
{
    struct packed_rows p = {.attention = random_attention(), .n = random_pick(1, MAX_SENTENCES)};
    p.c = p.attention.n_heads * p.attention.head_width;
    for (size_t b = 0; b < p.n; b++)
        p.first[b + 1] = p.first[b] + random_pick(1, random_pick(1, 8) == 1 ? MAX_LENGTH : 30);
    p.qkv = random_floats(p.first[p.n] * 3 * p.c, 1);
    return p;
}

static size_t n_rows(const struct packed_rows *p)
{
    return p->first[p->n];
}

static float *attended(const struct packed_rows *p, bool causal)
{
    float *context = malloc(n_rows(p) * p->c * sizeof(*context));
    device->ops->attend(stream, &p->attention, causal, p->n, p->first, p->qkv, context);
    return context;
}

static void assert_close(size_t n, const float *got, const float *want, size_t row)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("row %zu, column %zu: %.9g, expected %.9g", row, i, (double)got[i],
                     (double)want[i]);
}

/* ---- Against the definition ------------------------------------------------------------------ */

/* context[D] of one query of one head over the first `seen` rows of sentence b. */
static void reference_head(const struct packed_rows *p, size_t b, size_t t, size_t seen,
                           size_t head, float *context)
{
    size_t d = p->attention.head_width, c = p->c;
    const float *start = p->qkv + p->first[b] * 3 * c + head * d;
    float *q = malloc(d * sizeof(*q)), *k = malloc(seen * d * sizeof(*k));
    float *v = malloc(seen * d * sizeof(*v));
    double *out = malloc(d * sizeof(*out));
    for (size_t i = 0; i < d; i++) /* the reference scales by D^-0.5, ours are scaled already */
        q[i] = (float)((double)start[t * 3 * c + i] * sqrt((double)d));
    for (size_t m = 0; m < seen; m++) {
        memcpy(k + m * d, start + m * 3 * c + c, d * sizeof(*k));
        memcpy(v + m * d, start + m * 3 * c + 2 * c, d * sizeof(*v));
    }
    area_reference(q, k, v, NULL, seen, d, p->attention.area.width, p->attention.area.mean_value,
                   out, NULL);
    for (size_t i = 0; i < d; i++)
        context[i] = (float)out[i];
    free(q), free(k), free(v), free(out);
}

static void attend_equals_definition(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed();
        bool causal = random_pick(0, 1);
        float *context = attended(&p, causal), *want = malloc(p.c * sizeof(*want));
        for (size_t b = 0; b < p.n; b++) {
            size_t length = p.first[b + 1] - p.first[b];
            for (size_t t = 0; t < length; t++) {
                for (size_t h = 0; h < p.attention.n_heads; h++)
                    reference_head(&p, b, t, causal ? t + 1 : length, h,
                                   want + h * p.attention.head_width);
                size_t row = p.first[b] + t;
                assert_close(p.c, context + row * p.c, want, row);
            }
        }
        free(p.qkv), free(context), free(want);
    }
}

/* ---- Step by step over a cache --------------------------------------------------------------- */

/* Each sentence is one hypothesis; its items are somewhere in the cache. */
struct stepper {
    const struct packed_rows *p;
    float *cache;
    size_t n_cache;
    int32_t *paths; /* [R] */
};

/* A third of the hypotheses has a piece of past in common with the one before it. */
static void share_past(struct packed_rows *p)
{
    for (size_t b = 1; b < p->n; b++) {
        size_t length = p->first[b + 1] - p->first[b], before = p->first[b] - p->first[b - 1];
        size_t most = length < before ? length : before;
        if (random_pick(0, 2) == 0)
            memcpy(p->qkv + p->first[b] * 3 * p->c, p->qkv + p->first[b - 1] * 3 * p->c,
                   random_pick(1, most) * 3 * p->c * sizeof(float));
    }
}

static struct stepper make_stepper(const struct packed_rows *p)
{
    struct stepper s = {.p = p, .n_cache = n_rows(p) + random_pick(0, 30)};
    size_t *order = malloc(s.n_cache * sizeof(*order));
    s.cache = calloc(s.n_cache * device->ops->cache_row_floats(&p->attention), sizeof(float));
    s.paths = malloc(n_rows(p) * sizeof(*s.paths));
    random_order(s.n_cache, order);
    for (size_t i = 0; i < n_rows(p); i++)
        s.paths[i] = (int32_t)order[i];
    for (size_t b = 1; b < p->n; b++) { /* what is equal is stored once */
        size_t length = p->first[b + 1] - p->first[b], before = p->first[b] - p->first[b - 1];
        for (size_t t = 0; t < length && t < before; t++) {
            size_t here = p->first[b] + t, there = p->first[b - 1] + t;
            if (memcmp(p->qkv + here * 3 * p->c, p->qkv + there * 3 * p->c,
                       3 * p->c * sizeof(float)) != 0)
                break;
            s.paths[here] = s.paths[there];
        }
    }
    free(order);
    return s;
}

/* Step t of the hypotheses chosen by `wanted` (a bit each) that are that long. context[R,C]. */
static void step(const struct stepper *s, size_t t, unsigned wanted, float *context)
{
    const struct packed_rows *p = s->p;
    const int32_t *paths[MAX_SENTENCES];
    int32_t lengths[MAX_SENTENCES];
    size_t rows[MAX_SENTENCES], n = 0;
    float *qkv = calloc(MAX_SENTENCES * 3 * p->c, sizeof(*qkv));
    float *out = malloc(MAX_SENTENCES * p->c * sizeof(*out));
    for (size_t b = p->n; b-- > 0;) {
        if (!(wanted >> b & 1) || t >= p->first[b + 1] - p->first[b])
            continue;
        paths[n] = s->paths + p->first[b];
        lengths[n] = (int32_t)t + 1;
        rows[n] = p->first[b] + t;
        memcpy(qkv + n * 3 * p->c, p->qkv + rows[n] * 3 * p->c, 3 * p->c * sizeof(*qkv));
        n++;
    }
    struct step_rows step_rows = {.n_rows = n, .paths = paths, .lengths = lengths};
    device->ops->attend_step(stream, &p->attention, &step_rows, s->cache, qkv, out);
    for (size_t i = 0; i < n; i++)
        memcpy(context + rows[i] * p->c, out + i * p->c, p->c * sizeof(*out));
    free(qkv), free(out);
}

static void free_stepper(struct stepper *s)
{
    free(s->cache), free(s->paths);
}

static void steps_equal_causal_attend(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed();
        share_past(&p);
        struct stepper s = make_stepper(&p);
        float *want = attended(&p, true), *got = calloc(n_rows(&p) * p.c, sizeof(*got));
        for (size_t t = 0; t < MAX_LENGTH; t++)
            step(&s, t, ~0u, got);
        for (size_t row = 0; row < n_rows(&p); row++)
            assert_close(p.c, got + row * p.c, want + row * p.c, row);
        free(p.qkv), free(want), free(got);
        free_stepper(&s);
    }
}

static void steps_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed();
        struct stepper s = make_stepper(&p), alone = make_stepper(&p);
        float *together = calloc(n_rows(&p) * p.c, sizeof(*together));
        float *one = calloc(n_rows(&p) * p.c, sizeof(*one));
        for (size_t t = 0; t < MAX_LENGTH; t++)
            step(&s, t, ~0u, together);
        for (size_t b = 0; b < p.n; b++)
            for (size_t t = 0; t < MAX_LENGTH; t++)
                step(&alone, t, 1u << b, one);
        assert_memory_equal(one, together, n_rows(&p) * p.c * sizeof(*one));
        free(p.qkv), free(together), free(one);
        free_stepper(&s), free_stepper(&alone);
    }
}

/* ---- Encoder memory -------------------------------------------------------------------------- */

static float *stored_memory(const struct packed_rows *p, size_t b)
{
    size_t length = p->first[b + 1] - p->first[b], c = p->c;
    float *joined = malloc(length * 2 * c * sizeof(*joined));
    float *memory = malloc(device->ops->memory_floats(&p->attention, length) * sizeof(*memory));
    for (size_t m = 0; m < length; m++)
        memcpy(joined + m * 2 * c, p->qkv + (p->first[b] + m) * 3 * c + c, 2 * c * sizeof(float));
    device->ops->store_memory(stream, &p->attention, length, joined, memory);
    free(joined);
    return memory;
}

static float *queries(const struct packed_rows *p)
{
    float *query = malloc(n_rows(p) * p->c * sizeof(*query));
    for (size_t row = 0; row < n_rows(p); row++)
        memcpy(query + row * p->c, p->qkv + row * 3 * p->c, p->c * sizeof(*query));
    return query;
}

/* All sentences together, and one row at a time. */
static void memory_equals_attend(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed();
        struct memory_rows rows[MAX_SENTENCES];
        float *memories[MAX_SENTENCES], *want = attended(&p, false), *query = queries(&p);
        float *got = malloc(n_rows(&p) * p.c * sizeof(*got));
        for (size_t b = 0; b < p.n; b++) {
            size_t length = p.first[b + 1] - p.first[b];
            memories[b] = stored_memory(&p, b);
            rows[b] = (struct memory_rows){memories[b], length, p.first[b], length};
        }
        device->ops->attend_memory(stream, &p.attention, p.n, rows, query, got);
        assert_memory_equal(got, want, n_rows(&p) * p.c * sizeof(*got));
        size_t b = random_pick(0, p.n - 1), row = random_pick(p.first[b], p.first[b + 1] - 1);
        struct memory_rows one = {memories[b], rows[b].length, 0, 1};
        device->ops->attend_memory(stream, &p.attention, 1, &one, query + row * p.c, got);
        assert_memory_equal(got, want + row * p.c, p.c * sizeof(*got));
        for (b = 0; b < p.n; b++)
            free(memories[b]);
        free(p.qkv), free(want), free(query), free(got);
    }
}

/* ---- Independence ---------------------------------------------------------------------------- */

/* Sentence b alone, and after another sentence that was not there before. */
static void sentences_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed();
        bool causal = random_pick(0, 1);
        float *together = attended(&p, causal);
        size_t b = random_pick(0, p.n - 1), length = p.first[b + 1] - p.first[b];
        size_t before = random_pick(0, 40), row_bytes = p.c * sizeof(float);
        struct packed_rows other = {.attention = p.attention, .c = p.c, .n = before > 0 ? 2 : 1};
        other.first[other.n - 1] = before;
        other.first[other.n] = before + length;
        other.qkv = random_floats((before + length) * 3 * p.c, 100);
        memcpy(other.qkv + before * 3 * p.c, p.qkv + p.first[b] * 3 * p.c, length * 3 * row_bytes);
        float *again = attended(&other, causal);
        assert_memory_equal(again + before * p.c, together + p.first[b] * p.c, length * row_bytes);
        free(p.qkv), free(other.qkv), free(together), free(again);
    }
}

static int open_device(enum cpu_level level)
{
    struct stream_limits limits = {
        .max_memory = MAX_LENGTH, .max_head_width = MAX_WIDTH, .max_width = MAX_WIDTH};
    if (device_cpu_open(level, &device, NULL) != 0)
        return 1;
    return device->ops->stream_open(device, &limits, &stream);
}

int main(void)
{
    enum cpu_level best, level;
    if (cpu_detect(&best, NULL) != 0)
        return 1;
    int failed = 0;
    for (level = CPU_SCALAR; level <= best; level++) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(attend_equals_definition),
            cmocka_unit_test(steps_equal_causal_attend),
            cmocka_unit_test(steps_are_independent),
            cmocka_unit_test(memory_equals_attend),
            cmocka_unit_test(sentences_are_independent),
        };
        random_seed(2);
        if (open_device(level) != 0)
            return 1;
        failed += cmocka_run_group_tests_name(cpu_level_name(level), tests, NULL, NULL);
        device->ops->stream_close(stream);
        device_close(device);
    }
    return failed;
}
