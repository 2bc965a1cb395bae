/* HTML, and subtitles, as prose. Happy path: tokens come one by one; text joins the line that is
 * being written, inline tags become marks in it, and a block's tag ends it. Lines are what is
 * between blocks, each a line of the text; white space in them is collapsed as browsers show it.
 *
 * What is not for translators (<pre>, translate="no", ...) is skipped as a whole: skip_element().
 * Failure modes: no memory (a flag; what follows is cheap), more than 2 GiB. There is no document
 * that is not read: tags without partners are marks that keep their order. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"
#include "common/unicode.h"
#include "content/html_token.h"
#include "content/placeholder.h"
#include "content/prose.h"
#include "content/reference.h"
#include "content/subtitle.h"

enum { BUCKETS = 256, MAX_SEARCHED = 256 };

struct open_element {
    uint32_t mark;
    uint8_t bucket;
};

struct html {
    struct html_reader reader;
    struct prose *prose;
    const struct prose_markup *markup;
    struct prose_masks masks;
    size_t line;               /* where it begins in the text */
    size_t blanks, n_blanks;   /* read and not yet placed, in the document */
    struct open_element *open; /* owned */
    size_t n_open, open_capacity;
    uint32_t n_in_bucket[BUCKETS]; /* of `open`, by a hash of their names */
    size_t n_outer;  /* of `open`: outside the section, no tag in it is their partner */
    bool has_breaks; /* ends of lines are the document's, as in subtitles */
    bool is_plain;   /* "&" begins no reference */
};

/* ---- Elements -------------------------------------------------------------------------------- */

static bool is_among(const struct html *h, const struct html_token *token, const char *const *names)
{
    for (; *names; names++)
        if (html_is_named(&h->reader, token, *names))
            return true;
    return false;
}

/* What ends a line. */
static bool is_block(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {
        "address",  "article",    "aside",    "audio",    "base",    "blockquote", "body",
        "br",       "button",     "canvas",   "caption",  "center",  "col",        "colgroup",
        "dd",       "details",    "dialog",   "dir",      "div",     "dl",         "dt",
        "fieldset", "figcaption", "figure",   "footer",   "form",    "frame",      "frameset",
        "h1",       "h2",         "h3",       "h4",       "h5",      "h6",         "head",
        "header",   "hgroup",     "hr",       "html",     "iframe",  "legend",     "li",
        "link",     "listing",    "main",     "menu",     "meta",    "nav",        "noframes",
        "noscript", "object",     "ol",       "optgroup", "option",  "p",          "param",
        "pre",      "search",     "section",  "select",   "summary", "table",      "tbody",
        "td",       "template",   "textarea", "tfoot",    "th",      "thead",      "title",
        "tr",       "ul",         "video",    "xmp",      NULL};

    return html_has_names(h->reader.syntax) && is_among(h, token, names);
}

/* What has no content, or none that is text. */
static bool is_void(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"area",  "base", "br",     "col",   "embed",  "hr",  "img",
                                        "input", "link", "meta",   "param", "source", "svg", "math",
                                        "track", "wbr",  "script", "style", NULL};
    static const char *const foreign[] = {"svg", "math", NULL};

    if (token->is_closed && h->reader.syntax != HTML_PAGE)
        return true;
    if (!html_has_names(h->reader.syntax) || is_among(h, token, foreign))
        return token->is_closed;
    return is_among(h, token, names);
}

static bool is_word_among(const char *words, size_t n, const char *word)
{
    const size_t bytes = strlen(word);

    for (size_t i = 0; i + bytes <= n; i++)
        if (strncasecmp(words + i, word, bytes) == 0 &&
            (i == 0 || isspace((unsigned char)words[i - 1])) &&
            (i + bytes == n || isspace((unsigned char)words[i + bytes])))
            return true;
    return false;
}

/* translate="no", class="notranslate" */
static bool says_no(const struct html *h, const struct html_token *token)
{
    struct html_attribute a;
    size_t at = 0;

    while (html_attribute(&h->reader, token, &at, &a)) {
        const char *name = h->reader.text + a.name, *value = h->reader.text + a.value;

        if (a.n_name == 9 && strncasecmp(name, "translate", 9) == 0 && a.n_value == 2 &&
            strncasecmp(value, "no", 2) == 0)
            return true;
        if (a.n_name == 5 && strncasecmp(name, "class", 5) == 0 &&
            is_word_among(value, a.n_value, "notranslate"))
            return true;
    }
    return false;
}

static bool is_frozen(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"code", "kbd",      "listing", "math", "pre", "samp",
                                        "svg",  "textarea", "tt",      "var",  "xmp", NULL};

    for (size_t i = 0; i < h->markup->n_ignored; i++)
        if (html_has_name(&h->reader, token, h->markup->ignored[i].text,
                          h->markup->ignored[i].bytes))
            return true;
    return (html_has_names(h->reader.syntax) && is_among(h, token, names)) || says_no(h, token);
}

/* Elements whose end tags may be left out: those of a rank end at the next of it or above. */
static int rank_of(const struct html *h, const struct html_token *token)
{
    static const char *const items[] = {"li", "dt", "dd", "td", "th", "option", NULL};
    static const char *const rows[] = {"tr", "optgroup", NULL};
    static const char *const groups[] = {"tbody", "thead", "tfoot", NULL};

    if (!html_has_names(h->reader.syntax))
        return 0;
    return is_among(h, token, items)    ? 1
           : is_among(h, token, rows)   ? 2
           : is_among(h, token, groups) ? 3
                                        : 0;
}

/* Whether it ends a <p> that has no end tag. */
static bool ends_paragraph(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"audio",  "button",   "canvas", "iframe", "noscript",
                                        "object", "option",   "select", "video",  "template",
                                        "title",  "textarea", "p",      NULL};

    return is_block(h, token) && !is_void(h, token) &&
           (token->type == HTML_START
                ? !is_among(h, token, names) || html_is_named(&h->reader, token, "p")
                : !is_among(h, token, names));
}

/* Whether an element that began with `start` ends before `token`, without an end tag. `depth` is of
 * lists and tables within it. */
static bool ends_before(const struct html *h, const struct html_token *start, int rank,
                        const struct html_token *token, size_t depth)
{
    if (token->type != HTML_START && token->type != HTML_END)
        return false;
    if (html_is_named(&h->reader, start, "p") && html_has_names(h->reader.syntax))
        return ends_paragraph(h, token);
    if (rank == 0 || depth > 0)
        return false;
    if (token->type == HTML_START)
        return rank_of(h, token) >= rank;
    return rank_of(h, token) > rank;
}

/* The reader goes behind the element that began with `start`; whether there was text in it. */
static bool skip_element(struct html *h, const struct html_token *start)
{
    static const char *const containers[] = {"ul", "ol", "menu", "dl", "table", "select", NULL};
    const char *name = h->reader.text + start->name;
    const int rank = rank_of(h, start);
    struct html_reader before = h->reader;
    struct html_token token;
    size_t depth = 0, same = 1, n_blocks = 0;
    const bool is_inline = !is_block(h, start);
    bool has_text = false;

    for (; html_next(&h->reader, &token); before = h->reader) {
        const bool is_same = token.n_name == start->n_name &&
                             strncasecmp(h->reader.text + token.name, name, token.n_name) == 0 &&
                             (token.type == HTML_START || token.type == HTML_END);

        if (token.type == HTML_TEXT || token.type == HTML_CDATA)
            has_text = has_text || !unicode_is_blank(h->reader.text + token.at, token.n);
        if (ends_before(h, start, rank, &token, depth) ||
            (rank > 0 && depth == 0 && token.type == HTML_END && is_among(h, &token, containers))) {
            h->reader = before;
            return has_text;
        }
        if (is_inline && token.n_name > 0 && is_block(h, &token) && !is_void(h, &token)) {
            if (token.type == HTML_END && n_blocks == 0) { /* its own end tag was forgotten */
                h->reader = before;
                return has_text;
            }
            n_blocks = token.type == HTML_START ? n_blocks + 1 : n_blocks - 1;
        }
        if (rank > 0 && is_among(h, &token, containers) && token.n_name > 0 && !is_void(h, &token))
            depth = token.type == HTML_START ? depth + 1 : depth - 1;
        if (is_same && token.type == HTML_START && rank == 0 && !is_void(h, &token))
            same++;
        if (is_same && token.type == HTML_END && depth == 0 && --same == 0)
            return has_text;
    }
    return has_text;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool line_is_empty(const struct html *h)
{
    return h->prose->text_bytes == h->line;
}

static bool has_line_end(const char *text, size_t n)
{
    return memchr(text, '\n', n) || memchr(text, '\r', n);
}

static void end_line(struct html *h)
{
    if (h->n_blanks > 0)
        prose_add_mark(h->prose, PROSE_POINT, h->blanks, h->n_blanks);
    h->n_blanks = 0;
    h->masks.n = 0;
    if (line_is_empty(h))
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
static void place_blanks(struct html *h)
{
    const struct prose *p = h->prose;
    const bool ends_line = has_line_end(h->reader.text + h->blanks, h->n_blanks);

    if (h->n_blanks == 0)
        return;
    if (ends_line && has_lines(h)) {
        end_line(h);
    } else if (line_is_empty(h) || p->text[p->text_bytes - 1] == ' ') {
        prose_add_mark(h->prose, PROSE_POINT, h->blanks, h->n_blanks);
    } else {
        if (ends_line && h->has_breaks)
            prose_add_break(h->prose);
        prose_add_text(h->prose, " ", 1);
    }
    h->n_blanks = 0;
}

static void add_point(struct html *h, size_t at, size_t n)
{
    place_blanks(h);
    prose_add_mark(h->prose, PROSE_POINT, at, n);
}

/* What subtitles have between words counts for all that follows: none of it may pass another. */
static void add_code(struct html *h, size_t at, size_t n)
{
    place_blanks(h);
    prose_add_mark(h->prose, PROSE_TAG, at, n);
}

static void add_mask(struct html *h, size_t at, size_t n)
{
    place_blanks(h);
    prose_add_mask(h->prose, &h->masks, at, n);
}

static void add_placeholder(struct html *h, enum placeholder_kind kind, size_t at, size_t n)
{
    switch (kind) {
    case PLACEHOLDER_NAME:
        add_mask(h, at, n);
        break;
    case PLACEHOLDER_SEPARATOR:
        if (!h->has_breaks) /* a speech is one paragraph */
            end_line(h);
        add_point(h, at, n);
        break;
    case PLACEHOLDER_SIGN:
        add_point(h, at, n);
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
    place_blanks(h);
    prose_add_text(h->prose, text, n);
}

/* The bytes of a character reference with its semicolon, 1 of anything else; whether a URL may go
 * on with what it stands for: with &amp;, not with &nbsp; or &gt;. */
static bool is_of_url(const char *text, size_t end, size_t at, size_t *n)
{
    size_t first = 0;
    char utf8[5];

    *n = 1;
    if (text[at] != '&' || reference_read(text + at, end - at, n, utf8) != REFERENCE_KNOWN ||
        text[at + *n - 1] != ';')
        return true;
    return placeholder_url_has(text, end, unicode_next(utf8, strlen(utf8), &first), at + *n);
}

/* Like placeholder_bytes(), but that references are read in what begins with a letter, as addresses
 * do. No URL goes beyond *url_end, which is found once for all that begin before it. */
static size_t placeholder_at(const struct html *h, size_t at, size_t end, size_t *url_end)
{
    const char *text = h->reader.text;
    size_t behind = at, bytes, n;

    if (text[at] == '<' && !h->is_plain)
        return 0; /* text that is escaped when it is written; elsewhere it might begin a tag */
    if (h->is_plain || !isalnum((unsigned char)text[at]))
        return placeholder_bytes(text, end, at);
    if (*url_end <= at)
        for (*url_end = at; *url_end < end && is_of_url(text, end, *url_end, &n);)
            *url_end += n;
    for (bytes = placeholder_bytes(text, *url_end, at); behind < at + bytes; behind += n)
        is_of_url(text, end, behind, &n);
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
static size_t add_reference(struct html *h, size_t at, size_t bytes)
{
    char utf8[5];
    size_t n = 1;

    switch (reference_read(h->reader.text + at, bytes, &n, utf8)) {
    case REFERENCE_KNOWN:
        if (strchr(" \t\n\f\r", utf8[0]))
            add_blank(h, at, n);
        else if (placeholder_is_sign(utf8[0]))
            add_placeholder(h, sign_kind(h, utf8, at, n), at, n);
        else
            add_characters(h, utf8, strlen(utf8));
        break;
    case REFERENCE_UNKNOWN:
        add_mask(h, at, n);
        break;
    case REFERENCE_NONE:
        add_characters(h, "&", 1);
        break;
    }
    return n;
}

static void add_text(struct html *h, const struct html_token *token)
{
    const char *text = h->reader.text;
    const size_t end = token->at + token->n;
    size_t url_end = token->at, n, next;

    for (size_t at = token->at; at < end; at += n) {
        n = h->has_breaks ? subtitle_code_bytes(text + at, end - at) : 0;
        if (n > 0) {
            add_code(h, at, n);
            continue;
        }
        n = placeholder_at(h, at, end, &url_end);
        if (n > 0) {
            add_placeholder(h, placeholder_kind(text, h->reader.bytes, at, n), at, n);
        } else if (h->n_blanks == 0 && (n = prose_extend_mask(h->prose, at, end)) > 0) {
            continue;
        } else if (text[at] == '&' && !h->is_plain) {
            n = add_reference(h, at, end - at);
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
}

/* ---- Tags between words ---------------------------------------------------------------------- */

/* What may begin or end within a word. */
static bool is_styling(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"b",      "big",    "del", "em",  "font", "i",
                                        "ins",    "mark",   "rp",  "rt",  "s",    "small",
                                        "strike", "strong", "sub", "sup", "u",    NULL};

    return is_among(h, token, names);
}

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
    const char last = line_is_empty(h) ? ' ' : p->text[p->text_bytes - 1];

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
    return !is_styling(h, token) && !is_styling(h, &end);
}

/* What stands for something on the page between two texts. */
static bool is_shown(const struct html *h, const struct html_token *token)
{
    static const char *const names[] = {"embed", "img", "input", NULL};

    return html_has_names(h->reader.syntax) && is_among(h, token, names);
}

/* ---- Pairs of tags --------------------------------------------------------------------------- */

static uint8_t bucket_of(const struct html *h, const struct html_token *token)
{
    unsigned hash = 5381;

    for (size_t i = 0; i < token->n_name; i++) {
        const unsigned char c = (unsigned char)h->reader.text[token->name + i];

        hash = hash * 33 + (unsigned)(html_has_names(h->reader.syntax) ? tolower(c) : c);
    }
    return (uint8_t)(hash ^ hash >> 8);
}

static void open_pair(struct html *h, const struct html_token *token)
{
    const size_t mark =
        (place_blanks(h), prose_add_mark(h->prose, PROSE_OPEN, token->at, token->n));
    const struct open_element element = {(uint32_t)mark, bucket_of(h, token)};

    if (h->n_open == h->open_capacity) {
        size_t wanted = h->open_capacity ? h->open_capacity * 2 : 64;
        struct open_element *more = realloc(h->open, wanted * sizeof(*more));

        if (!more) {
            h->prose->no_memory = true;
            return;
        }
        h->open = more;
        h->open_capacity = wanted;
    }
    h->open[h->n_open++] = element;
    h->n_in_bucket[element.bucket]++;
}

static bool is_start_of(const struct html *h, const struct prose_mark *mark,
                        const struct html_token *end)
{
    const struct html_token start = {.name = mark->raw + 1, .n_name = end->n_name};
    const char after = h->reader.text[mark->raw + 1 + end->n_name];
    const char *name = h->reader.text + end->name, *other = h->reader.text + start.name;

    if (mark->n_raw < end->n_name + 2 || !(strchr(" \t\n\f\r/>", after)))
        return false;
    return (html_has_names(h->reader.syntax) ? strncasecmp(name, other, end->n_name)
                                             : memcmp(name, other, end->n_name)) == 0;
}

/* Those above `keep` have no partner. */
static void drop_open(struct html *h, size_t keep)
{
    while (h->n_open > keep) {
        const struct open_element *top = &h->open[--h->n_open];

        h->n_in_bucket[top->bucket]--;
        h->prose->marks[top->mark].kind = PROSE_TAG;
    }
}

/* Looks for its partner among the innermost elements; farther out it would be none in a tree. */
static void close_pair(struct html *h, const struct html_token *token)
{
    const size_t mark = (place_blanks(h), prose_add_mark(h->prose, PROSE_TAG, token->at, token->n));
    struct prose_mark *marks = h->prose->marks;
    const size_t farthest = h->n_open > MAX_SEARCHED ? h->n_open - MAX_SEARCHED : 0,
                 lowest = farthest > h->n_outer ? farthest : h->n_outer;

    if (h->prose->no_memory || h->n_in_bucket[bucket_of(h, token)] == 0)
        return;
    for (size_t i = h->n_open; i > lowest; i--) {
        const uint32_t start = h->open[i - 1].mark;

        if (!is_start_of(h, &marks[start], token))
            continue;
        drop_open(h, i - 1);
        marks[start].kind = PROSE_OPEN;
        marks[start].partner = (uint32_t)mark;
        marks[mark].kind = PROSE_CLOSE;
        marks[mark].partner = start;
        return;
    }
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static bool is_prose(const struct html *h, const struct html_attribute *a)
{
    const char *value = h->reader.text + a->value;

    if (unicode_is_blank(value, a->n_value))
        return false;
    for (size_t i = 0; i < a->n_value; i++)
        if (placeholder_bytes(value, a->n_value, i) > 0)
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

/* Their lines, behind those of the body; references that are not known stay as they are. */
static void add_values(struct html *h)
{
    struct prose *p = h->prose;
    char utf8[5];

    p->body_bytes = p->text_bytes;
    for (size_t v = 0; v < p->n_values && !p->no_memory; v++) {
        struct prose_value *value = &p->values[v];
        const char *text = p->document + value->raw;
        size_t n;

        prose_add_text(p, "\n", 1);
        value->at = (uint32_t)p->text_bytes;
        for (size_t i = 0; i < value->n_raw; i += n) {
            n = 1;
            if (text[i] == '&' &&
                reference_read(text + i, value->n_raw - i, &n, utf8) == REFERENCE_KNOWN)
                prose_add_text(p, utf8, strlen(utf8));
            else
                prose_add_text(p, strchr("\t\n\f\r", text[i]) ? " " : text + i, n);
        }
        value->n = (uint32_t)(p->text_bytes - value->at);
    }
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Whether it goes on to the end of the document without an end of its own. Words that came to stand
 * behind it would be part of it. */
static bool is_cut(const struct html *h, const struct html_token *token)
{
    const char *text = h->reader.text, *tag;

    if (h->reader.at < h->reader.bytes)
        return false;
    if (token->type != HTML_START)
        return text[h->reader.bytes - 1] != '>';
    tag = memrchr(text + token->at, '<', h->reader.bytes - token->at);
    return (size_t)(text + h->reader.bytes - tag) < token->n_name + 3 || tag[1] != '/' ||
           strncasecmp(tag + 2, text + token->name, token->n_name) != 0 ||
           text[h->reader.bytes - 1] != '>';
}

static void add_frozen(struct html *h, const struct html_token *token)
{
    const bool has_text = skip_element(h, token);
    const size_t n = h->reader.at - token->at;

    if (is_block(h, token) || is_cut(h, token)) {
        end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, n);
    } else if (has_text && !html_is_named(&h->reader, token, "svg")) {
        add_mask(h, token->at, n);
    } else {
        add_point(h, token->at, n);
    }
}

static void add_start(struct html *h, const struct html_token *token)
{
    if (h->markup->with_attributes && !says_no(h, token))
        note_values(h, token);
    if (!is_void(h, token) && is_frozen(h, token)) {
        add_frozen(h, token);
    } else if (is_block(h, token)) {
        end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, token->n);
    } else if (is_void(h, token)) {
        if (is_shown(h, token) && parts_words(h, token))
            end_line(h);
        add_point(h, token->at, token->n);
    } else {
        if (is_sibling(h, token) && parts_words(h, token))
            end_line(h);
        open_pair(h, token);
    }
}

static void add_end(struct html *h, const struct html_token *token)
{
    if (is_block(h, token)) {
        end_line(h);
        prose_add_mark(h->prose, PROSE_POINT, token->at, token->n);
    } else if (is_void(h, token)) {
        add_point(h, token->at, token->n);
    } else {
        close_pair(h, token);
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
                reference_read(reader.text + at, token.at + token.n - at, &n, utf8) !=
                    REFERENCE_NONE &&
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
    const size_t n_outer = h->n_outer;

    h->reader = (struct html_reader){
        .text = outer.text, .bytes = text.at + text.n, .at = text.at, .syntax = HTML_PAGE};
    h->is_plain = !is_page(&h->reader);
    h->n_outer = h->n_open;
    end_line(h);
    prose_add_mark(h->prose, h->is_plain ? PROSE_PLAIN : PROSE_POINT, token->at, HTML_CDATA_BYTES);
    if (h->is_plain)
        add_text(h, &text);
    while (!h->is_plain && !h->prose->no_memory && html_next(&h->reader, &text))
        add_token(h, &text);
    end_line(h);
    prose_add_mark(h->prose, PROSE_ESCAPED, h->reader.bytes, HTML_CDATA_END_BYTES);
    drop_open(h, h->n_outer);
    h->n_outer = n_outer;
    h->is_plain = false;
    h->reader = outer;
}

static void add_token(struct html *h, const struct html_token *token)
{
    switch (token->type) {
    case HTML_TEXT:
        add_text(h, token);
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
        if (is_cut(h, token))
            end_line(h);
        if (h->has_breaks)
            add_code(h, token->at, token->n);
        else
            add_point(h, token->at, token->n);
        break;
    }
}

static int finish(struct html *h, struct acre_err *err)
{
    end_line(h);
    drop_open(h, 0);
    add_values(h);
    free(h->open);
    return h->prose->no_memory ? error_set_no_memory(err) : 0;
}

int prose_read_markup(const char *document, size_t bytes, const struct prose_markup *markup,
                      struct prose *prose, struct acre_err *err)
{
    struct html h = {.reader = {.text = document, .bytes = bytes, .syntax = markup->syntax},
                     .prose = prose,
                     .markup = markup};
    struct html_token token;

    *prose = (struct prose){.document = document,
                            .document_bytes = bytes,
                            .is_markup = true,
                            .is_xml = markup->syntax != HTML_PAGE};
    if (bytes > UINT32_MAX / 2)
        return error_set(err, ACRE_EINPUT, "expected at most 2 GiB of markup, found more");
    prose_masks_init(&h.masks, document, bytes);
    while (!prose->no_memory && html_next(&h.reader, &token))
        add_token(&h, &token);
    return finish(&h, err);
}

/* Speeches may have tags, <i> or <v Ann>, which are read as those of XML. */
int prose_read_subtitles(const char *document, size_t bytes, bool is_vtt, struct prose *prose,
                         struct acre_err *err)
{
    static const struct prose_markup markup = {.with_attributes = false};
    struct html h = {.reader = {.text = document, .syntax = is_vtt ? HTML_WEBVTT : HTML_SUBRIP},
                     .prose = prose,
                     .markup = &markup,
                     .has_breaks = true,
                     .is_plain = !is_vtt};
    struct subtitle_reader speeches = {.text = document, .bytes = bytes, .is_vtt = is_vtt};
    struct html_token token;
    size_t at = 0, begin, end;

    *prose = (struct prose){.document = document,
                            .document_bytes = bytes,
                            .is_markup = true,
                            .is_plain = !is_vtt,
                            .line_end = subtitle_line_end(document, bytes)};
    if (bytes > UINT32_MAX / 2)
        return error_set(err, ACRE_EINPUT, "expected at most 2 GiB of subtitles, found more");
    prose_masks_init(&h.masks, document, bytes);
    for (; !prose->no_memory && subtitle_next(&speeches, &begin, &end); at = end) {
        prose_add_mark(prose, PROSE_POINT, at, begin - at);
        h.reader.at = begin;
        h.reader.bytes = end;
        while (!prose->no_memory && html_next(&h.reader, &token))
            add_token(&h, &token);
        end_line(&h);
    }
    prose_add_mark(prose, PROSE_POINT, at, bytes - at);
    return finish(&h, err);
}
