/* error.h - filling struct acre_err.
 *
 * err_set() returns the code it was given, so that a failure reads `return err_set(err, ...)`.
 * Callers that know more context put it in front while unwinding: err_prefix(err, "%s: ", path).
 * Every function accepts err == NULL. Any thread may call them, for an err of its own.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "acre.h"

int err_set(struct acre_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts text in front of err->text; keeps the end if both do not fit. */
void err_prefix(struct acre_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
