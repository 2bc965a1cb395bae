/* address.h - URLs, e-mail addresses, hosts, and the names and paths of files. No state, any
 * thread.
 */
#ifndef SERVER_CONTENT_ADDRESS_H
#define SERVER_CONTENT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the one at `at`, where a word begins with a letter or digit; 0 if there is none. */
size_t address_bytes(const char *text, size_t bytes, size_t at);

/* Likewise of a host or file that only its name tells: "example.com", "setup.exe". */
size_t address_name_bytes(const char *text, size_t bytes, size_t at);

/* Likewise of a path that begins with / ~ . or two backslashes. */
size_t address_path_bytes(const char *text, size_t bytes, size_t at);

/* Whether a URL may go on with `character`, behind which the text goes on at `after`. */
bool address_url_has(const char *text, size_t bytes, uint32_t character, size_t after);

#endif
