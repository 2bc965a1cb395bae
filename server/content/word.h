/* word.h - the pieces that terms and texts are compared by: words, blanks, and characters that are
 * neither. A term is found where whole pieces are its own. No state, any thread.
 */
#ifndef SERVER_CONTENT_WORD_H
#define SERVER_CONTENT_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum word_kind {
    WORD_LETTERS, /* letters and digits; a character of Chinese, Japanese, Thai and their like
                   * alone, as such text has no blanks */
    WORD_BLANK,   /* white space within a line, all of it alike */
    WORD_OTHER,   /* one character */
    WORD_BREAK    /* the end of a line, which no term goes across */
};

struct word {
    uint32_t begin, end;
    enum word_kind kind;
};

/* The piece at *at, which goes behind it; `*at` is before the end of the text. */
struct word word_next(const char *text, size_t bytes, size_t *at);

/* Letters, digits and what belongs to them. */
bool word_has(uint32_t character);

/* Likewise, of scripts that put blanks between words, and few endings to a name. */
bool word_is_spaced(uint32_t character);

#endif
