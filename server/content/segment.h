/* segment.h - the pieces that terms and texts are compared by: words, blanks, and characters that
 * are neither. A term is found where whole segments are its own. No state, any thread.
 */
#ifndef SERVER_CONTENT_SEGMENT_H
#define SERVER_CONTENT_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

enum segment_kind {
    SEGMENT_WORD,  /* letters and digits; a character of Chinese, Japanese, Thai and their like
                    * alone, as such text has no blanks */
    SEGMENT_BLANK, /* white space within a line, all of it alike */
    SEGMENT_OTHER, /* one character */
    SEGMENT_BREAK  /* the end of a line, which no term goes across */
};

struct segment {
    uint32_t begin, end;
    enum segment_kind kind;
};

/* The segment at *at, which goes behind it; `*at` is before the end of the text. */
struct segment segment_next(const char *text, size_t bytes, size_t *at);

#endif
