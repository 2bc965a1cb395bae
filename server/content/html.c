/* HTML, and subtitles, as prose. Happy path: tokens come one by one; text joins the line that is
 * being written, inline tags become marks in it, and a block's tag ends it. Lines are what is
 * between blocks, each a line of the text; white space in them is collapsed as browsers show it.
 *
 * What is not for translators (<pre>, translate="no", ...) is skipped as a whole.
 * Failure modes: no memory (a flag; what follows is cheap), more than 2 GiB. There is no document
 * that is not read: tags without partners are marks that keep their order. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"
#include "common/unicode.h"
#include "content/html_element.h"
#include "content/html_text.h"
#include "content/html_token.h"
#include "content/placeholder.h"
#include "content/prose.h"
#include "content/reference.h"
#include "content/subtitle.h"
#include "content/unread.h"

/* ---- Tags between words ---------------------------------------------------------------------- */

static bool begins_word(const struct html *h, size_t at)
{
    const char *text = h->reader.text;

    if (at + 1 < h->reader.bytes && text[at] == '<')
        at++;
    return at < h->reader.bytes && (isalnum((unsigned char)text[at]) || (text[at] & 0x80));
}

/* Whether a tag has words on both sides, which would be one without it. */
static bool parts_words(const struct html *h, const struct html_token *token)
{
    const struct prose *p = h->prose;
    const char last = html_line_is_empty(h) ? ' ' : p->text[p->text_bytes - 1];

    return h->n_blanks == 0 &&
           (isalnum((unsigned char)last) || last & 0x80 || strchr(".:!?", last)) &&
           begins_word(h, token->at + token->n);
}

/* Whether it begins where another element has just ended: <a>Home</a><a>Help</a>. */
static bool is_sibling(const struct html *h, const struct html_token *token)
{
    const struct prose *p = h->prose;
    const struct prose_mark *last = p->n_marks > 0 ? &p->marks[p->n_marks - 1] : NULL;
    struct html_token end = {.n_name = 0};

    if (!last || last->kind != PROSE_CLOSE || last->raw + last->n_raw != token->at)
        return false;
    end.name = last->raw + 2;
    while (isalnum((unsigned char)h->reader.text[end.name + end.n_name]))
        end.n_name++;
    return !element_is_styling(&h->reader, token) && !element_is_styling(&h->reader, &end);
}

/* ---- Attributes ------------------------------------------------------------------------------ */

/* Values have no marks: those with something in them that is to be kept are left as they are. */
static bool is_prose(const struct html *h, const struct html_attribute *a)
{
    const char *value = h->reader.text + a->value;
    char utf8[5];
    size_t n;

    if (unicode_is_blank(value, a->n_value))
        return false;
    for (size_t i = 0; i < a->n_value; i++)
        if (placeholder_bytes(value, a->n_value, i, h->known) > 0 ||
            (value[i] == '&' && reference_read(value + i, a->n_value - i, h->prose->is_xml, &n,
                                               utf8) == REFERENCE_UNKNOWN))
            return false;
    return true;
}

static void note_values(struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"alt", "title", "placeholder"};
    struct prose *p = h->prose;
    struct html_attribute a;
    size_t at = 0;

    while (html_attribute(&h->reader, token, &at, &a))
        for (size_t i = 0; i < 3; i++) {
            if (a.n_name != strlen(names[i]) || !a.quote ||
                strncasecmp(h->reader.text + a.name, names[i], a.n_name) != 0 || !is_prose(h, &a))
                continue;
            prose_add_value(p, a.value, a.n_value);
        }
}

/* One character or reference; returns its bytes. */
static size_t add_of_value(struct html *h, const char *text, size_t bytes, size_t at)
{
    struct prose *p = h->prose;
    char utf8[5];
    size_t n;

    if (text[at] == '&' &&
        reference_read(text + at, bytes - at, p->is_xml, &n, utf8) == REFERENCE_KNOWN) {
        prose_add_text(p, utf8, strlen(utf8));
        return n;
    }
    n = unread_apostrophe(text, bytes, at, h->known);
    if (n > 0) {
        prose_add_text(p, "'", 1);
        return n;
    }
    prose_add_text(p, strchr("\t\n\f\r", text[at]) ? " " : text + at, 1);
    return 1;
}

/* Their lines, behind those of the body. */
static void add_values(struct html *h)
{
    struct prose *p = h->prose;

    p->body_bytes = p->text_bytes;
    for (size_t v = 0; v < p->n_values && !p->no_memory; v++) {
        struct prose_value *value = &p->values[v];

        prose_add_text(p, "\n", 1);
        value->at = (uint32_t)p->text_bytes;
        for (size_t i = 0; i < value->n_raw;)
            i += add_of_value(h, p->document + value->raw, value->n_raw, i);
        value->n = (uint32_t)(p->text_bytes - value->at);
    }
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Whether words that came to stand behind it would be part of it: it goes on to the end of the
 * document. */
static bool is_cut(const struct html *h)
{
    return h->reader.at == h->reader.bytes && h->reader.text[h->reader.bytes - 1] != '>';
}

static void add_frozen(struct html *h, const struct html_token *token)
{
    bool has_text;
    const bool is_ended = element_skip(&h->reader, token, &has_text);
    const size_t n = h->reader.at - token->at;

    if (element_is_block(&h->reader, token) || !is_ended || is_cut(h)) {
        html_end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, n);
    } else if (has_text && !html_is_named(&h->reader, token, "svg")) {
        html_add_mask(h, token->at, n);
    } else {
        html_add_point(h, token->at, n);
    }
}

static bool is_frozen(const struct html *h, const struct html_token *token)
{
    const struct prose_name *ignored = h->markup->ignored;

    for (size_t i = 0; i < h->markup->n_ignored; i++)
        if (html_has_name(&h->reader, token, ignored[i].text, ignored[i].bytes))
            return true;
    return element_is_frozen(&h->reader, token);
}

static void add_start(struct html *h, const struct html_token *token)
{
    if (h->markup->with_attributes && !element_says_no(&h->reader, token))
        note_values(h, token);
    if (!element_is_void(&h->reader, token) && is_frozen(h, token)) {
        add_frozen(h, token);
    } else if (element_is_block(&h->reader, token)) {
        html_end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, token->n);
    } else if (element_is_void(&h->reader, token)) {
        if (element_is_shown(&h->reader, token) && parts_words(h, token))
            html_end_line(h);
        html_add_point(h, token->at, token->n);
    } else {
        if (is_sibling(h, token) && parts_words(h, token))
            html_end_line(h);
        html_place_blanks(h);
        html_pairs_start(&h->pairs, &h->reader, token);
    }
}

static void add_end(struct html *h, const struct html_token *token)
{
    if (element_is_block(&h->reader, token)) {
        html_end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, token->n);
    } else if (element_is_void(&h->reader, token)) {
        html_add_point(h, token->at, token->n);
    } else {
        html_place_blanks(h);
        html_pairs_end(&h->pairs, &h->reader, token);
    }
}

static void add_token(struct html *h, const struct html_token *token);

/* ---- Sections of XML ------------------------------------------------------------------------- */

/* Whether text without markup of its own is that of a page, as feeds and lists of strings have it:
 * it has tags, or what only references would be. */
static bool is_page(const struct html_reader *section)
{
    struct html_reader reader = *section;
    struct html_token token;
    char utf8[5];
    size_t n;

    while (html_next(&reader, &token)) {
        if (token.type == HTML_START || token.type == HTML_END)
            return true;
        for (size_t at = token.at; token.type == HTML_TEXT && at < token.at + token.n; at += n) {
            n = 1;
            if (reader.text[at] == '&' &&
                reference_read(reader.text + at, token.at + token.n - at,
                               html_is_xml(reader.syntax), &n, utf8) != REFERENCE_NONE &&
                reader.text[at + n - 1] == ';')
                return true;
        }
    }
    return false;
}

/* Its text is in lines of its own, so that no words go in or out. */
static void add_section(struct html *h, const struct html_token *token)
{
    const struct html_reader outer = h->reader;
    struct html_token text = {.type = HTML_TEXT,
                              .at = token->at + HTML_CDATA_BYTES,
                              .n = token->n - HTML_CDATA_BYTES - HTML_CDATA_END_BYTES};
    const size_t n_outer = html_pairs_enter(&h->pairs);

    h->reader = (struct html_reader){
        .text = outer.text, .bytes = text.at + text.n, .at = text.at, .syntax = HTML_PAGE};
    h->is_plain = !is_page(&h->reader);
    html_end_line(h);
    prose_add_mark(h->prose, h->is_plain ? PROSE_PLAIN : PROSE_SECTION, token->at,
                   HTML_CDATA_BYTES);
    if (h->is_plain)
        html_add_text(h, &text);
    while (!h->is_plain && !h->prose->no_memory && html_next(&h->reader, &text))
        add_token(h, &text);
    html_end_line(h);
    prose_add_mark(h->prose, PROSE_SECTION_END, h->reader.bytes, HTML_CDATA_END_BYTES);
    html_pairs_leave(&h->pairs, n_outer);
    h->is_plain = false;
    h->reader = outer;
}

static void add_token(struct html *h, const struct html_token *token)
{
    switch (token->type) {
    case HTML_TEXT:
        html_add_text(h, token);
        break;
    case HTML_START:
        add_start(h, token);
        break;
    case HTML_END:
        add_end(h, token);
        break;
    case HTML_CDATA:
        add_section(h, token);
        break;
    case HTML_OTHER:
        if (is_cut(h))
            html_end_line(h);
        if (h->has_breaks)
            html_add_code(h, token->at, token->n);
        else
            html_add_point(h, token->at, token->n);
        break;
    }
}

/* All was read; false: it is to be read again, with other masks. */
static bool end_text(struct html *h)
{
    html_end_line(h);
    html_pairs_fini(&h->pairs);
    h->pairs = (struct html_pairs){.prose = h->prose};
    h->line = 0;
    return !prose_masks_fail(h->prose, &h->masks);
}

static int finish(struct html *h, struct acre_err *err)
{
    add_values(h);
    return h->prose->no_memory ? error_set_no_memory(err) : 0;
}

int prose_read_markup(const char *document, size_t bytes, const struct prose_markup *markup,
                      const struct known *known, struct prose *prose, struct acre_err *err)
{
    const struct html_reader reader = {.text = document, .bytes = bytes, .syntax = markup->syntax};
    struct html h = {.prose = prose, .pairs = {.prose = prose}, .markup = markup, .known = known};
    struct html_token token;

    *prose = (struct prose){.document = document,
                            .document_bytes = bytes,
                            .is_markup = true,
                            .is_xml = markup->syntax != HTML_PAGE};
    if (bytes > UINT32_MAX / 2)
        return error_set(err, ACRE_EINPUT, "expected at most 2 GiB of markup, found more");
    do {
        h.reader = reader;
        while (!prose->no_memory && html_next(&h.reader, &token))
            add_token(&h, &token);
    } while (!end_text(&h));
    return finish(&h, err);
}

/* Speeches may have tags, <i> or <v Ann>, which are read as those of XML. */
static void read_speeches(struct html *h)
{
    const struct prose *p = h->prose;
    struct subtitle_reader speeches = {
        .text = p->document, .bytes = p->document_bytes, .is_vtt = h->reader.syntax == HTML_WEBVTT};
    struct html_token token;
    size_t at = 0, begin, end;

    for (; !p->no_memory && subtitle_next(&speeches, &begin, &end); at = end) {
        prose_add_mark(h->prose, PROSE_POINT, at, begin - at);
        h->reader.at = begin;
        h->reader.bytes = end;
        while (!p->no_memory && html_next(&h->reader, &token))
            add_token(h, &token);
        html_end_line(h);
    }
    prose_add_mark(h->prose, PROSE_POINT, at, p->document_bytes - at);
}

int prose_read_subtitles(const char *document, size_t bytes, bool is_vtt, const struct known *known,
                         struct prose *prose, struct acre_err *err)
{
    static const struct prose_markup markup = {.with_attributes = false};
    struct html h = {.reader = {.text = document, .syntax = is_vtt ? HTML_WEBVTT : HTML_SUBRIP},
                     .prose = prose,
                     .pairs = {.prose = prose},
                     .markup = &markup,
                     .known = known,
                     .has_breaks = true,
                     .is_plain = !is_vtt};

    *prose = (struct prose){.document = document,
                            .document_bytes = bytes,
                            .is_markup = true,
                            .is_plain = !is_vtt,
                            .line_end = subtitle_line_end(document, bytes)};
    if (bytes > UINT32_MAX / 2)
        return error_set(err, ACRE_EINPUT, "expected at most 2 GiB of subtitles, found more");
    do {
        read_speeches(&h);
    } while (!end_text(&h));
    return finish(&h, err);
}
