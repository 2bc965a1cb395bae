/* reference.h - character references: what "&eacute;", "&#233;" and "&#xE9;" stand for.
 *
 * The names of HTML 4 are known; the 2,000 that HTML 5 added for mathematics are not, nor are those
 * that a document of XML declares, and have to be kept as they are. No state, any thread.
 */
#ifndef SERVER_CONTENT_REFERENCE_H
#define SERVER_CONTENT_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

enum reference { REFERENCE_NONE, REFERENCE_KNOWN, REFERENCE_UNKNOWN };

/* What begins with the "&" at text[0]: *n are its bytes. Of a known one `utf8` is the character,
 * NUL-terminated. In XML names may have dashes, dots and any letters, and end with a semicolon. */
enum reference reference_read(const char *text, size_t bytes, bool is_xml, size_t *n, char utf8[5]);

#endif
