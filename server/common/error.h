/* error.h - how the server's parts say what went wrong.
 *
 * Two kinds of failure exist here. Setting up (options, files, sockets, models) fails with the
 * engine's struct acre_err, filled by error_set(); main prints it after "acre: ". A request fails
 * with a struct srv_error, which carries what a reply needs; dialects render it.
 * No state, any thread.
 */
#ifndef SERVER_COMMON_ERROR_H
#define SERVER_COMMON_ERROR_H

#include "acre.h"

struct srv_error {
    int status;        /* HTTP status */
    const char *code;  /* snake_case, for programs; static */
    int retry_after_s; /* 0: no Retry-After header */
    char field[48];    /* of the request that is at fault; "" if none is */
    char text[512];    /* one line for people; about the field, if there is one */
};

/* Fills `err`, which may be NULL, and returns `code`. */
int error_set(struct acre_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Likewise: there is no memory. */
int error_set_no_memory(struct acre_err *err);

/* Puts text before what `err` already says; returns its code. */
int error_prefix(struct acre_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fills `error` and returns -1. */
int error_http(struct srv_error *error, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Likewise, 400: `field` is at fault, and the text says "expected this, found that". */
int error_field(struct srv_error *error, const char *code, const char *field, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/* Fills `error` from an engine's failure, and returns -1. */
int error_from_engine(struct srv_error *error, int status, const struct acre_err *err);

/* Likewise: there is no memory. */
int error_no_memory(struct srv_error *error);

/* Likewise, of a translation that took too long. */
int error_deadline(struct srv_error *error, uint64_t timeout_ms);

#endif
