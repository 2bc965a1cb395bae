/* code.h - what people copy and never translate: long numbers and keys, and the names of programs.
 * A model loses a digit of them now and then. No state, any thread.
 */
#ifndef SERVER_CONTENT_CODE_H
#define SERVER_CONTENT_CODE_H

#include <stddef.h>

/* Bytes of the one at `at`, where a word begins with a letter or digit, of a colour at a '#', or of
 * a pattern at a '*' or '-': 4111 1111 1111 1111, 0x80070005, 2001:db8:0:1::1,
 * 550e8400-e29b-41d4-a716-446655440000, max_connections, #FF00AA, *.dsc, --force-*. 0: there is
 * none. */
size_t code_bytes(const char *text, size_t bytes, size_t at);

#endif
