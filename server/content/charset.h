/* charset.h - the bytes of a file as UTF-8.
 *
 * UTF-8 is taken with its mark or without, UTF-16 with its mark. No other encoding can be told from
 * its bytes: those are refused, and where and which byte is said. No state, any thread.
 */
#ifndef SERVER_CONTENT_CHARSET_H
#define SERVER_CONTENT_CHARSET_H

#include <stdbool.h>
#include <stddef.h>

struct charset_text {
    char *data; /* owned; valid UTF-8 without its mark, NUL-terminated and without other NULs */
    size_t bytes;
    bool has_mark;
};

enum { CHARSET_WHY_BYTES = 160 };

/* -1: it is no text, and `why` says why; or there is no memory, and `why` is "". */
int charset_decode(const char *data, size_t bytes, struct charset_text *text,
                   char why[CHARSET_WHY_BYTES]);

/* Whether a page, all of whose characters are ASCII, has to stay so: it says another encoding than
 * UTF-8; or none, which is UTF-8 in XML alone. NUL-terminated. */
bool charset_keeps_ascii(const char *text, size_t bytes, bool is_xml);

/* Takes away another encoding than UTF-8 that an XML declaration names: to parsers it would belie
 * the mark that the text has. */
void charset_drop_declared(struct charset_text *text);

/* Every other character as a reference, "&#228;"; in XML a CDATA section ends before and begins
 * again behind, as in there it would be none. Owned, NULL is no memory. NUL-terminated. */
char *charset_to_references(const char *text, size_t bytes, bool is_xml, size_t *out_bytes);

#endif
