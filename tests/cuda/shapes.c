/* Area attention of a device against its definition in double precision (support/area_reference.h),
 * through the operations of device.h: self-attention of whole sentences, causal or not, and
 * memories that rows attend to; of random shapes. Prints how many rows agree.
 *
 * FORM "modes", which is the usual one, has every mode there is, on short sentences. "f16" and
 * "f32" have what the scores identity serves, in that type, on sentences of several tiles and with
 * the usual widths of heads.
 *
 * Keys with deviations are whole numbers over 8, so that sums of squares are exact and rounding
 * noise has no part in it. Numbers of f16 have that type before.
 * Usage: shapes DEVICE N [SEED [FORM]] */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/area_reference.h"
#include "../support/random.h"
#include "device/device.h"
#include "search/constraint.h"

enum { MAX_SENTENCES = 3, MAX_ROWS = MAX_SENTENCES * 200, MAX_C = 256 }; /* of any form */

struct form {
    const char *name;
    enum compute_type type;
    size_t max_heads, max_c, widths[6]; /* of heads: all are as likely */
    size_t shortest, usual, longest;    /* sentences: one of ten may be longer than the usual */
    bool is_plain;
    size_t max_planes;
    double bound; /* of errors, relative to the largest number */
};

static const struct form forms[] = {
    {"modes", COMPUTE_F32, 3, 96, {32, 32, 12, 18, 7, 24}, 1, 12, 40, false, 16 * 4, 2e-5},
    {"f16", COMPUTE_F16, 2, 256, {64, 128, 64, 128, 64, 128}, 65, 200, 200, true, 5, 2e-3},
    {"f32", COMPUTE_F32, 2, 256, {64, 128, 64, 128, 64, 128}, 65, 200, 200, true, 5, 2e-5},
};
static const struct form *form = &forms[0];

static size_t max_rows(void)
{
    return MAX_SENTENCES * form->longest;
}

/* One attention, for the device and for the reference. */
struct subject {
    struct attention attention;
    struct area_reference reference;
    struct area_key *key;
    float *parameters[6]; /* owned */
    bool is_causal;
    size_t c;
};

struct place {
    struct device *device;
    struct stream *stream;
    struct buffer *qkv, *context;
    struct constraint *constraint;
};

/* Whole sentences: rows of [3][H][D]. */
struct sentences {
    size_t n, first[MAX_SENTENCES + 1];
    float *qkv;
};

/* ---- Random attentions ----------------------------------------------------------------------- */

static struct tensor random_parameter(size_t rows, size_t columns, float **floats)
{
    *floats = random_floats(rows * columns, sqrtf(3.0f / (float)columns));
    return (struct tensor){
        .data = *floats, .dtype = DTYPE_F32, .n_dims = 2, .shape = {rows, columns}};
}

static bool open_key(struct subject *s, struct device *device, enum area_key_mode mode)
{
    size_t d = s->attention.head_width, inputs = area_key_inputs(mode, d);
    size_t height = (size_t)s->attention.area.height, width = (size_t)s->attention.area.width;
    struct area_key_parts parts = {.mode = mode, .scale = 1.0f};
    if (mode == AREA_KEY_MEAN)
        return true;
    if (inputs > 0) {
        parts.fc1_weight = random_parameter(d, inputs, &s->parameters[0]);
        parts.fc1_bias = random_parameter(1, d, &s->parameters[1]);
        parts.fc2_weight = random_parameter(d, d, &s->parameters[2]);
        parts.fc2_bias = random_parameter(1, d, &s->parameters[3]);
        parts.height_embedding = random_parameter(height, d / 2, &s->parameters[4]);
        parts.width_embedding = random_parameter(width, d / 2, &s->parameters[5]);
    }
    s->reference.fc1_weight = s->parameters[0], s->reference.fc1_bias = s->parameters[1];
    s->reference.fc2_weight = s->parameters[2], s->reference.fc2_bias = s->parameters[3];
    s->reference.height_embedding = s->parameters[4];
    s->reference.width_embedding = s->parameters[5];
    return device->ops->area_key_open(device, &parts, &s->attention, &s->key) == 0;
}

static struct area_rule random_rule(void)
{
    struct area_rule rule = {.width = (int)random_pick(1, random_pick(0, 3) ? 5 : 16),
                             .height = 1,
                             .memory_height = 1,
                             .value = (enum area_value)random_pick(0, 2),
                             .top_k = random_pick(0, 3) ? 0 : (int)random_pick(1, 12),
                             .sigmoid = random_pick(0, 3) == 0};
    if (random_pick(0, 3) == 0) {
        rule.memory_height = (int)random_pick(2, 4);
        rule.height = (int)random_pick(1, 3);
        rule.width = (int)random_pick(1, 4);
    }
    return rule;
}

static bool open_subject(struct subject *s, struct device *device)
{
    struct area_rule rule = random_rule();
    enum area_key_mode mode = (enum area_key_mode)random_pick(0, AREA_KEY_SAMPLE_SUM);
    if (form->is_plain || random_pick(0, 1)) { /* half of them are what the identity serves */
        mode = AREA_KEY_MEAN;
        rule = (struct area_rule){.width = rule.width, .height = 1, .value = rule.value};
        if (form->is_plain && rule.width > 5)
            rule.width = (int)random_pick(1, 5);
        if (rule.value == AREA_VALUE_MAX)
            rule.value = AREA_VALUE_MEAN;
    }
    *s = (struct subject){.attention = {.n_heads = random_pick(1, form->max_heads),
                                        .type = form->type,
                                        .area = rule}};
    s->attention.head_width = form->widths[random_pick(0, 5)];
    s->c = s->attention.n_heads * s->attention.head_width;
    s->is_causal = rule.memory_height <= 1 && random_pick(0, 1);
    s->reference = (struct area_reference){.rule = rule, .key = mode, .d = s->attention.head_width};
    bool is_open = open_key(s, device, mode);
    s->attention.key = s->key;
    return is_open;
}

static void close_subject(struct subject *s, const struct device *device)
{
    device->ops->area_key_close(s->key);
    for (size_t i = 0; i < 6; i++)
        free(s->parameters[i]);
}

static struct sentences random_sentences(const struct subject *s)
{
    struct sentences sentences = {.n = random_pick(1, MAX_SENTENCES)};
    size_t rows = s->attention.area.memory_height > 1 ? (size_t)s->attention.area.memory_height : 1;
    for (size_t b = 0; b < sentences.n; b++) {
        size_t most = random_pick(0, 9) ? form->usual : form->longest;
        size_t columns = random_pick(form->shortest, most / rows);
        sentences.first[b + 1] = sentences.first[b] + rows * columns;
    }
    size_t n = sentences.first[sentences.n] * 3 * s->c;
    sentences.qkv = random_floats(n, 8.0f);
    for (size_t i = 0; i < n; i++) {
        bool is_query = i / s->c % 3 == 0;
        if (!is_query)
            sentences.qkv[i] = rintf(sentences.qkv[i]) / 8;
        else if (form->type == COMPUTE_F32)
            sentences.qkv[i] = 0.1f * sentences.qkv[i];
        else
            sentences.qkv[i] = rintf(25.6f * sentences.qkv[i]) / 256;
    }
    return sentences;
}

/* ---- What comes out -------------------------------------------------------------------------- */

/* The definition's context of a row; false: rounding decides which areas count. */
static bool define_row(const struct subject *s, const struct sentences *in, size_t b, size_t row,
                       size_t head, double *out)
{
    size_t d = s->attention.head_width, begin = in->first[b];
    size_t l = s->is_causal ? row + 1 - begin : in->first[b + 1] - begin;
    float *keys = malloc(l * d * sizeof(*keys)), *values = malloc(l * d * sizeof(*values));
    const float *query = in->qkv + row * 3 * s->c + head * d;
    for (size_t m = 0; m < l; m++) {
        const float *item = in->qkv + (begin + m) * 3 * s->c + head * d;
        memcpy(keys + m * d, item + s->c, d * sizeof(*keys));
        memcpy(values + m * d, item + 2 * s->c, d * sizeof(*values));
    }
    struct area_memory memory = area_reference_open(&s->reference, l, keys, values);
    bool is_clear =
        s->reference.rule.top_k == 0 || area_reference_margin(&memory, query, NULL) > 1e-4;
    area_reference_attend(&memory, query, NULL, out, NULL);
    area_reference_close(&memory);
    free(keys), free(values);
    return is_clear;
}

/* The largest error of all rows, relative to the largest number; counts them. */
static double compare(const struct subject *s, const struct sentences *in, const float *context,
                      size_t *n_rows)
{
    double out[MAX_C], error = 0.0;
    size_t d = s->attention.head_width;
    for (size_t b = 0; b < in->n; b++)
        for (size_t row = in->first[b]; row < in->first[b + 1]; row++)
            for (size_t head = 0; head < s->attention.n_heads; head++) {
                double largest = 1.0, off = 0.0;
                if (!define_row(s, in, b, row, head, out))
                    continue;
                for (size_t i = 0; i < d; i++) {
                    double found = (double)context[row * s->c + head * d + i];
                    largest = fmax(largest, fabs(out[i]));
                    off = isnan(found) ? INFINITY : fmax(off, fabs(found - out[i]));
                }
                error = fmax(error, off / largest);
                ++*n_rows;
            }
    return error;
}

/* ---- The device ------------------------------------------------------------------------------ */

static bool open_place(struct place *place, const char *name)
{
    struct acre_err err = {.code = 0};
    const struct constraint_options any = {.vocab_size = 3, .end_token = 1};
    const struct stream_limits limits = {.max_memory = max_rows() + 1,
                                         .max_head_width = form->max_c,
                                         .max_width = form->max_c,
                                         .max_planes = form->max_planes,
                                         .max_rows = max_rows(),
                                         .has_areas = !form->is_plain};
    if (device_open(name, &place->device, &err) != 0) {
        fprintf(stderr, "shapes: %s\n", err.text);
        return false;
    }
    const struct device_ops *ops = place->device->ops;
    return constraint_open(&any, &place->constraint) == 0 &&
           ops->stream_open(place->device, &limits, &place->stream) == 0 &&
           ops->buffer_open(place->device, max_rows(), 3 * form->max_c, &place->qkv) == 0 &&
           ops->buffer_open(place->device, max_rows(), form->max_c, &place->context) == 0;
}

static void enter(const struct place *place, const struct sentences *in, struct rows *rows,
                  struct store *store)
{
    static const int32_t ids[MAX_ROWS];
    struct entry entries[MAX_SENTENCES];
    for (size_t b = 0; b < in->n; b++) {
        entries[b] = (struct entry){
            .slot = b, .n_source = in->first[b + 1] - in->first[b] - 1, .source = ids};
        entries[b].decoding = (struct acre_decoding){
            .beam_size = 1, .num_hypotheses = 1, .max_length = 1, .length_penalty = 1};
    }
    place->device->ops->enter(place->stream, rows, store, in->n, entries);
}

/* The rows attend to their own sentences, as self-attention or by way of the sentences' memories.
 */
static void attend(const struct place *place, const struct subject *s, const struct sentences *in,
                   bool by_memory, float *context)
{
    const struct device_ops *ops = place->device->ops;
    const struct attention *const layers = &s->attention;
    const struct store_shape shape = {.n_slots = MAX_SENTENCES,
                                      .max_beam = 1,
                                      .positions = max_rows() + 1,
                                      .n_layers = 1,
                                      .cross = &layers,
                                      .search = {.constraint = place->constraint, .end_token = 1}};
    struct rows *rows;
    struct store *store;
    size_t n = in->first[in->n], c = s->c;
    float *parts = malloc(n * 3 * c * sizeof(*parts));
    if (ops->rows_open(place->device, max_rows(), &shape, &rows) != 0 ||
        ops->store_open(place->device, &shape, &store) != 0)
        abort();
    enter(place, in, rows, store);
    if (!by_memory) {
        ops->write(place->stream, place->qkv, n, 3 * c, in->qkv);
        ops->attend(place->stream, &s->attention, s->is_causal, rows, place->qkv, place->context);
    } else {
        for (size_t i = 0; i < n; i++)
            memcpy(parts + i * 2 * c, in->qkv + i * 3 * c + c, 2 * c * sizeof(*parts));
        ops->write(place->stream, place->qkv, n, 2 * c, parts);
        ops->store_memory(place->stream, &s->attention, 0, rows, store, place->qkv, NULL);
        for (size_t i = 0; i < n; i++)
            memcpy(parts + i * c, in->qkv + i * 3 * c, c * sizeof(*parts));
        ops->write(place->stream, place->qkv, n, c, parts);
        ops->attend_memory(place->stream, &s->attention, 0, rows, store, place->qkv,
                           place->context);
    }
    ops->read(place->stream, place->context, n, c, context);
    ops->rows_close(rows);
    ops->store_close(store);
    free(parts);
}

static bool choose_form(const char *name)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (strcmp(forms[i].name, name) == 0) {
            form = &forms[i];
            return true;
        }
    return false;
}

static bool check_shape(const struct place *place, size_t number, size_t *n_rows)
{
    static float context[MAX_ROWS * MAX_C];
    struct subject s;
    if (!open_subject(&s, place->device))
        return false;
    struct sentences in = random_sentences(&s);
    bool by_memory = !s.is_causal && random_pick(0, 1);
    attend(place, &s, &in, by_memory, context);
    double error = compare(&s, &in, context, n_rows);
    const struct area_rule *rule = &s.attention.area;
    if (!(error <= form->bound))
        printf(
            "FAILED shape %zu: off by %.2g: %zux%zu, %zu sentences, %s%s, areas %dx%d of %d rows, "
            "key %d, value %d, top %d%s\n",
            number, error, s.attention.n_heads, s.attention.head_width, in.n,
            by_memory ? "memory" : "sentences", s.is_causal ? " causal" : "", rule->width,
            rule->height, rule->memory_height, (int)s.reference.key, (int)rule->value, rule->top_k,
            rule->sigmoid ? ", sigmoid" : "");
    free(in.qkv);
    close_subject(&s, place->device);
    return error <= form->bound;
}

int main(int argc, char **argv)
{
    struct place place = {.device = NULL};
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, n_failed = 0, n_rows = 0;
    if (n == 0 || (argc > 4 && !choose_form(argv[4]))) {
        fprintf(stderr, "usage: shapes DEVICE N [SEED [modes | f16 | f32]]\n");
        return 2;
    }
    random_seed(argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
    if (!open_place(&place, argv[1]))
        return 1;
    for (size_t i = 0; i < n; i++)
        n_failed += !check_shape(&place, i, &n_rows);
    printf("%s: %zu shapes, %zu rows of heads, %zu shapes off\n", place.device->name, n, n_rows,
           n_failed);
    place.device->ops->stream_close(place.stream);
    place.device->ops->buffer_close(place.qkv);
    place.device->ops->buffer_close(place.context);
    constraint_close(place.constraint);
    device_close(place.device);
    return n_failed > 0;
}
