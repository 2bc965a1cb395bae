/* Runs golden cases of area attention (tests/golden/area-attention/README.md) through a device, the
 * CPU or what DEVICE names, and prints one line per case with its largest error. Exit status 1 if a
 * case is over its bound, cannot be read, or nothing was run. Usage: area DIR|FILE... */
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "device/device.h"
#include "kernels/areas.h"
#include "search/constraint.h"
#include "model/safetensors.h"

/* Where a deviation enters: of like items it is rounding noise, in the authors' code as in ours. */
static const double plain_bound = 1e-5, deviation_bound = 1e-4;

enum outcome { PASSED, FAILED, SKIPPED, N_OUTCOMES };

struct golden {
    const char *path;
    struct safetensors *file;
    json_t *facts;
    size_t b, h, n_queries, l, d, n_areas;
    float *query, *key, *value, *output, *weights, *bias; /* bias may be NULL */
    struct tensor bias_shape; /* 4 dimensions, the leading ones maybe 1 */
    char why[160];            /* what is wrong with the case; empty: nothing */
};

/* The first complaint stays. */
__attribute__((format(printf, 2, 3))) static void complain(struct golden *golden,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!golden->why[0])
        vsnprintf(golden->why, sizeof(golden->why), format, args);
    va_end(args);
}

/* The values and shape of a tensor; NULL and no dimensions if there is none. */
static float *read_tensor(const struct golden *golden, const char *name, struct tensor *shape)
{
    const struct tensor *found = safetensors_find(golden->file, name);
    *shape = (struct tensor){0};
    if (!found || safetensors_get(golden->file, name, found->n_dims, found->shape, shape, NULL))
        return NULL;
    float *values = malloc(tensor_count(shape) * sizeof(*values));
    tensor_read(shape, 0, tensor_count(shape), values);
    return values;
}

static const char *text_of(const struct golden *golden, const char *name)
{
    const char *text = json_string_value(json_object_get(golden->facts, name));
    return text ? text : "";
}

static double number_of(const struct golden *golden, const char *name)
{
    return json_number_value(json_object_get(golden->facts, name));
}

/* An integer that the engine can work with; 0 after a complaint. */
static int size_of(struct golden *golden, const char *name, int least, int most)
{
    const json_t *value = json_object_get(golden->facts, name);
    json_int_t size = json_is_integer(value) ? json_integer_value(value) : (json_int_t)least - 1;
    if (size >= least && size <= most)
        return (int)size;
    complain(golden, "__metadata__: acre: %s: expected an integer from %d to %d", name, least,
             most);
    return 0;
}

/* What does not have all dimensions is the same along the first ones. */
static void broadcast(struct golden *golden)
{
    struct tensor *bias = &golden->bias_shape;
    const size_t want[4] = {golden->b, golden->h, golden->n_queries, golden->l};
    if (!golden->bias)
        return;
    size_t missing = 4 - (size_t)bias->n_dims;
    for (size_t i = 4; i-- > 0;)
        bias->shape[i] = i < missing ? 1 : bias->shape[i - missing];
    for (size_t i = 0; i < 4; i++)
        if (bias->shape[i] != want[i] && (bias->shape[i] != 1 || i == 3))
            complain(golden, "bias: dimension %zu: expected %zu, found %zu", i, want[i],
                     bias->shape[i]);
}

static void check_shape(struct golden *golden, const char *name, const float *values,
                        const struct tensor *found, const size_t want[4])
{
    bool is_same = values && found->n_dims == 4;
    for (size_t i = 0; i < 4 && is_same; i++)
        is_same = found->shape[i] == want[i];
    if (!is_same)
        complain(golden, "%s: expected the shape %zu, %zu, %zu, %zu", name, want[0], want[1],
                 want[2], want[3]);
}

static bool read_case(struct golden *golden)
{
    struct tensor query, key, value, output, weights;
    golden->query = read_tensor(golden, "query", &query);
    golden->key = read_tensor(golden, "key", &key);
    golden->value = read_tensor(golden, "value", &value);
    golden->output = read_tensor(golden, "output", &output);
    golden->weights = read_tensor(golden, "weights", &weights);
    golden->bias = read_tensor(golden, "bias", &golden->bias_shape);
    if (!golden->query || !golden->key || !golden->weights || query.n_dims != 4 ||
        key.n_dims != 4 || weights.n_dims != 4) {
        complain(golden, "query, key, weights: expected 4 dimensions of each");
        return false;
    }
    golden->b = query.shape[0], golden->h = query.shape[1];
    golden->n_queries = query.shape[2], golden->d = query.shape[3];
    golden->l = key.shape[2], golden->n_areas = weights.shape[3];
    size_t memory[4] = {golden->b, golden->h, golden->l, golden->d};
    size_t rows[4] = {golden->b, golden->h, golden->n_queries, golden->d};
    size_t areas[4] = {golden->b, golden->h, golden->n_queries, golden->n_areas};
    check_shape(golden, "key", golden->key, &key, memory);
    check_shape(golden, "value", golden->value, &value, memory);
    check_shape(golden, "output", golden->output, &output, rows);
    check_shape(golden, "weights", golden->weights, &weights, areas);
    broadcast(golden);
    return !golden->why[0];
}

/* The items that query i of head h of sentence b sees, which must be the first ones, and of a grid
 * all: sentences are padded behind, a step sees the past, grids have no padding. 0 if not. */
static size_t seen(struct golden *golden, size_t b, size_t h, size_t i)
{
    const size_t *shape = golden->bias_shape.shape;
    size_t n = golden->l;
    if (!golden->bias)
        return n;
    size_t at[3] = {b, h, i}, row = 0;
    for (size_t dim = 0; dim < 3; dim++)
        row = row * shape[dim] + (shape[dim] > 1 ? at[dim] : 0);
    const float *bias = golden->bias + row * golden->l;
    while (n > 0 && bias[n - 1] < -1e8f)
        n--;
    for (size_t m = 0; m < n; m++)
        if (bias[m] != 0.0f)
            n = 0;
    if (n == 0 || (n < golden->l && number_of(golden, "memory_height") > 1))
        complain(golden, "bias: query %zu, head %zu of %zu: expected %s", i, h, b,
                 n == 0 ? "to see the first items, and no others" : "to see the whole grid");
    return golden->why[0] ? 0 : n;
}

static double difference(size_t n, const float *a, const float *b)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, isnan(a[i] - b[i]) ? INFINITY : fabs((double)a[i] - (double)b[i]));
    return most;
}

/* ---- Attention ------------------------------------------------------------------------------- */

static int mode_of(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static bool find_grid(struct golden *golden, size_t l, struct area_rule *rule)
{
    *rule = (struct area_rule){
        .width = size_of(golden, "max_area_width", 1, MAX_AREA_WIDTH),
        .height = size_of(golden, "max_area_height", 1, MAX_AREA_HEIGHT),
        .memory_height = size_of(golden, "memory_height", 1, (int)l),
    };
    if (!golden->why[0] && l % (size_t)rule->memory_height != 0)
        complain(golden, "__metadata__: acre: memory_height: expected a divisor of %zu", l);
    return !golden->why[0];
}

static bool find_rule(struct golden *golden, struct area_rule *rule, enum area_key_mode *key_mode)
{
    static const char *const keys[] = {"mean", "max",           "concat",     "max_concat",
                                       "sum",  "sample_concat", "sample_sum", NULL};
    static const char *const values[] = {"sum", "mean", "max", NULL};
    const char *key_name = text_of(golden, "key_mode");
    int key = mode_of(strcmp(key_name, "sample") == 0 ? "mean" : key_name, keys);
    int value = mode_of(text_of(golden, "value_mode"), values);
    if (!find_grid(golden, golden->l, rule))
        return false;
    if (key < 0)
        complain(golden, "__metadata__: acre: key_mode: found \"%s\"", key_name);
    if (value < 0)
        complain(golden, "__metadata__: acre: value_mode: found \"%s\"",
                 text_of(golden, "value_mode"));
    rule->value = (enum area_value)value;
    rule->top_k = size_of(golden, "top_k_areas", 0, INT_MAX);
    *key_mode = (enum area_key_mode)key;
    return !golden->why[0];
}

/* A parameter; kernels are transposed, as TensorFlow has [inputs, outputs]. `floats` is owned. */
static struct tensor parameter(struct golden *golden, const char *name, bool transposed,
                               float **floats)
{
    struct tensor tensor = {.data = NULL};
    float *stored = read_tensor(golden, name, &tensor);
    *floats = stored;
    if (stored && transposed) {
        size_t rows = tensor.shape[0], columns = tensor.shape[1];
        *floats = malloc(rows * columns * sizeof(float));
        for (size_t i = 0; i < rows * columns; i++)
            (*floats)[i % columns * rows + i / columns] = stored[i];
        free(stored);
        tensor.shape[0] = columns, tensor.shape[1] = rows;
    }
    tensor.data = *floats;
    tensor.dtype = DTYPE_F32;
    return tensor;
}

/* NULL for mean keys. */
static struct area_key *open_key(struct golden *golden, struct device *device,
                                 const struct attention *attention, enum area_key_mode mode)
{
    struct area_key *key = NULL;
    float *floats[6] = {NULL};
    struct area_key_parts parts = {.mode = mode, .scale = 1.0f};
    if (mode == AREA_KEY_MEAN)
        return NULL;
    if (area_key_inputs(mode, golden->d) > 0) {
        parts.fc1_weight = parameter(golden, "param.dense.kernel", true, &floats[0]);
        parts.fc1_bias = parameter(golden, "param.dense.bias", false, &floats[1]);
        parts.fc2_weight = parameter(golden, "param.dense_1.kernel", true, &floats[2]);
        parts.fc2_bias = parameter(golden, "param.dense_1.bias", false, &floats[3]);
        parts.height_embedding = parameter(golden, "param.area_height_emb", false, &floats[4]);
        parts.width_embedding = parameter(golden, "param.area_width_emb", false, &floats[5]);
    }
    if (device->ops->area_key_open(device, &parts, attention, &key) != 0)
        exit(1);
    for (size_t i = 0; i < 6; i++)
        free(floats[i]);
    return key;
}

/* The engine's weights over the seen items, in the places of all areas of the whole memory, which
 * the authors number by size and then by first item. */
static double weights_error(const struct golden *golden, const struct area_rule *rule,
                            size_t n_seen, const float *planes, const float *expected)
{
    size_t l = golden->l, place = 0;
    size_t rows = rule->memory_height > 1 ? (size_t)rule->memory_height : 1, columns = l / rows;
    double error = 0.0;
    for (size_t h = 1; h <= (size_t)rule->height; h++)
        for (size_t w = 1; w <= (size_t)rule->width; w++)
            for (size_t y = 0; y + h <= rows; y++)
                for (size_t x = 0; x + w <= columns; x++, place++) {
                    size_t last = (y + h - 1) * columns + x + w - 1;
                    size_t plane = (h - 1) * (size_t)rule->width + w - 1;
                    float got = last < n_seen ? planes[plane * n_seen + last] : 0.0f;
                    error = fmax(error, difference(1, &got, &expected[place]));
                }
    return error;
}

/* What the operations work on: one sentence at a time, and one hypothesis of it. */
struct place {
    struct device *device;
    struct stream *stream;
    struct rows *rows;
    struct store *store;
    struct buffer *keys_values, *query, *context;
    struct constraint *constraint;
};

static bool open_place(struct place *place, const struct attention *const *attention,
                       const struct golden *golden)
{
    const struct device_ops *ops = place->device->ops;
    struct constraint_options any = {.vocab_size = 3, .end_token = 1};
    struct stream_limits limits = {.max_memory = golden->l,
                                   .max_head_width = golden->d,
                                   .max_width = golden->d,
                                   .max_planes = area_planes(&(*attention)->area),
                                   .max_rows = golden->l,
                                   .has_areas = true};
    if (constraint_open(&any, &place->constraint) != 0)
        return false;
    struct store_shape shape = {.n_slots = 1,
                                .max_beam = 1,
                                .positions = golden->l + 1,
                                .n_layers = 1,
                                .cross = attention,
                                .search = {.constraint = place->constraint, .end_token = 1}};
    return ops->stream_open(place->device, &limits, &place->stream) == 0 &&
           ops->rows_open(place->device, golden->l, &shape, &place->rows) == 0 &&
           ops->store_open(place->device, &shape, &place->store) == 0 &&
           ops->buffer_open(place->device, golden->l, 2 * golden->d, &place->keys_values) == 0 &&
           ops->buffer_open(place->device, golden->l, golden->d, &place->query) == 0 &&
           ops->buffer_open(place->device, golden->l, golden->d, &place->context) == 0;
}

static void close_place(struct place *place)
{
    const struct device_ops *ops = place->device->ops;
    ops->stream_close(place->stream);
    ops->rows_close(place->rows);
    ops->store_close(place->store);
    ops->buffer_close(place->keys_values);
    ops->buffer_close(place->query);
    ops->buffer_close(place->context);
    constraint_close(place->constraint);
}

/* A sentence of n items enters, whose memory is the head's. */
static void enter(const struct place *place, const struct golden *golden,
                  const struct attention *attention, size_t head, size_t n)
{
    const struct device_ops *ops = place->device->ops;
    size_t d = golden->d;
    int32_t *ids = calloc(n, sizeof(*ids));
    float *keys_values = malloc(n * 2 * d * sizeof(*keys_values));
    struct entry entry = {.n_source = n - 1, .source = ids};
    entry.decoding = (struct acre_decoding){
        .beam_size = 1, .num_hypotheses = 1, .max_length = 1, .length_penalty = 1};
    for (size_t i = 0; i < n; i++) {
        size_t item = (head * golden->l + i) * d;
        memcpy(keys_values + 2 * i * d, golden->key + item, d * sizeof(float));
        memcpy(keys_values + (2 * i + 1) * d, golden->value + item, d * sizeof(float));
    }
    ops->drop(place->stream, place->store, 0);
    ops->enter(place->stream, place->rows, place->store, 1, &entry);
    ops->write(place->stream, place->keys_values, n, 2 * d, keys_values);
    ops->store_memory(place->stream, attention, 0, place->rows, place->store, place->keys_values,
                      NULL);
    free(ids), free(keys_values);
}

/* One query through store_memory, attend_memory and memory_weights. */
static double query_error(const struct golden *golden, const struct place *place,
                          const struct attention *attention, size_t head, size_t i, size_t n_seen)
{
    const struct device_ops *ops = place->device->ops;
    size_t d = golden->d, row = head * golden->n_queries + i;
    float *query = malloc(d * sizeof(float)), *context = malloc(d * sizeof(float));
    float *weights = malloc(area_planes(&attention->area) * n_seen * sizeof(float));
    double scale = number_of(golden, "query_scale") / number_of(golden, "area_temperature");
    for (size_t c = 0; c < d; c++)
        query[c] = golden->query[row * d + c] * (float)scale;
    enter(place, golden, attention, head, n_seen);
    ops->search_begin(place->stream, place->rows, place->store);
    ops->write(place->stream, place->query, 1, d, query);
    ops->attend_memory(place->stream, attention, 0, place->rows, place->store, place->query,
                       place->context);
    ops->read(place->stream, place->context, 1, d, context);
    ops->memory_weights(place->stream, attention, 0, 0, place->rows, place->store, 0, place->query,
                        weights);
    double error = difference(d, context, golden->output + row * d);
    error = fmax(error, weights_error(golden, &attention->area, n_seen, weights,
                                      golden->weights + row * golden->n_areas));
    free(query), free(context), free(weights);
    return error;
}

static size_t count_areas(const struct area_rule *rule, size_t l)
{
    size_t n = 0;
    struct area_walk walk = {.rule = rule};
    while (area_next(&walk))
        for (size_t i = 0; i < l; i++)
            n += area_exists(&walk, l, i);
    return n;
}

static double attention_error(struct golden *golden, struct device *device)
{
    struct place place = {.device = device};
    struct attention attention = {.n_heads = 1, .head_width = golden->d};
    enum area_key_mode mode;
    if (!find_rule(golden, &attention.area, &mode))
        return INFINITY;
    if (count_areas(&attention.area, golden->l) != golden->n_areas)
        complain(golden, "weights: expected %zu areas, found %zu",
                 count_areas(&attention.area, golden->l), golden->n_areas);
    if (golden->why[0])
        return INFINITY;
    struct area_key *key = open_key(golden, device, &attention, mode);
    const struct attention *const layers = &attention;
    attention.key = key;
    bool is_open = open_place(&place, &layers, golden);
    double error = is_open ? 0.0 : INFINITY;
    for (size_t b = 0; b < golden->b && is_open; b++)
        for (size_t h = 0; h < golden->h; h++)
            for (size_t i = 0; i < golden->n_queries; i++) {
                size_t n_seen = seen(golden, b, h, i);
                error = n_seen == 0 ? INFINITY
                                    : fmax(error, query_error(golden, &place, &attention,
                                                              b * golden->h + h, i, n_seen));
            }
    close_place(&place);
    device->ops->area_key_close(key);
    return error;
}

static double bound_of(const struct golden *golden)
{
    const char *kind = text_of(golden, "kind"), *key = text_of(golden, "key_mode");
    bool has_deviation =
        strcmp(kind, "features") == 0 || strcmp(key, "concat") == 0 || strcmp(key, "sum") == 0;
    return has_deviation ? deviation_bound : plain_bound;
}

static enum outcome verdict(const struct golden *golden, double error)
{
    double bound = bound_of(golden);
    bool passed = error <= bound;
    if (golden->why[0]) {
        printf("FAILED %s: %s\n", golden->path, golden->why);
        return FAILED;
    }
    printf("%s %s: largest error %.2g, bound %.0e\n", passed ? "passed" : "FAILED", golden->path,
           error, bound);
    return passed ? PASSED : FAILED;
}

/* ---- Features -------------------------------------------------------------------------------- */

/* The windows of one size against the areas of that size, which begin at *place. */
static double size_error(const struct area_walk *walk, size_t l, size_t d, const float *windows,
                         const float *expected, size_t *place)
{
    double error = 0.0;
    for (size_t i = 0; i < l; i++)
        if (area_exists(walk, l, i))
            error = fmax(error, difference(d, windows + i * d, expected + (*place)++ * d));
    return error;
}

/* Where the areas of a size begin among all, by height and then by width. */
static size_t first_place(const struct area_walk *walk, size_t l)
{
    size_t place = 0;
    struct area_walk other = {.rule = walk->rule};
    while (area_next(&other))
        for (size_t i = 0; i < l && other.plane < walk->plane; i++)
            place += area_exists(&other, l, i);
    return place;
}

/* The features of one memory x[L,D], built up size by size. */
struct features {
    size_t l, d;
    const float *x, *sum, *mean, *std, *max;
};

static const struct kernels *fastest_kernels(void)
{
    enum cpu_level level;
    return kernels_find(cpu_detect(&level, NULL) == 0 ? level : CPU_SCALAR);
}

static double features_error(const struct features *f, const struct area_rule *rule)
{
    size_t n = f->l * f->d;
    float *memory = calloc(8 * n, sizeof(float)), *squares = memory, *out = memory + n;
    float *windows[3] = {memory + 2 * n, memory + 3 * n, memory + 4 * n};
    float *integrals[2] = {memory + 5 * n, memory + 6 * n}, *columns = memory + 7 * n;
    struct area_walk walk = {.rule = rule};
    const struct kernels *kernels = fastest_kernels();
    double error = 0.0;
    for (size_t i = 0; i < n; i++)
        squares[i] = f->x[i] * f->x[i];
    area_integral(rule, f->l, f->d, f->x, f->d, integrals[0]);
    area_integral(rule, f->l, f->d, squares, f->d, integrals[1]);
    while (area_next(&walk)) {
        size_t place[4], count = (size_t)(walk.width * walk.height);
        place[0] = place[1] = place[2] = place[3] = first_place(&walk, f->l);
        area_sums(&walk, f->l, 0, f->l, f->d, integrals[0], windows[0]);
        area_sums(&walk, f->l, 0, f->l, f->d, integrals[1], windows[1]);
        area_extend(&walk, f->l, f->d, f->x, f->d, true, columns, windows[2]);
        error = fmax(error, size_error(&walk, f->l, f->d, windows[0], f->sum, &place[0]));
        error = fmax(error, size_error(&walk, f->l, f->d, windows[2], f->max, &place[1]));
        for (size_t i = 0; i < n; i++)
            out[i] = windows[0][i] / (float)count;
        error = fmax(error, size_error(&walk, f->l, f->d, out, f->mean, &place[2]));
        kernels->area_deviations(n, (int)count, &(struct area_ends){.last = windows[0]},
                                 &(struct area_ends){.last = windows[1]}, out);
        error = fmax(error, size_error(&walk, f->l, f->d, out, f->std, &place[3]));
    }
    free(memory);
    return error;
}

static enum outcome judge_features(struct golden *golden)
{
    static const char *const names[] = {"features", "sum", "mean", "std", "max"};
    struct tensor shape[5];
    float *data[5];
    bool complete = true;
    for (size_t i = 0; i < 5; i++)
        complete = (data[i] = read_tensor(golden, names[i], &shape[i])) && complete;
    double error = 0.0;
    struct area_rule rule;
    for (size_t i = 0; i < 5; i++)
        complete = complete && shape[i].n_dims == 3;
    if (!complete)
        complain(golden, "features, sum, mean, std, max: expected 3 dimensions of each");
    complete = complete && find_grid(golden, shape[0].shape[1], &rule);
    for (size_t b = 0; complete && b < shape[0].shape[0]; b++) {
        size_t l = shape[0].shape[1], d = shape[0].shape[2], areas = b * shape[1].shape[1] * d;
        struct features f = {l,
                             d,
                             data[0] + b * l * d,
                             data[1] + areas,
                             data[2] + areas,
                             data[3] + areas,
                             data[4] + areas};
        error = fmax(error, features_error(&f, &rule));
    }
    for (size_t i = 0; i < 5; i++)
        free(data[i]);
    return verdict(golden, error);
}

static enum outcome judge(struct golden *golden, struct device *device)
{
    const char *kind = text_of(golden, "kind");
    if (strcmp(kind, "features") == 0)
        return judge_features(golden);
    if (strcmp(kind, "attention") != 0)
        complain(golden, "__metadata__: acre: kind: expected attention or features, found \"%s\"",
                 kind);
    return verdict(golden, read_case(golden) ? attention_error(golden, device) : INFINITY);
}

static enum outcome run_file(const char *path, struct device *device)
{
    struct golden golden = {.path = path};
    struct acre_err err;
    if (safetensors_open_file(path, &golden.file, &err) != 0) {
        printf("FAILED %s\n", err.text);
        return FAILED;
    }
    const char *facts = safetensors_metadata(golden.file, "acre");
    golden.facts = facts ? json_loads(facts, 0, NULL) : NULL;
    enum outcome outcome = FAILED;
    if (golden.facts)
        outcome = judge(&golden, device);
    else
        printf("FAILED %s: __metadata__: acre: expected a JSON object\n", path);
    free(golden.query), free(golden.key), free(golden.value), free(golden.output);
    free(golden.weights), free(golden.bias);
    json_decref(golden.facts);
    safetensors_close(golden.file);
    return outcome;
}

static int is_case(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' &&
           (entry->d_type == DT_DIR || (ending && strcmp(ending, ".safetensors") == 0));
}

/* A file, or all cases in a folder and the folders inside, in alphabetical order. */
static void run_path(const char *path, struct device *device, int counts[N_OUTCOMES])
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_case, alphasort);
    if (n < 0) {
        counts[run_file(path, device)]++;
        return;
    }
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);
        run_path(inner, device, counts);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    struct device *device;
    struct acre_err err;
    int counts[N_OUTCOMES] = {0};
    const char *name = getenv("DEVICE");
    if (device_open(name ? name : "cpu", &device, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 1; i < argc; i++)
        run_path(argv[i], device, counts);
    device_close(device);
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] > 0 || counts[PASSED] == 0;
}
