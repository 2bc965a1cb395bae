/* Presets: what their configurations say, that random weights fit them and give finite numbers,
 * and the bench of acre.h, also where memory fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h" /* mem_fail_after */
#include "model/preset.h"
#include "model/random_weights.h"
#include "nn/network.h"

enum { VOCAB = 50, N_TOKENS = 7 };

static struct config config_of(const struct acre_preset *preset, size_t areas)
{
    struct config config;
    struct acre_err err;
    if (preset_config(preset, areas, VOCAB, network_kinds, &config, &err) != 0)
        fail_msg("%s: %s", preset->name, err.text);
    return config;
}

static const struct acre_preset *find(const char *name)
{
    const struct acre_preset *preset = NULL;
    assert_int_equal(preset_find(name, &preset, NULL), 0);
    assert_string_equal(preset->name, name);
    return preset;
}

/* ---- Configurations -------------------------------------------------------------------------- */

static void assert_widths(const struct acre_preset *preset, size_t areas,
                          const struct area_config *area, int n)
{
    for (int i = 0; i < n; i++) {
        bool has = areas != ACRE_REGULAR && i < preset->areas[areas].n_layers;
        assert_int_equal(area->width[i], has ? preset->areas[areas].width : 1);
        assert_int_equal(area->height[i], 1);
    }
    assert_int_equal(area->key, areas == ACRE_EQ9 ? AREA_KEY_CONCAT : AREA_KEY_MEAN);
    assert_int_equal(area->value, AREA_VALUE_SUM);
}

static void configurations_are_what_the_table_says(void **state)
{
    (void)state;
    const struct acre_preset *preset;
    for (size_t i = 0; (preset = acre_preset(i)); i++) {
        for (size_t areas = 0; areas < ACRE_AREAS; areas++) {
            struct config config = config_of(preset, areas);
            assert_string_equal(config.kind->model_type, preset->model_type);
            assert_int_equal(config.d_model, preset->d_model);
            assert_int_equal(config.encoder_layers, preset->layers);
            assert_int_equal(config.decoder_layers, preset->layers);
            assert_int_equal(config.decoder_heads, preset->attention_heads);
            assert_int_equal(config.vocab_size, VOCAB);
            assert_int_equal(config_max_area_width(&config), preset->areas[areas].width);
            bool is_lstm = config.encoder_self.n_layers == 0;
            int n = is_lstm ? 1 : preset->layers;
            assert_int_equal(config.encoder_ffn, preset->ffn);
            assert_int_equal(config.decoder_ffn, preset->ffn);
            assert_widths(preset, areas, &config.decoder_cross, n);
            if (!is_lstm) {
                assert_widths(preset, areas, &config.encoder_self, n);
                assert_widths(preset, areas, &config.decoder_self, n);
            }
            config_fini(&config);
        }
    }
}

static void unknown_preset_names_those_known(void **state)
{
    (void)state;
    const struct acre_preset *preset = NULL;
    struct acre_err err;
    assert_int_equal(preset_find("huge", &preset, &err), ACRE_EOPTION);
    assert_null(preset);
    assert_string_equal(err.text, "preset: expected tiny, small, base, big-en-de, big-en-fr, "
                                  "lstm-256, lstm-512, lstm-1024, lstm-256-4, lstm-512-4 or "
                                  "lstm-1024-4, found \"huge\"");
}

/* ---- Random weights -------------------------------------------------------------------------- */

static float *encode(const struct network *network, size_t c)
{
    static const int32_t ids[N_TOKENS - 1] = {3, 1, 4, 1, 5, 9}; /* and the end token */
    const struct entry entry = {.n_source = N_TOKENS - 1,
                                .source = ids,
                                .decoding = {.beam_size = 1, .num_hypotheses = 1, .max_length = 9}};
    const struct workspace_limits limits = {.n_slots = 1, .max_beam = 1, .max_rows = N_TOKENS};
    struct workspace workspace;
    float *hidden = malloc(N_TOKENS * c * sizeof(*hidden));
    assert_int_equal(workspace_open(network, &limits, &workspace), 0);
    workspace_enter(&workspace, 1, &entry);
    network->device->ops->read(workspace.stream, workspace.buffers[0], N_TOKENS, c, hidden);
    workspace_close(&workspace);
    return hidden;
}

/* The encoder's output for weights of the preset's Eq. 9, computed with some of its areas. */
static float *run(struct device *device, const struct acre_preset *preset, size_t areas)
{
    struct config config = config_of(preset, areas);
    struct config most = config_of(preset, ACRE_EQ9);
    struct random_weights weights;
    struct network *network;
    struct acre_err err;
    if (random_weights_init(&weights, &most, 7, &err) != 0)
        fail_msg("%s: %s", preset->name, err.text);
    if (network_open(device, &config, weights.tensors, &network, &err) != 0)
        fail_msg("%s: %s", preset->name, err.text);
    float *hidden = encode(network, (size_t)preset->d_model);
    network_close(network);
    random_weights_fini(&weights);
    config_fini(&most), config_fini(&config);
    return hidden;
}

static double mean_square(size_t n, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

static void random_weights_give_finite_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny", "small", "lstm-256", "lstm-256-4"};
    struct device *device;
    assert_int_equal(device_open("cpu", &device, NULL), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct acre_preset *preset = find(names[i]);
        size_t n = N_TOKENS * (size_t)preset->d_model;
        for (size_t areas = 0; areas < ACRE_AREAS; areas++) {
            float *hidden = run(device, preset, areas), *again = run(device, preset, areas);
            double size = mean_square(n, hidden);
            if (!(size > 1e-6 && size < 10)) /* nor is a NaN */
                fail_msg("%s: a mean square of %g", names[i], size);
            assert_memory_equal(hidden, again, n * sizeof(*hidden));
            assert_memory_not_equal(hidden, hidden + preset->d_model, 64 * sizeof(*hidden));
            free(hidden), free(again);
        }
    }
    device_close(device);
}

/* Same weights, other numbers. */
static void areas_make_a_difference(void **state)
{
    (void)state;
    const struct acre_preset *tiny = find("tiny");
    size_t bytes = N_TOKENS * (size_t)tiny->d_model * sizeof(float);
    struct device *device;
    assert_int_equal(device_open("cpu", &device, NULL), 0);
    float *regular = run(device, tiny, ACRE_REGULAR), *eq3 = run(device, tiny, ACRE_EQ3);
    float *eq9 = run(device, tiny, ACRE_EQ9);
    assert_memory_not_equal(regular, eq3, bytes);
    assert_memory_not_equal(regular, eq9, bytes);
    assert_memory_not_equal(eq3, eq9, bytes);
    free(regular), free(eq3), free(eq9);
    device_close(device);
}

/* ---- Bench ----------------------------------------------------------------------------------- */

static struct acre_bench_options small_bench(const char *preset)
{
    return (struct acre_bench_options){
        .preset = preset, .batch_size = 2, .length = 3, .vocab_size = VOCAB, .n_rounds = 3};
}

static void bench_measures_transformers(void **state)
{
    (void)state;
    struct acre_bench_options options = small_bench("tiny");
    struct acre_bench bench;
    for (int type = 0; type < COMPUTE_EVERYWHERE; type++) {
        options.compute_type = compute_type_name((enum compute_type)type);
        assert_int_equal(acre_bench_preset(&options, &bench, NULL), 0);
        assert_ptr_equal(bench.preset, find("tiny"));
        assert_string_equal(bench.compute_type, options.compute_type);
        assert_int_equal(bench.n_rounds, 3);
        for (size_t i = 0; i < ACRE_AREAS; i++) {
            assert_true(bench.rows[i].pass_ms > 0 && bench.rows[i].pass_ratio > 0);
            assert_true(bench.rows[i].step_ms > 0 && bench.rows[i].step_ratio > 0);
        }
        assert_true(bench.rows[ACRE_REGULAR].pass_ratio == 1);
        assert_true(bench.rows[ACRE_REGULAR].step_ratio == 1);
    }
}

static void bench_measures_lstms(void **state)
{
    (void)state;
    struct acre_bench_options options = small_bench("lstm-256");
    struct acre_bench bench;
    assert_int_equal(acre_bench_preset(&options, &bench, NULL), 0);
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        assert_true(bench.rows[i].pass_ms == 0 && bench.rows[i].pass_ratio == 0);
        assert_true(bench.rows[i].step_ms > 0 && bench.rows[i].step_ratio > 0);
    }
}

static void bench_has_defaults(void **state)
{
    (void)state;
    struct acre_bench_options options = {.preset = "tiny", .n_rounds = 1};
    struct acre_bench bench;
    assert_int_equal(acre_bench_preset(&options, &bench, NULL), 0);
    assert_int_equal(bench.batch_size, 32);
    assert_int_equal(bench.length, 27);
    assert_int_equal(bench.vocab_size, 8000);
    assert_string_equal(bench.compute_type, "f32");
}

static void bench_options_out_of_range(void **state)
{
    (void)state;
    static const struct {
        struct acre_bench_options options;
        int code;
        const char *text;
    } cases[] = {
        {{.preset = "base", .batch_size = 1025},
         ACRE_EOPTION,
         "batch_size: expected an integer from 1 to 1024, found 1025"},
        {{.preset = "base", .length = -1},
         ACRE_EOPTION,
         "length: expected an integer from 1 to 1024, found -1"},
        {{.preset = "base", .vocab_size = 1 << 21},
         ACRE_EOPTION,
         "vocab_size: expected an integer from 1 to 1048576, found 2097152"},
        {{.preset = "base", .n_rounds = 1001},
         ACRE_EOPTION,
         "n_rounds: expected an integer from 1 to 1000, found 1001"},
        {{.preset = "base", .compute_type = "f16"},
         ACRE_EUNSUPPORTED,
         "compute_type: expected auto, f32, bf16 or int8 on a CPU, found \"f16\""},
    };
    struct acre_bench bench;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct acre_err err = {.code = 0};
        assert_int_equal(acre_bench_preset(&cases[i].options, &bench, &err), cases[i].code);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void bench_survives_no_memory(void **state)
{
    (void)state;
    struct acre_bench_options options = small_bench("tiny");
    struct acre_bench bench;
    options.n_rounds = 1;
    for (long n = 0;; n = n < 50 ? n + 1 : n + 23) { /* then come many weights */
        struct acre_err err = {.code = 0};
        mem_fail_after(n);
        int status = acre_bench_preset(&options, &bench, &err);
        mem_fail_after(-1);
        if (status == 0)
            return;
        assert_int_equal(status, ACRE_ENOMEM);
        assert_int_equal(err.code, ACRE_ENOMEM);
        assert_non_null(strstr(err.text, "memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_are_what_the_table_says),
        cmocka_unit_test(unknown_preset_names_those_known),
        cmocka_unit_test(random_weights_give_finite_numbers),
        cmocka_unit_test(areas_make_a_difference),
        cmocka_unit_test(bench_measures_transformers),
        cmocka_unit_test(bench_measures_lstms),
        cmocka_unit_test(bench_has_defaults),
        cmocka_unit_test(bench_options_out_of_range),
        cmocka_unit_test(bench_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
