/* The text of a page. Happy path: characters join the line that is being written, with one blank
 * between words; placeholders and references to no character become masks; what stands between
 * words becomes points. */
#include "content/html_text.h"

#include <ctype.h>
#include <string.h>

#include "common/unicode.h"
#include "content/address.h"
#include "content/html_element.h"
#include "content/placeholder.h"
#include "content/reference.h"
#include "content/subtitle.h"
#include "content/unread.h"

/* ---- Lines ----------------------------------------------------------------------------------- */

bool html_line_is_empty(const struct html *h)
{
    return h->prose->text_bytes == h->line;
}

static bool has_line_end(const char *text, size_t n)
{
    return memchr(text, '\n', n) || memchr(text, '\r', n);
}

void html_end_line(struct html *h)
{
    if (h->n_blanks > 0)
        prose_add_mark(h->prose, PROSE_POINT, h->blanks, h->n_blanks);
    h->n_blanks = 0;
    h->masks.n = 0;
    if (html_line_is_empty(h))
        return;
    prose_add_text(h->prose, "\n", 1);
    h->line = h->prose->text_bytes;
}

/* Whether ends of lines are the text's: in XML, and in sections of it that are no pages. */
static bool has_lines(const struct html *h)
{
    return h->markup->has_lines && (h->reader.syntax == HTML_XML || h->is_plain);
}

/* Blanks become one, or stay what they were where browsers show none, or lines end. */
void html_place_blanks(struct html *h)
{
    const struct prose *p = h->prose;
    const bool ends_line = has_line_end(h->reader.text + h->blanks, h->n_blanks);

    if (h->n_blanks == 0)
        return;
    if (ends_line && has_lines(h)) {
        html_end_line(h);
    } else if (html_line_is_empty(h) || p->text[p->text_bytes - 1] == ' ') {
        prose_add_mark(h->prose, PROSE_POINT, h->blanks, h->n_blanks);
    } else {
        if (ends_line && h->has_breaks)
            prose_add_break(h->prose);
        prose_add_text(h->prose, " ", 1);
    }
    h->n_blanks = 0;
}

void html_add_point(struct html *h, size_t at, size_t n)
{
    html_place_blanks(h);
    prose_add_mark(h->prose, PROSE_POINT, at, n);
}

/* Before what ends a clause it takes the blank along, so that no word stands apart from that. */
static void add_sign(struct html *h, size_t at, size_t n)
{
    const char *text = h->reader.text;

    if (h->n_blanks == 1 && text[at - 1] == ' ' && at + n < h->reader.bytes &&
        memchr(".,;:!?", text[at + n], 6)) {
        prose_add_mark(h->prose, PROSE_POINT, h->blanks, h->n_blanks);
        h->n_blanks = 0;
    }
    html_add_point(h, at, n);
}

/* What subtitles have between words counts for all that follows: none of it may pass another. */
void html_add_code(struct html *h, size_t at, size_t n)
{
    html_place_blanks(h);
    prose_add_mark(h->prose, PROSE_TAG, at, n);
}

void html_add_mask(struct html *h, size_t at, size_t n)
{
    html_place_blanks(h);
    prose_add_mask(h->prose, &h->masks, at, n);
}

static void add_placeholder(struct html *h, enum placeholder_kind kind, size_t at, size_t n)
{
    switch (kind) {
    case PLACEHOLDER_NAME:
        html_add_mask(h, at, n);
        break;
    case PLACEHOLDER_SEPARATOR:
        if (!h->has_breaks) /* a speech is one paragraph */
            html_end_line(h);
        html_add_point(h, at, n);
        break;
    case PLACEHOLDER_SIGN:
        add_sign(h, at, n);
        break;
    }
}

static void add_blank(struct html *h, size_t at, size_t n)
{
    if (h->n_blanks == 0)
        h->blanks = at;
    h->n_blanks = at + n - h->blanks;
}

static void add_characters(struct html *h, const char *text, size_t n)
{
    html_place_blanks(h);
    prose_add_text(h->prose, text, n);
}

static enum reference read_reference(const struct html_reader *r, size_t at, size_t end, size_t *n,
                                     char utf8[5])
{
    return reference_read(r->text + at, end - at, html_is_xml(r->syntax), n, utf8);
}

/* The bytes of a character reference with its semicolon, 1 of anything else; whether a URL may go
 * on with what it stands for: with &amp;, not with &nbsp; or &gt;. */
static bool is_of_url(const struct html_reader *r, size_t end, size_t at, size_t *n)
{
    const char *text = r->text;
    size_t first = 0;
    char utf8[5];

    *n = 1;
    if (text[at] != '&' || read_reference(r, at, end, n, utf8) != REFERENCE_KNOWN ||
        text[at + *n - 1] != ';')
        return true;
    return address_url_has(text, end, unicode_next(utf8, strlen(utf8), &first), at + *n);
}

/* Of what begins with a brace; tags may be in it, if they are pairs that end no line:
 * "{n, plural, one {<b>#</b> dog} other {# dogs}}". 0: there is no such thing. */
static size_t braces_at(const struct html *h, size_t at)
{
    const size_t n = placeholder_bytes(h->reader.text, h->reader.bytes, at, NULL);
    struct html_reader reader = h->reader;
    struct html_token token = {.type = HTML_OTHER};
    size_t depth = 0;

    reader.at = at;
    reader.bytes = at + n;
    while (html_next(&reader, &token)) {
        const bool is_tag = token.type == HTML_START || token.type == HTML_END;

        if (!is_tag || token.is_closed || element_is_void(&reader, &token))
            continue;
        if (element_is_block(&reader, &token) || (token.type == HTML_END && depth == 0))
            return 0;
        depth += token.type == HTML_START ? 1 : (size_t)-1;
    }
    return depth == 0 && token.type == HTML_TEXT ? n : 0;
}

/* Like placeholder_bytes(), but that references are read in addresses and Windows' paths, which
 * begin with a letter, a digit or a backslash. None goes beyond *url_end, which is found once for
 * all that begin before it. */
static size_t placeholder_at(const struct html *h, size_t at, size_t end, size_t *url_end)
{
    const char *text = h->reader.text;
    size_t behind = at, bytes, n;

    if (text[at] == '{' && (n = braces_at(h, at)) > 0)
        return n;
    if (h->is_plain || (!isalnum((unsigned char)text[at]) && text[at] != '\\'))
        return placeholder_bytes(text, end, at, h->known);
    if (*url_end <= at)
        for (*url_end = at; *url_end < end && is_of_url(&h->reader, end, *url_end, &n);)
            *url_end += n;
    for (bytes = placeholder_bytes(text, *url_end, at, h->known); behind < at + bytes; behind += n)
        is_of_url(&h->reader, end, behind, &n);
    return behind - at; /* whole references */
}

/* Of a sign that is a reference. */
static enum placeholder_kind sign_kind(const struct html *h, const char *sign, size_t at, size_t n)
{
    const struct html_reader *r = &h->reader;

    return placeholder_sign_kind(sign, 1, at > 0 ? r->text[at - 1] : '\0',
                                 at + n < r->bytes ? r->text[at + n] : '\0');
}

/* One character reference; returns its bytes. */
static size_t add_reference(struct html *h, size_t at, size_t end)
{
    char utf8[5];
    size_t n = 1, first = 0;

    switch (read_reference(&h->reader, at, end, &n, utf8)) {
    case REFERENCE_KNOWN:
        if (strchr(" \t\n\f\r", utf8[0]))
            add_blank(h, at, n);
        else if (unread_character(unicode_next(utf8, strlen(utf8), &first), h->known))
            html_add_mask(h, at, n);
        else if (placeholder_is_sign(utf8[0]))
            add_placeholder(h, sign_kind(h, utf8, at, n), at, n);
        else
            add_characters(h, utf8, strlen(utf8));
        break;
    case REFERENCE_UNKNOWN:
        html_add_mask(h, at, n);
        break;
    case REFERENCE_NONE:
        add_characters(h, "&", 1);
        break;
    }
    return n;
}

void html_add_text(struct html *h, const struct html_token *token)
{
    const char *text = h->reader.text;
    const size_t end = token->at + token->n;
    size_t at, url_end = token->at, n, next;

    for (at = token->at; at < end; at += n) {
        n = h->has_breaks ? subtitle_code_bytes(text + at, end - at) : 0;
        if (n > 0) {
            html_add_code(h, at, n);
            continue;
        }
        n = unread_apostrophe(text, end, at, h->known);
        if (n > 0) {
            add_characters(h, "'", 1);
            continue;
        }
        n = placeholder_at(h, at, end, &url_end);
        if (n > 0) {
            add_placeholder(h, placeholder_kind(text, h->reader.bytes, at, n), at, n);
        } else if (h->n_blanks == 0 && (n = prose_extend_mask(h->prose, at, end)) > 0) {
            continue;
        } else if (text[at] == '&' && !h->is_plain) {
            n = add_reference(h, at, end);
        } else if (strchr(" \t\n\f\r", text[at])) {
            add_blank(h, at, n = 1);
        } else {
            next = at;
            unicode_next(text, end, &next);
            n = next - at;
            add_characters(h, text + at, n);
            if (strchr(".!?", text[at]) && at + 1 < end && text[at + 1] == ' ')
                h->masks.n = 0;
        }
    }
    if (at > end) /* a placeholder with tags */
        h->reader.at = at;
}
