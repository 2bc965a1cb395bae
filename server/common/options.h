/* options.h - typed option tables: one description serves files, command lines and help.
 *
 * A table describes the fields of one of our structs: name, type, place, range, default and help.
 * The configuration file (settings.h) and every subcommand's command line (args.h) are such tables,
 * so a value has the same rules and the same error message wherever it is written.
 * Used at start, on the main thread. A table ends with an entry whose key is NULL.
 */
#ifndef SERVER_COMMON_OPTIONS_H
#define SERVER_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "acre.h"

enum {
    OPTION_TEXT_BYTES = 1024, /* size of every text field, terminator included */
    OPTION_LIST_ITEMS = 64
};

struct option_list {
    const char *items[OPTION_LIST_ITEMS]; /* borrowed from argv */
    size_t n_items;
};

enum option_type {
    OPTION_INT,  /* int64_t */
    OPTION_REAL, /* double */
    OPTION_TEXT, /* char [OPTION_TEXT_BYTES] */
    OPTION_FLAG, /* bool; takes no value on a command line */
    OPTION_LIST  /* struct option_list; may be repeated; command lines only */
};

struct option {
    const char *key; /* "max_body_bytes"; on a command line --max-body-bytes, -o for "o" */
    enum option_type type;
    size_t offset;
    double min, max;          /* of numbers */
    const char *default_text; /* the default as it would be written; NULL leaves the field alone */
    const char *value;        /* what to call the value in help, e.g. "HOST:PORT" */
    const char *help;
    bool is_list;                    /* of texts with commas between; in JSON also an array */
    bool is_fixed;                   /* a running server cannot take another value */
    bool is_secret;                  /* an error does not tell what was found */
    bool (*valid)(const char *text); /* more than the type demands; NULL: any */
    const char *expected;            /* what `valid` accepts, for error messages */
};

/* Writes every default into `base`. */
void options_init(const struct option *table, void *base);

/* NULL if there is none. */
const struct option *options_find(const struct option *table, const char *key);

/* Whether two structs have the same value there; and copies it. */
bool options_same(const struct option *option, const void *a, const void *b);
void options_copy(const struct option *option, void *to, const void *from);

/* Sets one field from text. ACRE_EOPTION and "expected ..., found ..." if the text does not fit. */
int options_set(const struct option *option, void *base, const char *text, struct acre_err *err);

/* For option.valid: any text but the empty one. */
bool options_is_filled(const char *text);

/* A whole decimal number: no blanks, no hexadecimal, no "inf"; of OPTION_INT, digits with a sign at
 * most. */
bool options_number(const char *text, enum option_type type, double *value);

/* Reads a JSON file of exactly one object whose keys are the table's. Errors name file, field,
 * what was expected and what was found; errors of syntax and duplicate keys name the line. */
int options_load(const struct option *table, void *base, const char *path, struct acre_err *err);

/* What a value must be, e.g. "an integer from 1 to 64". */
void options_expected(const struct option *option, char *text, size_t text_bytes);

#endif
