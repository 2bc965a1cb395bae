/* error.h - how the server's parts say what went wrong.
 *
 * Two kinds of failure exist here. Setting up (options, files, sockets, models) fails with the
 * engine's struct acre_err, filled by error_set(); main prints it after "acre: ". A request fails
 * with a struct srv_error, which carries what a reply needs; dialects render it.
 * No state, any thread.
 */
#ifndef SERVER_ERROR_H
#define SERVER_ERROR_H

#include "acre.h"

struct srv_error {
    int status;        /* HTTP status */
    const char *code;  /* snake_case, for programs; static */
    int retry_after_s; /* 0: no Retry-After header */
    char text[512];    /* one line for people */
};

/* Fills `err`, which may be NULL, and returns `code`. */
int error_set(struct acre_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts text before what `err` already says; returns its code. */
int error_prefix(struct acre_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fills `error` and returns -1. */
int error_reply(struct srv_error *error, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fills `error` from an engine's failure, and returns -1. */
int error_from_engine(struct srv_error *error, int status, const struct acre_err *err);

#endif
