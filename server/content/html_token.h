/* html_token.h - HTML as a sequence of tokens: tags, text, and what is neither.
 *
 * The states are those of the HTML standard's tokenizer (13.2.5), told as ranges of the document,
 * so that every byte belongs to one token. There is no tree: it would drop, move and double what a
 * fragment or a careless page has, and all of that has to come out as it went in. Linear in the
 * bytes, no memory of its own. XML and the speech in subtitles are read the same way, except
 * where `enum html_syntax` tells them apart.
 */
#ifndef SERVER_CONTENT_HTML_TOKEN_H
#define SERVER_CONTENT_HTML_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum html_syntax {
    HTML_PAGE,   /* as browsers read it */
    HTML_XHTML,  /* XML whose names are those of HTML */
    HTML_XML,    /* names as they are written, none of them known; <a/> is empty */
    HTML_SUBRIP, /* speech: tags as in XML */
    HTML_WEBVTT  /* likewise, and <00:00:01.000> says when the next word is said */
};

/* Whether elements are called as in HTML: <p> is a block, <script> no text. Case is nothing then.
 */
bool html_has_names(enum html_syntax syntax);

/* Whether it is well-formed XML, or meant to be. */
bool html_is_xml(enum html_syntax syntax);

enum html_type {
    HTML_TEXT,  /* with character references */
    HTML_START, /* a start tag */
    HTML_END,
    HTML_CDATA, /* <![CDATA[text]]> of XML */
    HTML_OTHER  /* comments, declarations, scripts, styles, times, and what browsers drop */
};

enum { HTML_CDATA_BYTES = 9, HTML_CDATA_END_BYTES = 3 }; /* of what is around the text */

struct html_token {
    enum html_type type;
    size_t at, n;
    size_t name, n_name; /* of tags, in the document */
    bool is_closed;      /* <name/>, which browsers heed in XML and within <svg> and <math> alone */
};

struct html_reader {
    const char *text;
    size_t bytes, at;
    enum html_syntax syntax;
    size_t n_foreign;  /* <svg> and <math> that are open */
    size_t raw, n_raw; /* name of the element whose content has no tags; n_raw 0: none */
};

/* False at the end. */
bool html_next(struct html_reader *reader, struct html_token *token);

/* Compares without case, or with it where names are not HTML's. */
bool html_is_named(const struct html_reader *reader, const struct html_token *token,
                   const char *name);
bool html_has_name(const struct html_reader *reader, const struct html_token *token,
                   const char *name, size_t bytes);

/* The next attribute of a start tag, from *at on, which begins as 0. Value without its quotes. */
struct html_attribute {
    size_t name, n_name;
    size_t value, n_value;
    char quote; /* '"', '\'' or 0 */
};
bool html_attribute(const struct html_reader *reader, const struct html_token *token, size_t *at,
                    struct html_attribute *attribute);

#endif
