/* Runs golden cases of area attention (tests/golden/area-attention/README.md) through the CPU
 * device and prints one line per case with its largest error. Exit status 1 if a case is over its
 * bound, cannot be read, or nothing was run. Usage: area DIR|FILE... */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "device/device.h"
#include "model/safetensors.h"

static const double bound = 1e-5;

enum outcome { PASSED, FAILED, SKIPPED, N_OUTCOMES };

struct golden {
    const char *path;
    struct safetensors *file;
    json_t *facts;
    size_t b, h, n_queries, l, d, n_areas;
    float *query, *key, *value, *output, *weights, *bias; /* bias may be NULL */
    struct tensor bias_shape;
};

/* The values and shape of a tensor; NULL and no dimensions if there is none. */
static float *read_tensor(const struct golden *golden, const char *name, struct tensor *shape)
{
    const struct tensor *tensor = safetensors_find(golden->file, name);
    *shape = (struct tensor){0};
    if (!tensor)
        return NULL;
    float *values = malloc(tensor_count(tensor) * sizeof(*values));
    tensor_read(tensor, 0, tensor_count(tensor), values);
    *shape = *tensor;
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

/* What the engine would have to compute and does not; NULL if it computes all of the case. */
static const char *unsupported(const struct golden *golden)
{
    if (strcmp(text_of(golden, "kind"), "attention") != 0)
        return "area features";
    if (strcmp(text_of(golden, "key_mode"), "mean") != 0)
        return "keys other than mean";
    if (strcmp(text_of(golden, "value_mode"), "sum") != 0 &&
        strcmp(text_of(golden, "value_mode"), "mean") != 0)
        return "values other than sum and mean";
    if (number_of(golden, "max_area_height") > 1)
        return "areas in two dimensions";
    return NULL;
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
    if (!golden->query || !golden->key || !golden->value || !golden->output || !golden->weights ||
        query.n_dims != 4 || key.n_dims != 4 || weights.n_dims != 4)
        return false;
    golden->b = query.shape[0], golden->h = query.shape[1];
    golden->n_queries = query.shape[2], golden->d = query.shape[3];
    golden->l = key.shape[2], golden->n_areas = weights.shape[3];
    return true;
}

/* The items that query i of head h of sentence b sees, which must be the first ones; 0 if not. */
static size_t seen(const struct golden *golden, size_t b, size_t h, size_t i)
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
            return 0;
    return n;
}

static double difference(size_t n, const float *a, const float *b)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, isnan(a[i]) ? INFINITY : fabs((double)a[i] - (double)b[i]));
    return most;
}

/* The engine's weights over the seen items, in the places of all areas of the whole memory. */
static double weights_error(const struct golden *golden, const float *query, const float *keys,
                            size_t n_seen, const struct area_rule *rule, const float *expected)
{
    size_t l = golden->l, n = 0, place = 0;
    float *scores = calloc(l, sizeof(float)), *got = calloc(2 * golden->n_areas, sizeof(float));
    float *spread = calloc(golden->n_areas, sizeof(float));
    for (size_t m = 0; m < n_seen; m++)
        for (size_t c = 0; c < golden->d; c++)
            scores[m] += query[c] * keys[m * golden->d + c];
    kernels_area_weights(n_seen, rule, scores, got);
    for (size_t w = 1; w <= (size_t)rule->width && w <= l; w++)
        for (size_t j = 0; j + w <= l; j++, place++)
            if (j + w <= n_seen)
                spread[place] = got[n++];
    double error = place == golden->n_areas ? difference(place, spread, expected) : INFINITY;
    free(scores), free(got), free(spread);
    return error;
}

/* One query through store_memory and attend_memory. */
static double query_error(const struct golden *golden, struct device *device, struct stream *stream,
                          size_t b, size_t h, size_t i)
{
    size_t d = golden->d, head = b * golden->h + h, row = head * golden->n_queries + i;
    size_t n_seen = seen(golden, b, h, i);
    if (n_seen == 0)
        return INFINITY;
    struct attention attention = {
        .n_heads = 1,
        .head_width = d,
        .area = {.width = (int)number_of(golden, "max_area_width"),
                 .mean_value = strcmp(text_of(golden, "value_mode"), "mean") == 0,
                 .top_k = (int)number_of(golden, "top_k_areas")},
    };
    const float *keys = golden->key + head * golden->l * d;
    const float *values = golden->value + head * golden->l * d;
    float *query = malloc(d * sizeof(float)), *context = malloc(d * sizeof(float));
    float *joined = malloc(n_seen * 2 * d * sizeof(float));
    float *memory = malloc(device->ops->memory_floats(&attention, n_seen) * sizeof(float));
    double scale = number_of(golden, "query_scale") / number_of(golden, "area_temperature");
    for (size_t c = 0; c < d; c++)
        query[c] = golden->query[row * d + c] * (float)scale;
    for (size_t m = 0; m < n_seen; m++) {
        memcpy(joined + m * 2 * d, keys + m * d, d * sizeof(float));
        memcpy(joined + m * 2 * d + d, values + m * d, d * sizeof(float));
    }
    device->ops->store_memory(stream, &attention, n_seen, joined, memory);
    struct memory_rows rows = {.memory = memory, .length = n_seen, .n_rows = 1};
    device->ops->attend_memory(stream, &attention, 1, &rows, query, context);
    double error = difference(d, context, golden->output + row * d);
    error = fmax(error, weights_error(golden, query, keys, n_seen, &attention.area,
                                      golden->weights + row * golden->n_areas));
    free(query), free(context), free(joined), free(memory);
    return error;
}

static double case_error(const struct golden *golden, struct device *device)
{
    struct stream *stream;
    struct stream_limits limits = {
        .max_memory = golden->l, .max_head_width = golden->d, .max_width = golden->d};
    if (device->ops->stream_open(device, &limits, &stream) != 0)
        return INFINITY;
    double error = 0.0;
    for (size_t b = 0; b < golden->b; b++)
        for (size_t h = 0; h < golden->h; h++)
            for (size_t i = 0; i < golden->n_queries; i++)
                error = fmax(error, query_error(golden, device, stream, b, h, i));
    device->ops->stream_close(stream);
    return error;
}

static enum outcome judge(struct golden *golden, struct device *device)
{
    const char *reason = unsupported(golden);
    if (reason) {
        printf("skipped %s: the engine does not compute %s\n", golden->path, reason);
        return SKIPPED;
    }
    if (!read_case(golden)) {
        printf("FAILED %s: expected query, key, value, output and weights with 4 dimensions\n",
               golden->path);
        return FAILED;
    }
    double error = case_error(golden, device);
    bool passed = error <= bound;
    printf("%s %s: largest error %.2g, bound %.0e\n", passed ? "passed" : "FAILED", golden->path,
           error, bound);
    return passed ? PASSED : FAILED;
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
    if (device_open("cpu", &device, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 1; i < argc; i++)
        run_path(argv[i], device, counts);
    device_close(device);
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] > 0 || counts[PASSED] == 0;
}
