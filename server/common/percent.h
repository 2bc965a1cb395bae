/* percent.h - "%XX", a byte as URLs and forms write it. No state. */
#ifndef SERVER_COMMON_PERCENT_H
#define SERVER_COMMON_PERCENT_H

#include <stddef.h>

/* The byte that the first three of `bytes` characters stand for; -1 if they are not "%XX". */
int percent_byte(const char *text, size_t bytes);

/* Writes the text with "%XX" for every byte but letters, digits and "-._~" (RFC 3986, 2.3), and a
 * terminator: `encoded` has room for 3 * strlen(text) + 1 bytes. */
void percent_encode(const char *text, char *encoded);

#endif
