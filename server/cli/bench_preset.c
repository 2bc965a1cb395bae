#include "cli/bench_preset.h"

#include <jansson.h>

#include "cli/args.h"
#include "common/json.h"

static const char *const area_names[ACRE_AREAS] = {"regular", "Eq. 3", "Eq. 9"};
static const char *const area_keys[ACRE_AREAS] = {"regular", "eq3", "eq9"};

/* Training steps of Transformer Base on eight GPUs: 0.4, 0.5 and 0.8 s (Section 4.1.1). */
static const double paper_ratios[ACRE_AREAS] = {1.0, 1.25, 2.0};

static int finish(json_t *root, bool as_json)
{
    int rc = 0;

    if (as_json) {
        rc = root ? json_dumpf(root, stdout, JSON_FLAGS) : -1;
        putchar('\n');
        json_decref(root);
    }
    return rc == 0 ? args_done() : args_failed(ARGS_NOT_PRINTED);
}

/* ---- What there is --------------------------------------------------------------------------- */

static json_t *describe_areas(const struct acre_preset *preset, size_t areas)
{
    return json_pack("{s:i, s:i}", "width", preset->areas[areas].width, "layers",
                     preset->areas[areas].n_layers);
}

static json_t *describe(const struct acre_preset *preset)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o}", "name", preset->name, "model_type",
                     preset->model_type, "layers", preset->layers, "d_model", preset->d_model,
                     "attention_heads", preset->attention_heads, "ffn", preset->ffn,
                     area_keys[ACRE_EQ3], describe_areas(preset, ACRE_EQ3), area_keys[ACRE_EQ9],
                     describe_areas(preset, ACRE_EQ9));
}

/* "4 in 1", a width and its layers. */
static const char *areas_text(const struct acre_preset *preset, size_t areas, char text[32])
{
    snprintf(text, 32, "%d in %d", preset->areas[areas].width, preset->areas[areas].n_layers);
    return text;
}

int bench_preset_list(bool as_json)
{
    json_t *list = as_json ? json_array() : NULL;
    char eq3[32], eq9[32];

    if (!as_json)
        printf("%-11s %7s %6s %6s %6s   %-6s  %s\n", "preset", "layers", "width", "heads", "ffn",
               "Eq. 3", "Eq. 9");
    for (size_t i = 0; acre_preset(i); i++) {
        const struct acre_preset *p = acre_preset(i);

        if (as_json)
            json_array_append_new(list, describe(p));
        else
            printf("%-11s %7d %6d %6d %6d   %-6s  %s\n", p->name, p->layers, p->d_model,
                   p->attention_heads, p->ffn, areas_text(p, ACRE_EQ3, eq3),
                   areas_text(p, ACRE_EQ9, eq9));
    }
    if (!as_json)
        printf("\nEq. 3 and Eq. 9: the widest areas, and in how many of the layers.\n");
    return finish(list, as_json);
}

/* ---- What was measured ----------------------------------------------------------------------- */

static json_t *number(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *report(const struct acre_bench *bench)
{
    char device[64] = "";
    json_t *rows = json_object();

    sscanf(bench->backend, "%63s", device); /* of "cpu avx2" */
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        json_t *row = json_pack(
            "{s:o, s:o, s:f, s:o, s:o}", "pass_ms", number(bench->rows[i].pass_ms), "pass_ratio",
            number(bench->rows[i].pass_ratio), "paper_ratio", paper_ratios[i], "step_ms",
            number(bench->rows[i].step_ms), "step_ratio", number(bench->rows[i].step_ratio));

        json_object_set_new(rows, area_keys[i], row);
    }
    return json_pack("{s:o, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o}", "preset",
                     describe(bench->preset), "device", device, "backend", bench->backend,
                     "compute_type", bench->compute_type, "threads", 1, "batch_size",
                     bench->batch_size, "length", bench->length, "vocabulary", bench->vocab_size,
                     "repeat", bench->n_rounds, "rows", rows);
}

static void print_number(const char *format, double value)
{
    char text[32] = "-";

    if (value > 0)
        snprintf(text, sizeof(text), format, value);
    printf("%10s", text);
}

static void print_table(const struct acre_bench *bench)
{
    char areas[32];

    printf("%s: %d sentences of %d tokens, vocabulary %d, %s on %s, one thread, %d rounds\n\n",
           bench->preset->name, bench->batch_size, bench->length, bench->vocab_size,
           bench->compute_type, bench->backend, bench->n_rounds);
    printf("%-8s%-8s%10s%10s%10s%10s%10s\n", "", "areas", "ms/pass", "ratio", "paper", "ms/step",
           "ratio");
    for (size_t i = 0; i < ACRE_AREAS; i++) {
        printf("%-8s%-8s", area_names[i],
               i == ACRE_REGULAR ? "-" : areas_text(bench->preset, i, areas));
        print_number("%.2f", bench->rows[i].pass_ms);
        print_number("%.3f", bench->rows[i].pass_ratio);
        print_number("%.2f", bench->rows[i].pass_ms > 0 ? paper_ratios[i] : 0);
        print_number("%.3f", bench->rows[i].step_ms);
        print_number("%.3f", bench->rows[i].step_ratio);
        putchar('\n');
    }
    printf("\npass: forward, as in training; step: of cached greedy decoding; paper: training step "
           "of Base\n");
}

int bench_preset(const struct acre_bench_options *options, bool as_json)
{
    struct acre_bench bench;
    struct acre_err err = {.code = 0};
    json_t *root = NULL;
    const int rc = acre_bench_preset(options, &bench, &err);

    if (rc != 0)
        return rc == ACRE_EOPTION ? args_wrong("--%s", err.text) : args_failed("%s", err.text);
    if (as_json)
        root = report(&bench);
    else
        print_table(&bench);
    return finish(root, as_json);
}
