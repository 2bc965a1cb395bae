/* markup.h - text inside of HTML and SVG: what must be escaped, and how wide it will be.
 *
 * What is written can be read as XML. No state, any thread.
 */
#ifndef SERVER_COMMON_MARKUP_H
#define SERVER_COMMON_MARKUP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The font that markup_width() measures; others of the list have the same widths. */
#define MARKUP_FONT "Helvetica, Arial, 'Liberation Sans', sans-serif"

/* Writes text, also as the value of an attribute. What is not UTF-8 or not for XML becomes U+FFFD:
 * the name of a model may be anything that a directory's may. */
void markup_text(FILE *out, const char *text, size_t bytes);

/* Writes ` name="value"`, but nothing if there is no value. */
void markup_attribute(FILE *out, const char *name, const char *value);

/* About how wide valid UTF-8 is in MARKUP_FONT, in thousandths of the font's size. */
int markup_width(const char *text, size_t bytes);

/* The first character of valid UTF-8, and how many bytes it has. */
size_t markup_character(const char *text, uint32_t *code);

#endif
