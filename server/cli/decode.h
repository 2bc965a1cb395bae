/* decode.h - what `acre translate`, `acre bench` and `acre inspect` share: engine and decoding
 * options, and an engine with one model.
 *
 * Main thread, before and after its own threads run.
 */
#ifndef SERVER_CLI_DECODE_H
#define SERVER_CLI_DECODE_H

#include "acre.h"
#include "cli/args.h"
#include "common/options.h"
#include "serve/decoding.h"
#include "serve/settings.h"

struct decode_args {
    char model[OPTION_TEXT_BYTES];
    char device[OPTION_TEXT_BYTES];
    char compute_type[OPTION_TEXT_BYTES];
    char source[OPTION_TEXT_BYTES], target[OPTION_TEXT_BYTES];
    int64_t threads, batch_size;
    int64_t max_beam_size; /* 0: beam_size, or enough for the model */
    struct decoding_wish wish;
    bool tokens, json;
};

/* Lines of an option table of a struct that begins with a struct decode_args. */
#define DECODE_NUMBER(field, low, high, default_value, text)                                       \
    ARGS_NUMBER(#field, struct decode_args, field, low, high, default_value, "N", text)
#define DECODE_NAME(field, check, accepts, called, text)                                           \
    {                                                                                              \
        .key = #field, .type = OPTION_TEXT, .offset = offsetof(struct decode_args, field),         \
        .default_text = "auto", .value = called, .help = text, .valid = check, .expected = accepts \
    }
/* What the command takes where an option is not given. */
#define DECODE_DEFAULT_beam_size "the model's"
#define DECODE_DEFAULT_num_hypotheses "1"
#define DECODE_DEFAULT_max_length "the model's"
#define DECODE_DEFAULT_min_length "the model's"
#define DECODE_INT(name, low, high, text)                                                          \
    ARGS_NUMBER(#name, struct decode_args, wish.name, low, high, NULL, "N",                        \
                text " (default: " DECODE_DEFAULT_##name ")"),
#define DECODE_REAL(name, low, high, text)                                                         \
    {.key = #name,                                                                                 \
     .type = OPTION_REAL,                                                                          \
     .offset = offsetof(struct decode_args, wish.name),                                            \
     .min = low,                                                                                   \
     .max = high,                                                                                  \
     .value = "X",                                                                                 \
     .help = text " (default: the model's)"},
#define DECODE_LANGUAGES                                                                           \
    ARGS_TEXT("source", struct decode_args, source, "CODE",                                        \
              "language of the text, for a model of several"),                                     \
        ARGS_TEXT("target", struct decode_args, target, "CODE", "language to translate to")
#define DECODE_OPTIONS                                                                             \
    ARGS_TEXT("model", struct decode_args, model, "DIR", "model directory"), DECODE_LANGUAGES,     \
        ACRE_DECODING_OPTIONS(DECODE_INT, DECODE_REAL) DECODE_NAME(                                \
            device, acre_has_device, ACRE_DEVICES, "NAME", ACRE_DEVICES " (default: auto)"),       \
        DECODE_NAME(compute_type, acre_has_compute_type, ACRE_COMPUTE_TYPES, "TYPE",               \
                    ACRE_COMPUTE_TYPES " (default: auto, the type the model was evaluated in; "    \
                                       "GPUs have f16, too)"),                                     \
        DECODE_NUMBER(threads, 0, ACRE_MAX_THREADS, "0",                                           \
                      "worker threads (default: 0, as many as CPUs)"),                             \
        DECODE_NUMBER(batch_size, 1, ACRE_MAX_BATCH_SIZE, "32",                                    \
                      "most sentences decoded together (default: 32)"),                            \
        ARGS_FLAG("tokens", struct decode_args, tokens,                                            \
                  "lines are the vocabulary's own tokens separated by spaces"),                    \
        ARGS_FLAG("json", struct decode_args, json, "print JSON")

/* Values that mean "not given"; call before args_parse(). */
void decode_init(struct decode_args *args);

/* An engine with one model. */
struct decode {
    struct acre_engine *engine; /* owned */
    struct acre_model *model;
    const char *source, *target; /* the model's; NULL: its defaults */
    struct acre_decoding decoding;
    double load_seconds;
};

/* Opens engine and model. Prints what is wrong and returns an exit status; 0 if all is well. */
int decode_open(struct decode *decode, const struct decode_args *args, size_t max_queued_tokens);
/* Likewise finds the languages, without which a model of several translates nothing. */
int decode_languages(struct decode *decode, const struct decode_args *args);
void decode_close(struct decode *decode);

/* Seconds of a clock that only goes forward. */
double decode_seconds(void);

#endif
