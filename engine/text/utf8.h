/* utf8.h - stepping through UTF-8 by characters: forwards, backwards, over blanks. Functions
 * without state; places in a text are byte offsets. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* The character at *at < bytes, moving *at behind it; negative for a part that is no UTF-8, which
 * is then as long as one U+FFFD should stand for. */
int32_t utf8_next(const char *text, size_t bytes, size_t *at);

/* Where the character that holds byte `at` of valid UTF-8 begins. */
size_t utf8_begin(const char *text, size_t at);

/* The character that ends at `at` > 0. */
int32_t utf8_before(const char *text, size_t at);

/* What may stand between sentences: whitespace, and the invisible U+FEFF and U+200B. */
bool utf8_is_blank(int32_t character);

/* Where [begin, end) begins, or ends, without the blanks there. */
size_t utf8_skip_blanks(const char *text, size_t begin, size_t end);
size_t utf8_drop_blanks(const char *text, size_t begin, size_t end);

/* Where the first part that is no UTF-8 begins; `bytes` if there is none. */
size_t utf8_check(const char *text, size_t bytes);

/* ACRE_EINPUT where a text is no UTF-8, or has U+0000, at which C's strings end; the message begins
 * with `name`. */
int utf8_check_text(const char *text, size_t bytes, const char *name, struct acre_err *err);

#endif
