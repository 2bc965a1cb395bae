/* decode.h - what `acre translate`, `acre bench` and `acre inspect` share: engine and decoding
 * options, an engine with one model, and a worker's way to tell a waiting thread.
 *
 * Main thread, before and after its own threads run.
 */
#ifndef SERVER_CLI_DECODE_H
#define SERVER_CLI_DECODE_H

#include "acre.h"
#include "common/options.h"
#include "serve/settings.h"

struct decode_args {
    char model[OPTION_TEXT_BYTES];
    char device[OPTION_TEXT_BYTES];
    char compute_type[OPTION_TEXT_BYTES];
    int64_t threads, batch_size;
    int64_t max_beam_size; /* 0: beam_size, or enough for any model */
    int64_t beam_size, num_hypotheses, min_length, max_length; /* DECODE_UNSET: the model's */
    double length_penalty;                                     /* NAN: the model's */
    bool tokens, json;
};

enum { DECODE_UNSET = -1 };

/* Lines of an option table for struct S, which has a struct decode_args named `decode`. */
#define DECODE_AT(S, field) offsetof(S, decode.field)
#define DECODE_OPTIONS(S)                                                                          \
    {.key = "model",                                                                               \
     .type = OPTION_TEXT,                                                                          \
     .offset = DECODE_AT(S, model),                                                                \
     .value = "DIR",                                                                               \
     .help = "model directory"},                                                                   \
        {.key = "beam_size",                                                                       \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, beam_size),                                                        \
         .min = 1,                                                                                 \
         .max = ACRE_MAX_BEAM_SIZE,                                                                \
         .value = "N",                                                                             \
         .help = "hypotheses kept while searching; 1 = greedy (default: the model's)"},            \
        {.key = "num_hypotheses",                                                                  \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, num_hypotheses),                                                   \
         .min = 1,                                                                                 \
         .max = ACRE_MAX_BEAM_SIZE,                                                                \
         .value = "N",                                                                             \
         .help = "hypotheses given back, at most the beam size (default: 1)"},                     \
        {.key = "length_penalty",                                                                  \
         .type = OPTION_REAL,                                                                      \
         .offset = DECODE_AT(S, length_penalty),                                                   \
         .min = -10,                                                                               \
         .max = 10,                                                                                \
         .value = "X",                                                                             \
         .help = "rank by score / tokens^X (default: the model's)"},                               \
        {.key = "min_length",                                                                      \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, min_length),                                                       \
         .min = 0,                                                                                 \
         .max = 100000,                                                                            \
         .value = "N",                                                                             \
         .help = "fewest target tokens, end token not counted (default: the model's)"},            \
        {.key = "max_length",                                                                      \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, max_length),                                                       \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .value = "N",                                                                             \
         .help = "most target tokens, likewise; the end is forced there (default: the model's)"},  \
        {.key = "device",                                                                          \
         .type = OPTION_TEXT,                                                                      \
         .offset = DECODE_AT(S, device),                                                           \
         .initial = "auto",                                                                        \
         .value = "NAME",                                                                          \
         .help = "auto, cpu, cuda or cuda:N (default: auto)",                                      \
         .valid = settings_valid_device,                                                           \
         .expected = SETTINGS_DEVICE_EXPECTED},                                                    \
        {.key = "compute_type",                                                                    \
         .type = OPTION_TEXT,                                                                      \
         .offset = DECODE_AT(S, compute_type),                                                     \
         .initial = "auto",                                                                        \
         .value = "TYPE",                                                                          \
         .help = "f32, bf16, f16 or int8 (default: auto, the type the model was evaluated in)",    \
         .valid = settings_valid_compute_type,                                                     \
         .expected = SETTINGS_COMPUTE_TYPE_EXPECTED},                                              \
        {.key = "threads",                                                                         \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, threads),                                                          \
         .max = ACRE_MAX_THREADS,                                                                  \
         .initial = "0",                                                                           \
         .value = "N",                                                                             \
         .help = "worker threads (default: 0, as many as CPUs)"},                                  \
        {.key = "batch_size",                                                                      \
         .type = OPTION_INT,                                                                       \
         .offset = DECODE_AT(S, batch_size),                                                       \
         .min = 1,                                                                                 \
         .max = ACRE_MAX_BATCH_SIZE,                                                               \
         .initial = "32",                                                                          \
         .value = "N",                                                                             \
         .help = "most sentences decoded together (default: 32)"},                                 \
        {.key = "tokens",                                                                          \
         .type = OPTION_FLAG,                                                                      \
         .offset = DECODE_AT(S, tokens),                                                           \
         .initial = "false",                                                                       \
         .help = "lines are the vocabulary's own tokens separated by spaces"},                     \
    {                                                                                              \
        .key = "json", .type = OPTION_FLAG, .offset = DECODE_AT(S, json), .initial = "false",      \
        .help = "print JSON"                                                                       \
    }

/* Values that mean "not given"; call before args_parse(). */
void decode_init(struct decode_args *args);

/* An engine with one model. */
struct decode {
    struct acre_engine *engine; /* owned */
    struct acre_model *model;
    struct acre_decoding decoding;
    double load_seconds;
};

/* Opens engine and model. Prints what is wrong and returns an exit status; 0 if all is well. */
int decode_open(struct decode *decode, const struct decode_args *args, size_t max_queued_tokens);
void decode_close(struct decode *decode);

/* Seconds of a clock that only goes forward. */
double decode_seconds(void);

#endif
