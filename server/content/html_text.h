/* html_text.h - text between tags, as it becomes lines of prose. For html.c.
 */
#ifndef SERVER_CONTENT_HTML_TEXT_H
#define SERVER_CONTENT_HTML_TEXT_H

#include "content/html_pairs.h"
#include "content/html_token.h"
#include "content/prose.h"

/* A document that is being read. */
struct html {
    struct html_reader reader;
    struct prose *prose;
    const struct prose_markup *markup;
    const struct known *known;
    struct prose_masks masks;
    size_t line;             /* where it begins in the text */
    size_t blanks, n_blanks; /* read and not yet placed, in the document */
    struct html_pairs pairs;
    bool has_breaks; /* ends of lines are the document's, as in subtitles */
    bool is_plain;   /* "&" begins no reference */
};

bool html_line_is_empty(const struct html *h);
void html_end_line(struct html *h);
void html_place_blanks(struct html *h); /* before what is no blank */

/* The n bytes at `at` of the document stand between words; */
void html_add_point(struct html *h, size_t at, size_t n);
/* and nothing may pass them; */
void html_add_code(struct html *h, size_t at, size_t n);
/* or are a word that is not translated. */
void html_add_mask(struct html *h, size_t at, size_t n);

/* Of a token of text. Where a placeholder has tags the reader goes on behind it. */
void html_add_text(struct html *h, const struct html_token *token);

#endif
