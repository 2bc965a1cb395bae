/* subtitle.h - which lines of a subtitle file are speech: SubRip (.srt) and WebVTT (.vtt).
 *
 * A cue is a line of times and what follows it: in SubRip up to the next cue, whatever blank lines
 * it has, as players read it; in WebVTT up to an empty line. A speech is lines of a cue that belong
 * together: "- Yes.", on a line of its own, begins another. All else is not for translators. Linear
 * in the bytes, no memory of its own; any thread.
 */
#ifndef SERVER_CONTENT_SUBTITLE_H
#define SERVER_CONTENT_SUBTITLE_H

#include <stdbool.h>
#include <stddef.h>

struct subtitle_reader {
    const char *text;
    size_t bytes, at;
    bool is_vtt;
    bool in_cue;
};

/* The next speech, from *begin to *end, without the end of its last line. False at the end. */
bool subtitle_next(struct subtitle_reader *reader, size_t *begin, size_t *end);

/* Of the code that text[bytes] begins with, which tells players how or where to show what follows:
 * "{\i1}", "{\an8}"; 0: there is none. Looks no further than to the next brace. */
size_t subtitle_code_bytes(const char *text, size_t bytes);

/* Of what a line of speech begins with before its words: codes, a dash, blanks. */
size_t subtitle_lead_bytes(const char *text, size_t bytes);

/* What the first line ends with: "\r\n", "\r" or "\n", which it is without an end, too. */
const char *subtitle_line_end(const char *text, size_t bytes);

/* Whether there is any line of times. */
bool subtitle_is(const char *text, size_t bytes);

#endif
