/* placeholder.h - what in a text is not for translators: %s, %1$d, {name}, {{x}}, $VAR, URLs,
 * e-mail addresses, emoji. No state, any thread. */
#ifndef SERVER_CONTENT_PLACEHOLDER_H
#define SERVER_CONTENT_PLACEHOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the placeholder at `at`, 0 if there is none. Looks at most some hundred bytes ahead, but
 * along a URL. */
size_t placeholder_bytes(const char *text, size_t bytes, size_t at);

/* Whether a URL may go on with `character`, behind which the text goes on at `after`. */
bool placeholder_url_has(const char *text, size_t bytes, uint32_t character, size_t after);

/* Whether a placeholder is emoji, which have no place in the grammar of a sentence. */
bool placeholder_is_emoji(const char *text, size_t bytes);

#endif
