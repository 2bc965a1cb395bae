/* args.h - command lines: parsed and documented from option tables.
 *
 * "--key value", "--key=value" and, for one-letter keys, "-k value"; "--" ends the options and "-"
 * is a positional argument. Every command has --help. Main thread only.
 */
#ifndef SERVER_CLI_ARGS_H
#define SERVER_CLI_ARGS_H

#include "common/options.h"

/* Exit statuses of the acre command. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct args_command {
    const char *name;     /* "translate" */
    const char *synopsis; /* "--model DIR [INPUT] [options]" */
    const char *about;    /* paragraphs of help, each line ends with a newline */
    const struct option *options;
    const struct option *positionals; /* texts, in order, all optional here */
};

/* Lines of option tables for `field` of struct S. */
#define ARGS_TEXT(name, S, field, called, text)                                                    \
    {                                                                                              \
        .key = name, .type = OPTION_TEXT, .offset = offsetof(S, field), .default_text = "",        \
        .value = called, .help = text                                                              \
    }
#define ARGS_POSITIONAL(name, S, field, text) ARGS_TEXT(name, S, field, NULL, text)
/* A text that is not empty if it is given; else as the caller set it. */
#define ARGS_FILLED(name, S, field, called, accepts, text)                                         \
    {                                                                                              \
        .key = name, .type = OPTION_TEXT, .offset = offsetof(S, field), .value = called,           \
        .help = text, .valid = options_is_filled, .expected = accepts                              \
    }
#define ARGS_NUMBER(name, S, field, low, high, default_value, called, text)                        \
    {                                                                                              \
        .key = name, .type = OPTION_INT, .offset = offsetof(S, field), .min = low, .max = high,    \
        .default_text = default_value, .value = called, .help = text                               \
    }
#define ARGS_FLAG(name, S, field, text)                                                            \
    {                                                                                              \
        .key = name, .type = OPTION_FLAG, .offset = offsetof(S, field), .default_text = "false",   \
        .help = text                                                                               \
    }
#define ARGS_LIST(name, S, field, called, text)                                                    \
    {                                                                                              \
        .key = name, .type = OPTION_LIST, .offset = offsetof(S, field), .value = called,           \
        .help = text                                                                               \
    }

enum { ARGS_GO = -1 }; /* no exit status */

/* Fills `base` (defaults first) from argv, which starts with the command's name. Help goes to
 * stdout, an error to stderr. ARGS_GO, or the status to leave with. */
int args_parse(const struct args_command *command, void *base, int argc, char **argv);

/* How an option is written: "max_length" -> "--max-length", "o" -> "-o". */
void args_flag(const char *key, char *name, size_t name_bytes);

/* Prints "acre: ..." on stderr; returns EXIT_USAGE. */
int args_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, returning EXIT_FAILED. */
int args_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether all that was printed has been written. */
bool args_are_printed(void);

/* What is wrong where it has not. */
#define ARGS_NOT_PRINTED "standard output: expected to be writable, found an error"

/* EXIT_DONE if it has, else tells and returns EXIT_FAILED. */
int args_done(void);

#endif
