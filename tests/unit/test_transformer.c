/* The Transformer's passes on the golden models, in every compute type: decoding token by token
 * over the cache gives what one pass over the whole target gives, sentences do not see each other,
 * and weights that do not fit the configuration are refused by name. Run from the root of the tree.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "../support/rig.h"
#include "temp.h"

enum { N_SENTENCES = 6, MAX_LENGTH = 40 };

static enum kernel_type tested_type;

/* Sentences packed one after the other. */
struct packed_rows {
    size_t n;
    size_t first[N_SENTENCES + 1];
    int32_t ids[N_SENTENCES * MAX_LENGTH], positions[N_SENTENCES * MAX_LENGTH];
};

static void append(struct packed_rows *p, size_t length, const int32_t *ids)
{
    size_t row = p->first[p->n];
    for (size_t i = 0; i < length; i++, row++) {
        p->ids[row] = ids[i];
        p->positions[row] = (int32_t)i;
    }
    p->first[++p->n] = row;
}

static struct packed_rows random_packed(int vocab_size)
{
    struct packed_rows p = {.n = 0};
    for (size_t b = 0; b < N_SENTENCES; b++) {
        int32_t ids[MAX_LENGTH];
        size_t length = b == 0 ? 1 : random_pick(1, MAX_LENGTH);
        for (size_t i = 0; i < length; i++)
            ids[i] = (int32_t)random_pick(0, (size_t)vocab_size - 1);
        append(&p, length, ids);
    }
    return p;
}

/* Sentence b of p on its own. */
static struct packed_rows one_of(const struct packed_rows *p, size_t b)
{
    struct packed_rows one = {.n = 0};
    append(&one, p->first[b + 1] - p->first[b], p->ids + p->first[b]);
    return one;
}

static float *copy_hidden(const struct rig *rig, size_t n_rows)
{
    size_t bytes = n_rows * (size_t)rig->config.d_model * sizeof(float);
    float *copy = malloc(bytes);
    memcpy(copy, rig->workspace.hidden, bytes);
    return copy;
}

static float *encode(struct rig *rig, const struct packed_rows *p)
{
    transformer_encode(rig->transformer, rig->stream, &rig->workspace, p->n, p->first, p->ids,
                       p->positions);
    return copy_hidden(rig, p->first[p->n]);
}

/* The rows of sentence b in `together` are those of `alone`, to the bit. */
static void assert_rows(const struct rig *rig, const struct packed_rows *p, size_t b,
                        const float *alone, const float *together)
{
    size_t c = (size_t)rig->config.d_model;
    assert_memory_equal(alone, together + p->first[b] * c,
                        (p->first[b + 1] - p->first[b]) * c * sizeof(float));
}

static double distance(size_t n, const float *a, const float *b)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    return sqrt(difference / norm);
}

/* ---- Decoder runs ---------------------------------------------------------------------------- */

/* Source and target sentences in pairs, with the encoder memory of the sources. */
struct pairs {
    struct packed_rows source, target;
    float *memories[N_SENTENCES];
};

static void store_memories(struct rig *rig, struct pairs *pairs)
{
    const struct packed_rows *p = &pairs->source;
    for (size_t b = 0; b < p->n; b++) {
        size_t floats = transformer_memory_floats(rig->transformer, p->first[b + 1] - p->first[b]);
        pairs->memories[b] = malloc(floats * sizeof(float));
    }
    free(encode(rig, p));
    transformer_store_memory(rig->transformer, rig->stream, &rig->workspace, p->n, p->first,
                             pairs->memories);
}

static void free_memories(struct pairs *pairs)
{
    for (size_t b = 0; b < pairs->source.n; b++)
        free(pairs->memories[b]);
}

static struct memory_rows group_of(const struct pairs *pairs, size_t b, size_t first_row,
                                   size_t n_rows)
{
    size_t length = pairs->source.first[b + 1] - pairs->source.first[b];
    return (struct memory_rows){pairs->memories[b], length, first_row, n_rows};
}

/* All target tokens at once. */
static float *decode(struct rig *rig, const struct pairs *pairs)
{
    const struct packed_rows *p = &pairs->target;
    struct memory_rows groups[N_SENTENCES];
    for (size_t b = 0; b < p->n; b++)
        groups[b] = group_of(pairs, b, p->first[b], p->first[b + 1] - p->first[b]);
    transformer_decode(rig->transformer, rig->stream, &rig->workspace, p->n, p->first, p->ids,
                       p->positions, groups);
    return copy_hidden(rig, p->first[p->n]);
}

/* What one step needs, for the sentences that are longer than t. */
struct step_input {
    const int32_t *paths[N_SENTENCES];
    int32_t lengths[N_SENTENCES], ids[N_SENTENCES], positions[N_SENTENCES];
    struct memory_rows groups[N_SENTENCES];
    size_t rows[N_SENTENCES]; /* in the packed target */
    size_t n;
};

static struct step_input step_input(const struct pairs *pairs, const int32_t *cache_rows, size_t t)
{
    const struct packed_rows *p = &pairs->target;
    struct step_input in = {.n = 0};
    for (size_t b = 0; b < p->n; b++) {
        if (t >= p->first[b + 1] - p->first[b])
            continue;
        in.paths[in.n] = cache_rows + p->first[b];
        in.lengths[in.n] = (int32_t)t + 1;
        in.positions[in.n] = (int32_t)t;
        in.rows[in.n] = p->first[b] + t;
        in.ids[in.n] = p->ids[in.rows[in.n]];
        in.groups[in.n] = group_of(pairs, b, in.n, 1);
        in.n++;
    }
    return in;
}

/* Token by token, with the items of the sentences in random rows of the cache. */
static float *decode_by_steps(struct rig *rig, const struct pairs *pairs)
{
    size_t n_rows = pairs->target.first[pairs->target.n], c = (size_t)rig->config.d_model;
    size_t *order = malloc(n_rows * sizeof(*order));
    int32_t *cache_rows = malloc(n_rows * sizeof(*cache_rows));
    float *cache = calloc(n_rows * transformer_cache_floats(rig->transformer), sizeof(*cache));
    float *hidden = malloc(n_rows * c * sizeof(*hidden));
    random_order(n_rows, order);
    for (size_t i = 0; i < n_rows; i++)
        cache_rows[i] = (int32_t)order[i];
    for (size_t t = 0; t < MAX_LENGTH; t++) {
        struct step_input in = step_input(pairs, cache_rows, t);
        if (in.n == 0)
            break;
        struct decoder_step step = {
            .rows = {.n_rows = in.n, .paths = in.paths, .lengths = in.lengths},
            .ids = in.ids,
            .positions = in.positions,
            .n_sentences = in.n,
            .groups = in.groups,
            .cache = cache,
            .cache_rows = n_rows,
        };
        transformer_step(rig->transformer, rig->stream, &rig->workspace, &step);
        for (size_t i = 0; i < in.n; i++)
            memcpy(hidden + in.rows[i] * c, rig->workspace.hidden + i * c, c * sizeof(*hidden));
    }
    free(order), free(cache_rows), free(cache);
    return hidden;
}

static void open_model(struct rig *rig, const char *directory)
{
    struct acre_err err;
    if (rig_open(rig, directory, tested_type, &err) != 0)
        fail_msg("%s", err.text);
}

static struct pairs random_pairs(struct rig *rig)
{
    struct pairs pairs = {.source = random_packed(rig->config.vocab_size),
                          .target = random_packed(rig->config.decoder_vocab_size)};
    store_memories(rig, &pairs);
    return pairs;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* Steps and whole passes add the products of attention in another order. In bf16 and int8 a number
 * that lies between two others may then be rounded to the other one, and whole passes round queries
 * and coverage. */
static void steps_equal_whole_pass(void **state)
{
    (void)state;
    static const double bounds[] = {
        [KERNEL_F32] = 1e-5, [KERNEL_BF16] = 2e-2, [KERNEL_INT8] = 5e-2};
    for (size_t i = 0; rig_models[i]; i++) {
        struct rig rig;
        open_model(&rig, rig_models[i]);
        struct pairs pairs = random_pairs(&rig);
        float *whole = decode(&rig, &pairs), *steps = decode_by_steps(&rig, &pairs);
        size_t c = (size_t)rig.config.d_model;
        for (size_t row = 0; row < pairs.target.first[pairs.target.n]; row++) {
            double far = distance(c, steps + row * c, whole + row * c);
            if (!(far <= bounds[tested_type]))
                fail_msg("%s: row %zu: relative difference %g", rig_models[i], row, far);
        }
        free(whole), free(steps);
        free_memories(&pairs);
        rig_close(&rig);
    }
}

/* Where areas are chosen by top_k, rounding may choose others, which is more than rounding. */
static void types_are_near_f32(void **state)
{
    (void)state;
    static const double bounds[] = {[KERNEL_F32] = 0, [KERNEL_BF16] = 2e-2, [KERNEL_INT8] = 5e-2};
    for (size_t i = 0; rig_models[i]; i++) {
        struct rig rig, exact;
        struct acre_err err;
        open_model(&rig, rig_models[i]);
        if (rig_open(&exact, rig_models[i], KERNEL_F32, &err) != 0)
            fail_msg("%s", err.text);
        struct packed_rows p = random_packed(rig.config.vocab_size);
        float *got = encode(&rig, &p), *want = encode(&exact, &p);
        double far = distance(p.first[p.n] * (size_t)rig.config.d_model, got, want);
        double bound = bounds[tested_type] * (rig.config.encoder_self.top_k > 0 ? 2 : 1);
        if (!(far <= bound))
            fail_msg("%s: relative difference %g", rig_models[i], far);
        if (tested_type != KERNEL_F32)
            assert_true(far > 0);
        free(got), free(want);
        rig_close(&rig), rig_close(&exact);
    }
}

static void encoder_sentences_are_independent(void **state)
{
    (void)state;
    for (size_t i = 0; rig_models[i]; i++) {
        struct rig rig;
        open_model(&rig, rig_models[i]);
        struct packed_rows p = random_packed(rig.config.vocab_size);
        float *together = encode(&rig, &p);
        for (size_t b = 0; b < p.n; b++) {
            struct packed_rows one = one_of(&p, b);
            float *alone = encode(&rig, &one);
            assert_rows(&rig, &p, b, alone, together);
            free(alone);
        }
        free(together);
        rig_close(&rig);
    }
}

static void decoder_sentences_are_independent(void **state)
{
    (void)state;
    for (size_t i = 0; rig_models[i]; i++) {
        struct rig rig;
        open_model(&rig, rig_models[i]);
        struct pairs pairs = random_pairs(&rig);
        float *whole = decode(&rig, &pairs), *steps = decode_by_steps(&rig, &pairs);
        for (size_t b = 0; b < pairs.source.n; b++) {
            struct pairs one = {one_of(&pairs.source, b), one_of(&pairs.target, b), {NULL}};
            store_memories(&rig, &one);
            float *whole_alone = decode(&rig, &one), *steps_alone = decode_by_steps(&rig, &one);
            assert_rows(&rig, &pairs.target, b, whole_alone, whole);
            assert_rows(&rig, &pairs.target, b, steps_alone, steps);
            free(whole_alone), free(steps_alone);
            free_memories(&one);
        }
        free(whole), free(steps);
        free_memories(&pairs);
        rig_close(&rig);
    }
}

/* Hidden states follow from the tokens: another token changes them, and only from there on. */
static void later_tokens_are_not_seen(void **state)
{
    (void)state;
    struct rig rig;
    open_model(&rig, "tests/golden/models/tiny-area");
    struct pairs pairs = random_pairs(&rig);
    size_t c = (size_t)rig.config.d_model, last = pairs.target.first[pairs.target.n] - 1;
    float *before = decode(&rig, &pairs);
    pairs.target.ids[last] = pairs.target.ids[last] == 5 ? 6 : 5;
    float *after = decode(&rig, &pairs);
    assert_memory_equal(before, after, last * c * sizeof(float));
    assert_memory_not_equal(before + last * c, after + last * c, c * sizeof(float));
    free(before), free(after);
    free_memories(&pairs);
    rig_close(&rig);
}

/* ---- Weights that do not fit ----------------------------------------------------------------- */

#define WEIGHTS "model.safetensors"

/* Copies a file of a model to a directory, with the first `from` in it replaced by `to`. */
static void copy_changed(const char *model, const char *name, const char *from, const char *to,
                         const char *directory)
{
    static char data[2 << 20];
    char path[128];
    snprintf(path, sizeof(path), "tests/golden/models/%s/%s", model, name);
    FILE *file = fopen(path, "rb");
    temp_check(file != NULL, path);
    size_t bytes = fread(data, 1, sizeof(data) - strlen(to), file);
    fclose(file);
    char *place = memmem(data, bytes, from, strlen(from));
    assert_non_null(place);
    char *rest = place + strlen(from);
    memmove(place + strlen(to), rest, bytes - (size_t)(rest - data));
    memcpy(place, to, strlen(to));
    temp_write(directory, name, data, bytes + strlen(to) - strlen(from));
}

/* Opens a copy of the model that was changed in one of its files: config.json, or the weights,
 * where what is replaced must be as long. */
static void assert_refused(const char *model, const char *name, const char *from, const char *to,
                           const char *text)
{
    char directory[sizeof(TEMP_TEMPLATE)];
    bool in_weights = strcmp(name, WEIGHTS) == 0;
    assert_true(!in_weights || strlen(from) == strlen(to));
    temp_make(directory);
    copy_changed(model, name, from, to, directory);
    copy_changed(model, in_weights ? "config.json" : WEIGHTS, "", "", directory);
    struct rig rig;
    struct acre_err err = {0, ""};
    assert_int_equal(rig_open(&rig, directory, tested_type, &err), ACRE_EMODEL);
    assert_int_equal(err.code, ACRE_EMODEL);
    assert_string_equal(err.text, text);
    rig_close(&rig);
    temp_remove(directory);
}

static void missing_tensor_is_named(void **state)
{
    (void)state;
    assert_refused("tiny-token", WEIGHTS, "\"model.decoder.layers.1.encoder_attn.v_proj.weight\"",
                   "\"model.decoder.layers.1.encoder_attn.v_proj.weighs\"",
                   "model.safetensors: model.decoder.layers.1.encoder_attn.v_proj.weight: "
                   "expected a tensor [64, 64], found nothing");
    assert_refused("tiny-token", WEIGHTS, "\"model.encoder.layers.0.final_layer_norm.bias\"",
                   "\"model.encoder.layers.7.final_layer_norm.bias\"",
                   "model.safetensors: model.encoder.layers.0.final_layer_norm.bias: "
                   "expected a tensor [64], found nothing");
}

static void wrong_shape_is_named(void **state)
{
    (void)state;
    assert_refused("tiny-token", WEIGHTS, "fc1.weight\":{\"dtype\":\"F32\",\"shape\":[128,64]",
                   "fc1.weight\":{\"dtype\":\"F32\",\"shape\":[64,128]",
                   "model.safetensors: model.decoder.layers.0.fc1.weight: "
                   "expected shape [128, 64], found [64, 128]");
    assert_refused("tiny-token", WEIGHTS,
                   "final_logits_bias\":{\"dtype\":\"F32\",\"shape\":[1,458]",
                   "final_logits_bias\":{\"dtype\":\"F32\",\"shape\":[458,1]",
                   "model.safetensors: final_logits_bias: "
                   "expected shape [1, 458], found [458, 1]");
}

/* What keys with dense layers need, in heads of 8: one after the other is taken away. */
static void missing_area_parameter_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *shape;
    } parameters[] = {{"fc1.weight", "[8, 24]"},
                      {"fc1.bias", "[8]"},
                      {"fc2.weight", "[8, 8]"},
                      {"fc2.bias", "[8]"},
                      {"height_embedding.weight", "[1, 4]"},
                      {"width_embedding.weight", "[3, 4]"}};
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        char from[128], to[128], text[256];
        snprintf(from, sizeof(from), "\"model.encoder.layers.1.self_attn.area.%s\"",
                 parameters[i].name);
        snprintf(to, sizeof(to), "\"model.encoder.layers.7.self_attn.area.%s\"",
                 parameters[i].name);
        snprintf(text, sizeof(text),
                 "model.safetensors: model.encoder.layers.1.self_attn.area.%s: "
                 "expected a tensor %s, found nothing",
                 parameters[i].name, parameters[i].shape);
        assert_refused("area-concat", WEIGHTS, from, to, text);
    }
}

static void wrong_area_parameter_is_named(void **state)
{
    (void)state;
    assert_refused("area-concat", WEIGHTS,
                   "layers.1.encoder_attn.area.fc1.weight\":{\"dtype\":\"BF16\",\"shape\":[8,24]",
                   "layers.1.encoder_attn.area.fc1.weight\":{\"dtype\":\"BF16\",\"shape\":[24,8]",
                   "model.safetensors: model.decoder.layers.1.encoder_attn.area.fc1.weight: "
                   "expected shape [8, 24], found [24, 8]");
    assert_refused("area-max", "config.json", "\"max_concat\"", "\"concat\"",
                   "model.safetensors: model.encoder.layers.0.self_attn.area.fc1.weight: "
                   "expected shape [8, 24], found [8, 16]");
    assert_refused("area-sum", "config.json", "\"decoder_cross\": {",
                   "\"decoder_cross\": {\"memory_height\": 2, \"height\": [1, 2],",
                   "model.safetensors: model.decoder.layers.1.encoder_attn.area."
                   "height_embedding.weight: expected shape [2, 4], found [1, 4]");
    assert_refused("area-sum", "config.json", "\"decoder_self\": {\n      \"width\": [\n        1,",
                   "\"decoder_self\": {\n      \"width\": [\n        2,",
                   "model.safetensors: model.decoder.layers.0.self_attn.area.fc1.weight: "
                   "expected a tensor [8, 8], found nothing");
}

/* A weight is refused in int8 where its sums could leave 32 bits, and taken in other types. */
static void int8_weights_are_not_too_deep(void **state)
{
    (void)state;
    struct device *device;
    struct acre_err err = {0};
    assert_int_equal(device_open("cpu", &device, &err), 0);
    float *zeros = calloc(KERNEL_MAX_INT8_K + 1, sizeof(*zeros));
    for (size_t k = KERNEL_MAX_INT8_K; k <= KERNEL_MAX_INT8_K + 1; k++) {
        for (int type = 0; type < KERNEL_TYPES; type++) {
            struct tensor matrix = {
                .data = zeros, .dtype = DTYPE_F32, .n_dims = 2, .shape = {1, k}};
            struct weight_part part = {.weight = matrix, .scale = 1};
            struct weight *weight = NULL;
            bool is_too_deep = type == KERNEL_INT8 && k > KERNEL_MAX_INT8_K;
            int code = device_bind_weight(device, (enum kernel_type)type, &part, 1, "layer.fc2",
                                          &weight, &err);
            assert_int_equal(code, is_too_deep ? ACRE_EOPTION : 0);
            device->ops->weight_close(weight);
        }
    }
    assert_string_equal(err.text, "layer.fc2: expected at most 133144 columns for products in "
                                  "int8, found 133145");
    free(zeros);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_weights_are_not_too_deep),
        cmocka_unit_test(steps_equal_whole_pass),
        cmocka_unit_test(types_are_near_f32),
        cmocka_unit_test(encoder_sentences_are_independent),
        cmocka_unit_test(decoder_sentences_are_independent),
        cmocka_unit_test(later_tokens_are_not_seen),
        cmocka_unit_test(missing_tensor_is_named),
        cmocka_unit_test(wrong_shape_is_named),
        cmocka_unit_test(missing_area_parameter_is_named),
        cmocka_unit_test(wrong_area_parameter_is_named),
    };
    int failed = 0;
    for (int type = 0; type < KERNEL_TYPES; type++) {
        tested_type = (enum kernel_type)type;
        random_seed(6);
        failed += cmocka_run_group_tests_name(kernel_type_name(tested_type), tests, NULL, NULL);
    }
    return failed;
}
