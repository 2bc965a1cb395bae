/* The Transformer's passes on the golden models, in every compute type: decoding token by token
 * over the cache gives what one pass over the whole target gives, sentences do not see each other,
 * and weights that do not fit the configuration are refused by name. Run from the root of the tree.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "../support/rig.h"
#include "../support/temp.h"

enum { N_SENTENCES = 6, MAX_LENGTH = 40 };

static enum compute_type tested_type;

/* Sentences packed one after the other; sources have a last token that is not read, in place of
 * which the end token is. */
struct packed_rows {
    size_t n;
    size_t first[N_SENTENCES + 1];
    int32_t ids[N_SENTENCES * MAX_LENGTH];
};

static void append(struct packed_rows *p, size_t length, const int32_t *ids)
{
    memcpy(p->ids + p->first[p->n], ids, length * sizeof(*ids));
    p->first[p->n + 1] = p->first[p->n] + length;
    p->n++;
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

/* All sentences enter, sentence b in slot b. */
static void enter(struct rig *rig, const struct packed_rows *p)
{
    struct entry entries[N_SENTENCES];
    for (size_t b = 0; b < p->n; b++) {
        entries[b] = (struct entry){.slot = b,
                                    .n_source = p->first[b + 1] - p->first[b] - 1,
                                    .source = p->ids + p->first[b]};
        entries[b].decoding = (struct acre_decoding){
            .beam_size = 1, .num_hypotheses = 1, .max_length = MAX_LENGTH, .length_penalty = 1};
    }
    rig_clear(rig);
    workspace_enter(&rig->workspace, p->n, entries);
}

static float *encode(struct rig *rig, const struct packed_rows *p)
{
    enter(rig, p);
    return rig_read(rig, rig->workspace.buffers[0], p->first[p->n]);
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

struct pairs {
    struct packed_rows source, target;
};

/* All target tokens at once. */
static float *decode(struct rig *rig, const struct pairs *pairs)
{
    const struct packed_rows *p = &pairs->target;
    struct forced forced[N_SENTENCES];
    for (size_t b = 0; b < p->n; b++)
        forced[b] = (struct forced){
            .slot = b, .n = p->first[b + 1] - p->first[b], .tokens = p->ids + p->first[b]};
    enter(rig, &pairs->source);
    return rig_read(rig, workspace_decode(&rig->workspace, p->n, forced), p->first[p->n]);
}

/* Sentence b has read token t: it goes on to the next one, or ends. */
static void go_on(struct rig *rig, const struct packed_rows *p, size_t b, size_t t)
{
    struct workspace *w = &rig->workspace;
    if (p->first[b] + t + 1 < p->first[b + 1])
        rig->device->ops->search_force(w->stream, w->store, b, p->ids[p->first[b] + t + 1]);
    else
        workspace_drop(w, b);
}

/* Token by token, over the cache. */
static float *decode_by_steps(struct rig *rig, const struct pairs *pairs)
{
    const struct packed_rows *p = &pairs->target;
    size_t c = (size_t)rig->config.d_model;
    float *hidden = malloc(p->first[p->n] * c * sizeof(*hidden));
    enter(rig, &pairs->source);
    for (size_t t = 0; t < MAX_LENGTH; t++) {
        const struct buffer *buffer = workspace_show_step(&rig->workspace, NULL);
        float *rows = rig_read(rig, buffer, p->n);
        for (size_t b = 0, row = 0; b < p->n; b++) {
            if (t >= p->first[b + 1] - p->first[b])
                continue;
            memcpy(hidden + (p->first[b] + t) * c, rows + row++ * c, c * sizeof(*hidden));
            go_on(rig, p, b, t);
        }
        free(rows);
    }
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
    for (size_t i = 0; i < pairs.target.first[N_SENTENCES]; i++) /* no search goes on with it */
        if (pairs.target.ids[i] == rig->config.end_token)
            pairs.target.ids[i] = 5;
    for (size_t b = 0; b < N_SENTENCES; b++) /* every search begins with it */
        pairs.target.ids[pairs.target.first[b]] = rig->config.start_token;
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
        [COMPUTE_F32] = 1e-5, [COMPUTE_BF16] = 2e-2, [COMPUTE_INT8] = 5e-2};
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
        rig_close(&rig);
    }
}

/* Where areas are chosen by top_k, rounding may choose others, which is more than rounding. */
static void types_are_near_f32(void **state)
{
    (void)state;
    static const double bounds[] = {
        [COMPUTE_F32] = 0, [COMPUTE_BF16] = 2e-2, [COMPUTE_INT8] = 5e-2};
    for (size_t i = 0; rig_models[i]; i++) {
        struct rig rig, exact;
        struct acre_err err;
        open_model(&rig, rig_models[i]);
        if (rig_open(&exact, rig_models[i], COMPUTE_F32, &err) != 0)
            fail_msg("%s", err.text);
        struct packed_rows p = random_packed(rig.config.vocab_size);
        float *got = encode(&rig, &p), *want = encode(&exact, &p);
        double far = distance(p.first[p.n] * (size_t)rig.config.d_model, got, want);
        double bound = bounds[tested_type] * (rig.config.encoder_self.top_k > 0 ? 2 : 1);
        if (!(far <= bound))
            fail_msg("%s: relative difference %g", rig_models[i], far);
        if (tested_type != COMPUTE_F32)
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
            struct pairs one = {one_of(&pairs.source, b), one_of(&pairs.target, b)};
            float *whole_alone = decode(&rig, &one), *steps_alone = decode_by_steps(&rig, &one);
            assert_rows(&rig, &pairs.target, b, whole_alone, whole);
            assert_rows(&rig, &pairs.target, b, steps_alone, steps);
            free(whole_alone), free(steps_alone);
        }
        free(whole), free(steps);
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
    assert_non_null(file);
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
    struct acre_err err = {.code = 0};
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

/* A model without a bias is another model than one whose bias cannot be read. */
static void wrong_type_is_named(void **state)
{
    (void)state;
    assert_refused("tiny-token", WEIGHTS, "final_logits_bias\":{\"dtype\":\"F32\"",
                   "final_logits_bias\":{\"dtype\":\"I32\"",
                   "model.safetensors: final_logits_bias: "
                   "expected type F32, F16 or BF16, found I32");
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
    float *zeros = calloc(COMPUTE_MAX_INT8_K + 1, sizeof(*zeros));
    for (size_t k = COMPUTE_MAX_INT8_K; k <= COMPUTE_MAX_INT8_K + 1; k++) {
        for (int type = 0; type < COMPUTE_EVERYWHERE; type++) {
            struct tensor matrix = {
                .data = zeros, .dtype = DTYPE_F32, .n_dims = 2, .shape = {1, k}};
            struct weight_part part = {.weight = matrix, .scale = 1};
            struct weight *weight = NULL;
            bool is_too_deep = type == COMPUTE_INT8 && k > COMPUTE_MAX_INT8_K;
            int code = device_bind_weight(device, (enum compute_type)type, &part, 1, "layer.fc2",
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
        cmocka_unit_test(wrong_type_is_named),
        cmocka_unit_test(missing_area_parameter_is_named),
        cmocka_unit_test(wrong_area_parameter_is_named),
    };
    int failed = 0;
    for (int type = 0; type < COMPUTE_EVERYWHERE; type++) {
        tested_type = (enum compute_type)type;
        random_seed(6);
        failed += cmocka_run_group_tests_name(compute_type_name(tested_type), tests, NULL, NULL);
    }
    return failed;
}
