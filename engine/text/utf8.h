/* utf8.h - stepping through UTF-8 by characters. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* The character at *at < bytes, moving *at behind it; negative for a part that is no UTF-8, which
 * is then as long as one U+FFFD should stand for. */
int32_t utf8_next(const char *text, size_t bytes, size_t *at);

/* Where the character that holds byte `at` of valid UTF-8 begins. */
size_t utf8_begin(const char *text, size_t at);

/* Where the first part that is no UTF-8 begins; `bytes` if there is none. */
size_t utf8_check(const char *text, size_t bytes);

/* ACRE_EINPUT where a text is no UTF-8, or has U+0000, at which C's strings end; the message begins
 * with `name`. */
int utf8_check_text(const char *text, size_t bytes, const char *name, struct acre_err *err);

#endif
