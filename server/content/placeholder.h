/* placeholder.h - what in a text is not for translators: %s, %1$d, {name}, {{x}}, $VAR, addresses
 * and paths (address.h), codes (code.h), what the model cannot read (unread.h), emoji, and signs
 * that are no prose: < > | \ ~ ^ ` { } * #. No state, any thread. */
#ifndef SERVER_CONTENT_PLACEHOLDER_H
#define SERVER_CONTENT_PLACEHOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "content/known.h"

/* Bytes of the placeholder at `at`, 0 if there is none. Looks at most some hundred bytes ahead, but
 * along a URL or a path, and 2 KiB along a message that programs choose from. See known.h. */
size_t placeholder_bytes(const char *text, size_t bytes, size_t at, const struct known *known);

enum placeholder_kind {
    PLACEHOLDER_NAME,     /* has a place in the grammar of a sentence */
    PLACEHOLDER_SIGN,     /* has none: emoji, too */
    PLACEHOLDER_SEPARATOR /* what stands on both sides are sentences: "Home | Help", "One.\nTwo" */
};

/* Of the placeholder of n bytes at `at`. */
enum placeholder_kind placeholder_kind(const char *text, size_t bytes, size_t at, size_t n);

/* Of signs between two characters; '\0': the end of the text. Separators are between words that
 * they touch, and where menus and lists have them between blanks. */
enum placeholder_kind placeholder_sign_kind(const char *signs, size_t n, char before, char after);

/* Whether models have seldom met a sign, and make words of it. */
bool placeholder_is_sign(char c);

#endif
