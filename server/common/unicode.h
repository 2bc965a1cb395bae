/* unicode.h - the little the server must know about UTF-8: is it valid, how long, is it blank.
 *
 * Valid as in RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF. No state.
 */
#ifndef SERVER_COMMON_UNICODE_H
#define SERVER_COMMON_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The byte order mark, which some programs put before a text. */
#define UNICODE_MARK "\xEF\xBB\xBF"

/* Its bytes if a text begins with it, or 0. */
size_t unicode_mark_bytes(const char *text, size_t bytes);

/* Bytes of the longest valid prefix; `bytes` if all of it is valid. */
size_t unicode_valid_bytes(const char *text, size_t bytes);

/* The character at *at, which goes behind it; U+FFFD and one byte where it is not valid. */
uint32_t unicode_next(const char *text, size_t bytes, size_t *at);

/* Where the character before a place begins; 0 if none is. Goes back four bytes at most. */
size_t unicode_before(const char *text, size_t at);

/* Writes a character and a terminator; returns its bytes. */
size_t unicode_encode(uint32_t code, char utf8[5]);

/* Characters (code points) in valid UTF-8. */
size_t unicode_chars(const char *text, size_t bytes);

/* Whether valid UTF-8 has nothing but white space in it; true for no text. */
bool unicode_is_blank(const char *text, size_t bytes);

/* Replaces whatever is not valid UTF-8 by '?'. */
void unicode_scrub(char *text);

#endif
