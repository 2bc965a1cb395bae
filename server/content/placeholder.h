/* placeholder.h - what in a text is not for translators: %s, %1$d, {name}, {{x}}, $VAR, URLs,
 * e-mail addresses, paths, code, emoji, and signs that are no prose: < > | \ ~ ^ ` { }. No state,
 * any thread. */
#ifndef SERVER_CONTENT_PLACEHOLDER_H
#define SERVER_CONTENT_PLACEHOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the placeholder at `at`, 0 if there is none. Looks at most some hundred bytes ahead, but
 * along a URL or a path, and 2 KiB along a message that programs choose from. */
size_t placeholder_bytes(const char *text, size_t bytes, size_t at);

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

/* Whether a URL may go on with `character`, behind which the text goes on at `after`. */
bool placeholder_url_has(const char *text, size_t bytes, uint32_t character, size_t after);

/* Whether models have seldom met a sign, and make words of it. */
bool placeholder_is_sign(char c);

#endif
