/* acre_bench.h - measuring models of published sizes with random weights, which need no files. */
#ifndef ACRE_BENCH_H
#define ACRE_BENCH_H

#include "acre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the published models compare: attention over single items, and over areas whose keys are
 * means (Eq. 3) or combine several features (Eq. 9). */
enum acre_areas { ACRE_REGULAR, ACRE_EQ3, ACRE_EQ9 };
enum { ACRE_AREAS = ACRE_EQ9 + 1 };

/* The size of a published model, with as many encoder as decoder layers. */
struct acre_preset {
    const char *name;       /* "base" */
    const char *model_type; /* "marian" or "acre-lstm" */
    int layers, d_model, attention_heads, ffn;
    struct {
        int width, n_layers; /* the first n_layers of each stack attend to areas that wide at most;
                              * an LSTM has one attention */
    } areas[ACRE_AREAS];
};

const struct acre_preset *acre_preset(size_t index); /* Static; NULL behind the last. */

/* The largest values of the options below. */
enum {
    ACRE_MAX_BENCH_LENGTH = 1024,
    ACRE_MAX_BENCH_VOCAB = 1 << 20,
    ACRE_MAX_BENCH_ROUNDS = 1000,
};

/* Zero in any field but `preset` means its default. */
struct acre_bench_options {
    const char *preset;
    const char *device, *compute_type; /* as in struct acre_options; "auto" is f32 */
    int batch_size;                    /* sentences; default 32 */
    int length;                        /* tokens of each, source and target; default 27 */
    int vocab_size;                    /* default 8000 */
    int n_rounds;                      /* default: as many as take five seconds, at least five */
};

/* Medians over rounds in which all areas take their turns; a ratio is to regular attention in the
 * same round. Zero where a model does not have that. */
struct acre_bench {
    const struct acre_preset *preset;
    const char *compute_type; /* static */
    char backend[64];         /* "cpu avx2" */
    int batch_size, length, vocab_size, n_rounds;
    struct {
        double pass_ms, pass_ratio; /* the forward pass of a training step */
        double step_ms, step_ratio; /* cached greedy decoding with its encoder pass, by target
                                     * token of the whole batch */
    } rows[ACRE_AREAS];
};

/* Measures models of a preset with the same random weights on the calling thread, in CPU time. */
int acre_bench_preset(const struct acre_bench_options *options, struct acre_bench *bench,
                      struct acre_err *err);

#ifdef __cplusplus
}
#endif

#endif
