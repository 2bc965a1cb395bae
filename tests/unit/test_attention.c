/* The attention operations of the CPU device, for every instruction set of this machine: against
 * the definition of area attention row by row, against each other, and that what else is in the
 * batch changes not a bit.
 *
 * On deviations: where the items of an area are alike, as in areas of one item, E[x²] - E[x]² is
 * what rounding leaves. The engine's float32 integral images leave what the authors' code leaves,
 * the reference leaves nothing; so numbers are compared with the definition on keys that add up
 * without rounding, and once on others, see deviations_of_any_keys().
 *
 * Where keys and values are bfloat16, the numbers of the test are such that only whole passes round
 * anything, the coverage; but for keys with dense layers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/area_reference.h"
#include "../support/random.h"
#include "device/cpu/attention.h"
#include "kernels/areas.h"

enum {
    MAX_LENGTH = 300,
    MAX_HEAD = 70,
    MAX_HEADS = 4,
    MAX_HEIGHT = 4,
    MAX_SENTENCES = 5,
    N_ROUNDS = 60
};

static struct device *device;
static struct stream *stream;

/* ---- Attentions ------------------------------------------------------------------------------ */

/* An attention with what its keys are computed with, for the engine and for the reference. */
struct subject {
    struct attention attention;
    struct area_reference reference;
    struct area_key *key;
    float *parameters[6]; /* owned */
    bool is_long;         /* small enough for long sentences */
};

/* A uniform distribution of variance 1 / columns keeps the size of what is multiplied. */
static struct tensor random_parameter(size_t rows, size_t columns, size_t inputs, float **floats)
{
    *floats = random_floats(rows * columns, sqrtf(3.0f / (float)inputs));
    return (struct tensor){
        .data = *floats, .dtype = DTYPE_F32, .n_dims = 2, .shape = {rows, columns}};
}

static void scale_floats(size_t n, float scale, float *floats)
{
    for (size_t i = 0; i < n; i++)
        floats[i] *= scale;
}

/* The reference has the scale of keys in its parameters. */
static void open_key(struct subject *s, enum area_key_mode mode)
{
    size_t d = s->attention.head_width, inputs = area_key_inputs(mode, d);
    size_t height = s->attention.area.height > 1 ? (size_t)s->attention.area.height : 1;
    struct area_key_parts parts = {.mode = mode, .scale = random_pick(0, 1) ? 1.0f : 0.7f};
    struct area_reference *r = &s->reference;
    *r = (struct area_reference){.rule = s->attention.area, .key = mode, .d = d};
    assert_int_equal(inputs, area_reference_inputs(r));
    if (mode == AREA_KEY_MEAN)
        return;
    if (inputs > 0) {
        float **p = s->parameters;
        size_t width = (size_t)s->attention.area.width;
        parts.fc1_weight = random_parameter(d, inputs, inputs, &p[0]);
        parts.fc1_bias = random_parameter(1, d, 3, &p[1]);
        parts.fc2_weight = random_parameter(d, d, d, &p[2]);
        parts.fc2_bias = random_parameter(1, d, 3, &p[3]);
        parts.height_embedding = random_parameter(height, d / 2, 3, &p[4]);
        parts.width_embedding = random_parameter(width, d / 2, 3, &p[5]);
        r->fc1_weight = p[0], r->fc1_bias = p[1], r->fc2_weight = p[2], r->fc2_bias = p[3];
        r->height_embedding = p[4], r->width_embedding = p[5];
    }
    assert_int_equal(device->ops->area_key_open(device, &parts, &s->attention, &s->key), 0);
    s->attention.key = s->key;
    if (inputs > 0) {
        scale_floats(d * d, parts.scale, s->parameters[2]);
        scale_floats(d, parts.scale, s->parameters[3]);
    }
}

static struct area_rule plain_rule(void)
{
    return (struct area_rule){
        .width = random_pick(1, 3) == 1 ? 1 : (int)random_pick(2, MAX_AREA_WIDTH),
        .value = (enum area_value)random_pick(0, 1),
    };
}

/* On a line, or maybe on a grid. */
static struct area_rule any_rule(bool line)
{
    struct area_rule rule = {
        .width = (int)random_pick(1, random_pick(0, 1) ? MAX_AREA_WIDTH : 4),
        .value = (enum area_value)random_pick(0, 2),
        .top_k = random_pick(0, 2) == 0 ? (int)random_pick(1, 12) : 0,
        .sigmoid = random_pick(0, 2) == 0,
    };
    if (!line && random_pick(0, 1)) {
        rule.height = (int)random_pick(1, MAX_HEIGHT);
        rule.memory_height = (int)(random_pick(0, 7) ? random_pick(1, 6) : random_pick(65, 70));
    }
    return rule;
}

/* A third is what most models have, mean keys and coverage in the kernels. */
static struct subject random_subject(bool line)
{
    struct subject s = {.is_long = random_pick(0, 7) == 0};
    bool is_plain = random_pick(0, 2) == 0;
    size_t most = random_pick(0, 1) && !s.is_long ? MAX_HEAD : 20;
    s.attention = (struct attention){
        .n_heads = random_pick(1, s.is_long ? 2 : MAX_HEADS),
        .head_width = random_pick(1, most),
        .area = is_plain ? plain_rule() : any_rule(line),
    };
    s.attention.type = s.attention.area.top_k > 0 || random_pick(0, 1) ? COMPUTE_F32 : COMPUTE_BF16;
    s.is_long = s.is_long || s.attention.area.memory_height > 6;
    open_key(&s, is_plain ? AREA_KEY_MEAN : (enum area_key_mode)random_pick(0, 6));
    return s;
}

static bool has_deviation(const struct subject *s)
{
    return s->reference.key == AREA_KEY_CONCAT || s->reference.key == AREA_KEY_SUM;
}

static void close_subject(struct subject *s)
{
    device->ops->area_key_close(s->key);
    for (int i = 0; i < 6; i++)
        free(s->parameters[i]);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

/* Sentences packed one after the other, as an encoder layer has them. */
struct packed_rows {
    struct subject subject;
    size_t n, c;
    size_t first[MAX_SENTENCES + 1];
    float *qkv; /* owned, [R,3C], queries scaled */
};

static size_t n_rows(const struct packed_rows *p)
{
    return p->first[p->n];
}

static size_t length_of(const struct packed_rows *p, size_t b)
{
    return p->first[b + 1] - p->first[b];
}

static size_t grid_rows(const struct packed_rows *p)
{
    int rows = p->subject.attention.area.memory_height;
    return rows > 1 ? (size_t)rows : 1;
}

/* Sixteenths and their squares: whole blocks of them add up without rounding. */
static void make_sums_exact(struct packed_rows *p)
{
    for (size_t i = 0; i < n_rows(p) * 3 * p->c; i++)
        p->qkv[i] = roundf(16 * p->qkv[i]) / 16;
}

/* Lines have no areas in two dimensions, and may be causal. */
static struct packed_rows random_packed(bool line)
{
    struct packed_rows p = {.subject = random_subject(line), .n = random_pick(1, MAX_SENTENCES)};
    size_t rows = grid_rows(&p), most = p.subject.is_long ? MAX_LENGTH : 30;
    p.n = p.subject.is_long ? 2 : p.n;
    p.c = p.subject.attention.n_heads * p.subject.attention.head_width;
    for (size_t b = 0; b < p.n; b++)
        p.first[b + 1] = p.first[b] + rows * random_pick(1, most / rows);
    p.qkv = random_floats(n_rows(&p) * 3 * p.c, 1);
    if (p.subject.attention.type == COMPUTE_BF16)
        make_sums_exact(&p);
    return p;
}

/* Whether dense layers are computed, and their hidden units kept, in bfloat16. */
static bool has_rounded_keys(const struct packed_rows *p)
{
    return p->subject.attention.type == COMPUTE_BF16 &&
           area_key_inputs(p->subject.reference.key, p->subject.attention.head_width) > 0;
}

/* Of whole passes. The coverage of all items adds up to at most the items of an area; logits of
 * rounded keys are off by a few of their last bits, which moves that share of the weights. */
static float bound_of(const struct packed_rows *p)
{
    const struct area_rule *rule = &p->subject.attention.area;
    int most = rule->width * (rule->height > 1 ? rule->height : 1);
    float items = rule->value == AREA_VALUE_SUM ? (float)most : 1.0f;
    if (p->subject.attention.type == COMPUTE_F32)
        return 1e-5f;
    return has_rounded_keys(p) ? items * 0x1p-6f : fminf(items * 0x1p-8f, MAX_AREA_WIDTH * 0x1p-9f);
}

/* Of steps, which round nothing else, and of weights. */
static float exact_bound(const struct packed_rows *p, float bound)
{
    return has_rounded_keys(p) ? bound_of(p) : bound;
}

static void free_packed(struct packed_rows *p)
{
    free(p->qkv);
    close_subject(&p->subject);
}

static float *attended(const struct packed_rows *p, bool causal)
{
    float *context = malloc(n_rows(p) * p->c * sizeof(*context));
    cpu_attend(stream, &p->subject.attention, causal, p->n, p->first, p->qkv, context);
    return context;
}

static const char *describe(const struct packed_rows *p)
{
    static char text[160];
    const struct attention *a = &p->subject.attention;
    snprintf(text, sizeof(text),
             "%zu heads of %zu, key %d, value %d, areas %d x %d of %d rows, top %d, %s", a->n_heads,
             a->head_width, (int)p->subject.reference.key, (int)a->area.value, a->area.height,
             a->area.width, a->area.memory_height, a->area.top_k,
             a->area.sigmoid ? "sigmoid" : "softmax");
    return text;
}

static void assert_close(const struct packed_rows *p, size_t n, const float *got, const float *want,
                         float bound, size_t row)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= bound * (1 + fabsf(want[i]))))
            fail_msg("%s: row %zu, column %zu: %.9g, expected %.9g", describe(p), row, i,
                     (double)got[i], (double)want[i]);
}

/* ---- Against the definition ------------------------------------------------------------------ */

static struct area_memory reference_memory(const struct packed_rows *p, size_t b, size_t head)
{
    size_t d = p->subject.attention.head_width, c = p->c, length = length_of(p, b);
    const float *start = p->qkv + p->first[b] * 3 * c + head * d;
    float *k = malloc(length * d * sizeof(*k)), *v = malloc(length * d * sizeof(*v));
    for (size_t m = 0; m < length; m++) {
        memcpy(k + m * d, start + m * 3 * c + c, d * sizeof(*k));
        memcpy(v + m * d, start + m * 3 * c + 2 * c, d * sizeof(*v));
    }
    struct area_memory memory = area_reference_open(&p->subject.reference, length, k, v);
    free(k), free(v);
    return memory;
}

/* Rounding decides which areas count, unless they are alike to the last bit, as maxima are. */
static bool is_near_tie(const struct packed_rows *p, const struct area_memory *memory,
                        const float *query, const bool *allowed)
{
    double margin = area_reference_margin(memory, query, allowed);
    return margin < 1e-4 && !(margin == 0 && p->subject.reference.key == AREA_KEY_MAX);
}

/* Row t of sentence b; returns whether it could be compared. */
static bool check_row(const struct packed_rows *p, const struct area_memory *memory, size_t b,
                      size_t t, size_t head, bool causal, const float *context, float bound)
{
    size_t d = p->subject.attention.head_width, length = length_of(p, b), row = p->first[b] + t;
    const float *query = p->qkv + row * 3 * p->c + head * d;
    bool *allowed = calloc(length, sizeof(*allowed));
    double *out = malloc(d * sizeof(*out));
    float *want = malloc(d * sizeof(*want));
    for (size_t m = 0; m < length; m++)
        allowed[m] = !causal || m <= t;
    bool comparable = !is_near_tie(p, memory, query, allowed);
    if (comparable) {
        area_reference_attend(memory, query, allowed, out, NULL);
        for (size_t i = 0; i < d; i++)
            want[i] = (float)out[i];
        assert_close(p, d, context + row * p->c + head * d, want, bound, row);
    }
    free(allowed), free(out), free(want);
    return comparable;
}

/* Of all rows that check_rows() tried. */
static size_t n_tried, n_compared;

/* All rows of all heads, some of long sentences. */
static void check_rows(const struct packed_rows *p, bool causal, const float *context, float bound)
{
    for (size_t b = 0; b < p->n; b++) {
        size_t step = length_of(p, b) > 60 ? 7 : 1;
        for (size_t h = 0; h < p->subject.attention.n_heads; h++) {
            struct area_memory memory = reference_memory(p, b, h);
            for (size_t t = random_pick(0, step - 1); t < length_of(p, b); t += step, n_tried++)
                n_compared += check_row(p, &memory, b, t, h, causal, context, bound);
            area_reference_close(&memory);
        }
    }
}

/* Near ties must be few, or the test would not be one. */
static void check_tally(void)
{
    if (n_compared < n_tried - n_tried / 16)
        fail_msg("%zu of %zu rows are near ties", n_tried - n_compared, n_tried);
    n_compared = n_tried = 0;
}

static void attend_equals_definition(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * N_ROUNDS; round++) {
        bool causal = random_pick(0, 1);
        struct packed_rows p = random_packed(causal);
        if (has_deviation(&p.subject))
            make_sums_exact(&p);
        float *context = attended(&p, causal);
        check_rows(&p, causal, context, bound_of(&p));
        free(context);
        free_packed(&p);
    }
    check_tally();
}

/* Keys that do not add up without rounding: the variance of areas of alike items, zero by the
 * definition, is of the order of the last bit of a block's sum of squares, which is up to 20 here:
 * 2e-6. So their deviation is not 1e-3 but up to 2e-3, and a context moves by less than half of
 * that difference. */
static void deviations_of_any_keys(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * N_ROUNDS; round++) {
        bool causal = random_pick(0, 1);
        struct packed_rows p = random_packed(causal);
        float *context = attended(&p, causal);
        if (has_deviation(&p.subject) && p.subject.attention.area.top_k == 0)
            check_rows(&p, causal, context, fmaxf(5e-4f, bound_of(&p)));
        free(context);
        free_packed(&p);
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
        size_t length = length_of(p, b), before = length_of(p, b - 1);
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
    size_t row_floats = cpu_cache_row_floats(&p->subject.attention);
    s.cache = calloc(s.n_cache * row_floats, sizeof(float));
    s.paths = malloc(n_rows(p) * sizeof(*s.paths));
    random_order(s.n_cache, order);
    for (size_t i = 0; i < n_rows(p); i++)
        s.paths[i] = (int32_t)order[i];
    for (size_t b = 1; b < p->n; b++) { /* what is equal is stored once */
        for (size_t t = 0; t < length_of(p, b) && t < length_of(p, b - 1); t++) {
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
        if (!(wanted >> b & 1) || t >= length_of(p, b))
            continue;
        paths[n] = s->paths + p->first[b];
        lengths[n] = (int32_t)t + 1;
        rows[n] = p->first[b] + t;
        memcpy(qkv + n * 3 * p->c, p->qkv + rows[n] * 3 * p->c, 3 * p->c * sizeof(*qkv));
        n++;
    }
    struct step_rows step_rows = {.n_rows = n, .paths = paths, .lengths = lengths};
    cpu_attend_step(stream, &p->subject.attention, &step_rows, s->cache, qkv, out);
    for (size_t i = 0; i < n; i++)
        memcpy(context + rows[i] * p->c, out + i * p->c, p->c * sizeof(*out));
    free(qkv), free(out);
}

static void free_stepper(struct stepper *s)
{
    free(s->cache), free(s->paths);
}

/* The contexts of all steps of all hypotheses. */
static float *stepped(const struct packed_rows *p)
{
    struct stepper s = make_stepper(p);
    float *context = calloc(n_rows(p) * p->c, sizeof(*context));
    for (size_t t = 0; t < MAX_LENGTH; t++)
        step(&s, t, ~0u, context);
    free_stepper(&s);
    return context;
}

/* On any keys: deviations of steps have the rounding of those of whole passes. */
static void steps_equal_causal_attend(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * N_ROUNDS; round++) {
        struct packed_rows p = random_packed(true);
        share_past(&p);
        float *want = attended(&p, true), *got = stepped(&p);
        for (size_t row = 0; row < n_rows(&p) && p.subject.attention.area.top_k == 0; row++)
            assert_close(&p, p.c, got + row * p.c, want + row * p.c, bound_of(&p), row);
        free(want), free(got);
        free_packed(&p);
    }
}

static void steps_equal_definition(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed(true);
        share_past(&p);
        if (has_deviation(&p.subject))
            make_sums_exact(&p);
        float *context = stepped(&p);
        check_rows(&p, true, context, exact_bound(&p, 1e-5f));
        free(context);
        free_packed(&p);
    }
    check_tally();
}

static void steps_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct packed_rows p = random_packed(true);
        struct stepper s = make_stepper(&p), alone = make_stepper(&p);
        float *together = calloc(n_rows(&p) * p.c, sizeof(*together));
        float *one = calloc(n_rows(&p) * p.c, sizeof(*one));
        for (size_t t = 0; t < MAX_LENGTH; t++)
            step(&s, t, ~0u, together);
        for (size_t b = 0; b < p.n; b++)
            for (size_t t = 0; t < MAX_LENGTH; t++)
                step(&alone, t, 1u << b, one);
        assert_memory_equal(one, together, n_rows(&p) * p.c * sizeof(*one));
        free(together), free(one);
        free_stepper(&s), free_stepper(&alone);
        free_packed(&p);
    }
}

/* ---- Encoder memory -------------------------------------------------------------------------- */

static float *stored_memory(const struct packed_rows *p, size_t b)
{
    size_t length = length_of(p, b), c = p->c;
    size_t n_floats = cpu_memory_floats(&p->subject.attention, length);
    float *memory = malloc(n_floats * sizeof(*memory));
    const float *keys = p->qkv + p->first[b] * 3 * c + c;
    cpu_store_memory(stream, &p->subject.attention, length, keys, 3 * c, keys + c, 3 * c, memory);
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
        struct packed_rows p = random_packed(false);
        const struct attention *attention = &p.subject.attention;
        struct memory_rows rows[MAX_SENTENCES];
        float *memories[MAX_SENTENCES], *want = attended(&p, false), *query = queries(&p);
        float *got = malloc(n_rows(&p) * p.c * sizeof(*got));
        for (size_t b = 0; b < p.n; b++) {
            memories[b] = stored_memory(&p, b);
            rows[b] = (struct memory_rows){memories[b], length_of(&p, b), p.first[b],
                                           length_of(&p, b), NULL};
        }
        cpu_attend_memory(stream, attention, p.n, rows, query, got);
        assert_memory_equal(got, want, n_rows(&p) * p.c * sizeof(*got));
        size_t b = random_pick(0, p.n - 1), row = random_pick(p.first[b], p.first[b + 1] - 1);
        struct memory_rows one = {memories[b], rows[b].length, 0, 1, NULL};
        cpu_attend_memory(stream, attention, 1, &one, query + row * p.c, got);
        assert_memory_equal(got, want + row * p.c, p.c * sizeof(*got));
        for (b = 0; b < p.n; b++)
            free(memories[b]);
        free(want), free(query), free(got);
        free_packed(&p);
    }
}

/* The weights of one query, in the places that kernels/areas.h gives them; all else is zero. */
static void check_weights(const struct packed_rows *p, size_t b, size_t head, const float *query,
                          const float *weights)
{
    const struct area_rule *rule = &p->subject.attention.area;
    struct area_memory memory = reference_memory(p, b, head);
    double *want = malloc(memory.n * sizeof(*want)), *out = malloc(memory.d * sizeof(*out));
    double total = 0;
    bool comparable = !is_near_tie(p, &memory, query, NULL);
    size_t lp = kernel_padded(length_of(p, b));
    area_reference_attend(&memory, query, NULL, out, want);
    for (size_t i = 0; i < memory.n && comparable; i++) {
        const struct area_place *place = &memory.places[i];
        size_t plane = (place->height - 1) * (size_t)rule->width + place->width - 1;
        size_t last = place->first + (place->height - 1) * place->columns + place->width - 1;
        float expected = (float)want[i];
        assert_close(p, 1, weights + plane * lp + last, &expected, exact_bound(p, 3e-6f), i);
    }
    for (size_t i = 0; i < area_planes(rule) * lp; i++)
        total += (double)weights[i];
    assert_true(fabs(total - 1) < 1e-5);
    free(want), free(out);
    area_reference_close(&memory);
}

static void memory_weights_equal_definition(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * N_ROUNDS; round++) {
        struct packed_rows p = random_packed(false);
        const struct attention *attention = &p.subject.attention;
        if (has_deviation(&p.subject))
            make_sums_exact(&p);
        for (size_t b = 0; b < p.n; b++) {
            size_t head = random_pick(0, attention->n_heads - 1), length = length_of(&p, b);
            const float *query = p.qkv + (p.first[b + 1] - 1) * 3 * p.c;
            size_t n_floats = area_planes(&attention->area) * kernel_padded(length);
            float *memory = stored_memory(&p, b), *weights = malloc(n_floats * sizeof(*weights));
            query += head * attention->head_width;
            cpu_memory_weights(stream, attention, head, length, memory, query, weights);
            check_weights(&p, b, head, query, weights);
            free(memory), free(weights);
        }
        free_packed(&p);
    }
}

/* ---- Independence ---------------------------------------------------------------------------- */

/* Sentence b alone, and after another sentence that was not there before. */
static void sentences_are_independent(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        bool causal = random_pick(0, 1);
        struct packed_rows p = random_packed(causal);
        float *together = attended(&p, causal);
        size_t b = random_pick(0, p.n - 1), length = length_of(&p, b), rows = grid_rows(&p);
        size_t before = rows * random_pick(0, 40 / rows), row_bytes = p.c * sizeof(float);
        struct packed_rows other = {.subject = p.subject, .c = p.c, .n = before > 0 ? 2 : 1};
        other.first[other.n - 1] = before;
        other.first[other.n] = before + length;
        other.qkv = random_floats((before + length) * 3 * p.c, 100);
        memcpy(other.qkv + before * 3 * p.c, p.qkv + p.first[b] * 3 * p.c, length * 3 * row_bytes);
        float *again = attended(&other, causal);
        assert_memory_equal(again + before * p.c, together + p.first[b] * p.c, length * row_bytes);
        free(other.qkv), free(together), free(again);
        free_packed(&p);
    }
}

static int open_device(enum cpu_level level)
{
    struct stream_limits limits = {.max_memory = MAX_LENGTH,
                                   .max_head_width = MAX_HEAD,
                                   .max_width = MAX_HEADS * MAX_HEAD,
                                   .max_planes = MAX_AREA_WIDTH * MAX_HEIGHT};
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
            cmocka_unit_test(deviations_of_any_keys),
            cmocka_unit_test(steps_equal_causal_attend),
            cmocka_unit_test(steps_equal_definition),
            cmocka_unit_test(steps_are_independent),
            cmocka_unit_test(memory_equals_attend),
            cmocka_unit_test(memory_weights_equal_definition),
            cmocka_unit_test(sentences_are_independent),
        };
        random_seed(2 + (uint64_t)level); /* other attentions for every instruction set */
        if (open_device(level) != 0)
            return 1;
        failed += cmocka_run_group_tests_name(cpu_level_name(level), tests, NULL, NULL);
        device->ops->stream_close(stream);
        device_close(device);
    }
    return failed;
}
