/* html_element.h - what is known of HTML's elements: which end a line, which have no content, which
 * are not for translators, and where one ends whose end tag was left out.
 *
 * In XML names say nothing (html_has_names()); attributes do, and <a/>. No state.
 */
#ifndef SERVER_CONTENT_HTML_ELEMENT_H
#define SERVER_CONTENT_HTML_ELEMENT_H

#include "content/html_token.h"

/* Of a start or end tag: whether its element ends a line. */
bool element_is_block(const struct html_reader *reader, const struct html_token *tag);

/* Whether it has no content, or none that is text. */
bool element_is_void(const struct html_reader *reader, const struct html_token *tag);

/* Whether it may begin or end within a word. */
bool element_is_styling(const struct html_reader *reader, const struct html_token *tag);

/* Whether it stands for something on the page between two texts. */
bool element_is_shown(const struct html_reader *reader, const struct html_token *tag);

/* translate="no", class="notranslate" */
bool element_says_no(const struct html_reader *reader, const struct html_token *start);

/* Whether it says so, or is code. */
bool element_is_frozen(const struct html_reader *reader, const struct html_token *start);

/* The reader goes behind the element that began with `start`; whether that has an end tag of its
 * own, and not only its parent. *has_text: whether there was text in it. */
bool element_skip(struct html_reader *reader, const struct html_token *start, bool *has_text);

#endif
