/* decode.h - what `acre translate`, `acre bench` and `acre inspect` share: engine and decoding
 * options, an engine with one model, and a worker's way to tell a waiting thread.
 *
 * Main thread, before and after its own threads run.
 */
#ifndef SERVER_CLI_DECODE_H
#define SERVER_CLI_DECODE_H

#include "acre.h"
#include "common/options.h"
#include "serve/decoding.h"
#include "serve/settings.h"

struct decode_args {
    char model[OPTION_TEXT_BYTES];
    char device[OPTION_TEXT_BYTES];
    char compute_type[OPTION_TEXT_BYTES];
    int64_t threads, batch_size;
    int64_t max_beam_size; /* 0: beam_size, or enough for any model */
    struct decoding_wish wish;
    bool tokens, json;
};

#define DECODE_INT(name, least, most, text)                                                        \
    {.key = #name,                                                                                 \
     .type = OPTION_INT,                                                                           \
     .offset = offsetof(struct decode_args, wish.name),                                            \
     .min = least,                                                                                 \
     .max = most,                                                                                  \
     .value = "N",                                                                                 \
     .help = text " (default: the model's)"},
#define DECODE_REAL(name, least, most, text)                                                       \
    {.key = #name,                                                                                 \
     .type = OPTION_REAL,                                                                          \
     .offset = offsetof(struct decode_args, wish.name),                                            \
     .min = least,                                                                                 \
     .max = most,                                                                                  \
     .value = "X",                                                                                 \
     .help = text " (default: the model's)"},

/* Lines of an option table of a struct that begins with a struct decode_args. */
#define DECODE_OPTIONS                                                                             \
    {.key = "model",                                                                               \
     .type = OPTION_TEXT,                                                                          \
     .offset = offsetof(struct decode_args, model),                                                \
     .value = "DIR",                                                                               \
     .help = "model directory"},                                                                   \
        ACRE_DECODING_OPTIONS(DECODE_INT,                                                          \
                              DECODE_REAL){.key = "device",                                        \
                                           .type = OPTION_TEXT,                                    \
                                           .offset = offsetof(struct decode_args, device),         \
                                           .initial = "auto",                                      \
                                           .value = "NAME",                                        \
                                           .help = ACRE_DEVICES " (default: auto)",                \
                                           .valid = acre_has_device,                               \
                                           .expected = ACRE_DEVICES},                              \
        {.key = "compute_type",                                                                    \
         .type = OPTION_TEXT,                                                                      \
         .offset = offsetof(struct decode_args, compute_type),                                     \
         .initial = "auto",                                                                        \
         .value = "TYPE",                                                                          \
         .help = ACRE_COMPUTE_TYPES " (default: auto, the type the model was evaluated in)",       \
         .valid = acre_has_compute_type,                                                           \
         .expected = ACRE_COMPUTE_TYPES},                                                          \
        {.key = "threads",                                                                         \
         .type = OPTION_INT,                                                                       \
         .offset = offsetof(struct decode_args, threads),                                          \
         .max = ACRE_MAX_THREADS,                                                                  \
         .initial = "0",                                                                           \
         .value = "N",                                                                             \
         .help = "worker threads (default: 0, as many as CPUs)"},                                  \
        {.key = "batch_size",                                                                      \
         .type = OPTION_INT,                                                                       \
         .offset = offsetof(struct decode_args, batch_size),                                       \
         .min = 1,                                                                                 \
         .max = ACRE_MAX_BATCH_SIZE,                                                               \
         .initial = "32",                                                                          \
         .value = "N",                                                                             \
         .help = "most sentences decoded together (default: 32)"},                                 \
        {.key = "tokens",                                                                          \
         .type = OPTION_FLAG,                                                                      \
         .offset = offsetof(struct decode_args, tokens),                                           \
         .initial = "false",                                                                       \
         .help = "lines are the vocabulary's own tokens separated by spaces"},                     \
    {                                                                                              \
        .key = "json", .type = OPTION_FLAG, .offset = offsetof(struct decode_args, json),          \
        .initial = "false", .help = "print JSON"                                                   \
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
