/* Happy path: bytes join what is written; of a translation they are escaped where the document is
 * markup, and noted where it is traced. Failure modes: no memory, a flag; what follows is cheap. */
#include "content/writer.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/grow.h"
#include "common/unicode.h"
#include "content/word.h"
#include "content/wrap.h"

/* ---- Bytes and words ------------------------------------------------------------------------- */

static void put(struct writer *w, const char *text, size_t n)
{
    if (!grow(&w->text, 1, w->bytes + n + 1, &w->capacity)) {
        w->no_memory = true;
        return;
    }
    memcpy(w->text + w->bytes, text, n);
    w->bytes += n;
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static const char *escape_of(const struct writer *w, const char *at, size_t n, size_t *used)
{
    *used = 1;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return w->is_value ? "&quot;" : NULL;
    case '\'':
        return w->is_value ? "&#39;" : NULL;
    case '\t': /* which XML reads as blanks in a value */
        return w->is_value && w->prose->is_xml ? "&#9;" : NULL;
    case '\n':
        return w->is_value && w->prose->is_xml ? "&#10;" : NULL;
    case '\r':
        return w->is_value && w->prose->is_xml ? "&#13;" : NULL;
    case '\xC2':
        *used = 2;
        if (n < 2 || at[1] != '\xA0')
            return NULL;
        return w->prose->is_xml ? "&#160;" : "&nbsp;";
    default:
        return NULL;
    }
}

static bool begins_with_word(const char *text, size_t n)
{
    size_t at = 0;

    return n > 0 && word_has(unicode_next(text, n, &at));
}

static bool ends_with_word(const char *text, size_t n)
{
    const size_t last = unicode_before(text, n);

    return begins_with_word(text + last, n - last);
}

/* A blank between a term and the word that is to follow. */
static void leave_term(struct writer *w, const char *text, size_t n)
{
    if (w->is_behind && begins_with_word(text, n))
        put(w, " ", 1);
    w->is_behind = w->is_behind && n == 0;
}

/* Whether the i-th byte of a text that is to be written would end what it stands in: in XML, "]]>"
 * ends a section, and is no text outside of one; in WebVTT, "-->" ends a cue. */
static bool is_end(const struct writer *w, const char *text, size_t i)
{
    const bool is_vtt = w->prose->line_end && !w->prose->is_plain;
    const char *begin = w->prose->is_xml ? "]]" : is_vtt ? "--" : NULL;
    char before[2];

    if (text[i] != '>' || !begin)
        return false;
    for (size_t k = 1; k <= 2; k++)
        before[2 - k] = k <= i              ? text[i - k]
                        : k - i <= w->bytes ? w->text[w->bytes - (k - i)]
                                            : w->last[2 + w->bytes - (k - i)];
    return memcmp(before, begin, 2) == 0;
}

/* Written instead of such a sign: it is parted among two sections, or escaped. */
static const char *parted(const struct writer *w)
{
    return w->is_section ? "]]><![CDATA[>" : "&gt;";
}

/* Bytes of the document that are no words; inside them it says what it said. */
static void put_raw(struct writer *w, const char *text, size_t n)
{
    size_t begin = 0;

    for (size_t i = 0; i < n && i < 2 && begin == 0; i++) {
        if (!is_end(w, text, i))
            continue;
        put(w, text, i);
        put(w, parted(w), strlen(parted(w)));
        begin = i + 1;
    }
    put(w, text + begin, n - begin);
}

/* The bytes of a character that XML has no place for, not even as a reference; 0: it has. */
static size_t foreign_bytes(const char *at, size_t n)
{
    if (n >= 3 && (memcmp(at, "\xEF\xBF\xBE", 3) == 0 || memcmp(at, "\xEF\xBF\xBF", 3) == 0))
        return 3;
    return (unsigned char)*at < ' ' && !memchr("\t\n\r", *at, 3);
}

/* What is written instead of the character of words at text[i]; NULL: itself. A model that writes
 * bytes may write any. */
static const char *instead_of(const struct writer *w, const char *text, size_t n, size_t i,
                              size_t *used)
{
    *used = w->prose->is_xml ? foreign_bytes(text + i, n - i) : 0;
    if (*used > 0)
        return "\xEF\xBF\xBD";
    if (w->prose->line_end && is_line_end(text[i])) { /* a line without words may end a cue */
        *used = 1;
        return " ";
    }
    if (!w->is_plain)
        return escape_of(w, text + i, n - i, used);
    *used = 1;
    return is_end(w, text, i) ? parted(w) : NULL;
}

void writer_text(struct writer *w, const char *text, size_t n)
{
    const char *instead;
    size_t used = 1, begin = 0;

    leave_term(w, text, n);
    for (size_t i = 0; i < n; i += used) {
        instead = instead_of(w, text, n, i, &used);
        if (!instead) {
            used = 1;
            continue;
        }
        put(w, text + begin, i - begin);
        put(w, instead, strlen(instead));
        begin = i + used;
    }
    put(w, text + begin, n - begin);
}

void writer_words(struct writer *w, const char *text, size_t first, size_t n)
{
    struct trace_piece piece = {{first, n}, {0, n}, false};

    leave_term(w, text + first, n);
    piece.to.first = w->n_taken + w->bytes;
    if (w->is_traced && n > 0)
        trace_add(&w->trace, &piece);
    writer_text(w, text + first, n);
}

/* The first sentence that begins at or behind a place of the text. */
static size_t sentence_from(const struct writer *w, size_t at)
{
    size_t low = 0, high = w->result ? w->result->n_sentences : 0;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (w->result->sentences[middle].first < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void put_value(struct writer *w, const struct prose_value *value)
{
    const char *text = w->prose->text;
    size_t at = value->at, i;

    w->is_value = true;
    for (i = sentence_from(w, at); w->result && i < w->result->n_sentences &&
                                   w->result->sentences[i].first < value->at + value->n;
         i++) {
        const struct acre_range *from = &w->result->sentences[i],
                                *to = &w->hypothesis->sentences[i];

        writer_text(w, text + at, from->first - at);
        if (w->hypothesis->parts[i].is_apart)
            writer_text(w, " ", 1);
        writer_text(w, w->hypothesis->text + to->first, to->n_bytes);
        at = from->first + from->n_bytes;
    }
    writer_text(w, text + at, value->at + value->n - at);
    w->is_value = false;
}

/* Whether a range ends with a sign that before other words might begin a tag. At the end of a
 * document none come. */
static bool begins_no_tag_here(const struct writer *w, size_t at, size_t end)
{
    const struct prose *p = w->prose;

    return p->is_markup && !p->is_plain && !w->is_plain && end > at && end < p->document_bytes &&
           p->document[end - 1] == '<';
}

void writer_raw(struct writer *w, const struct prose_mark *mark)
{
    const struct prose *p = w->prose;
    const size_t end = (size_t)mark->raw + mark->n_raw;
    size_t at = mark->raw, low = 0, high = p->n_values;

    if (mark->kind == PROSE_SECTION_END)
        w->is_plain = w->is_section = false;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (p->values[middle].raw < at)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->n_values && p->values[low].raw < end; low++) {
        put_raw(w, p->document + at, p->values[low].raw - at);
        put_value(w, &p->values[low]);
        at = (size_t)p->values[low].raw + p->values[low].n_raw;
    }
    if (begins_no_tag_here(w, at, end)) {
        put_raw(w, p->document + at, end - at - 1);
        put_raw(w, "&lt;", 4);
    } else {
        put_raw(w, p->document + at, end - at);
    }
    if (mark->kind == PROSE_SECTION || mark->kind == PROSE_PLAIN) {
        w->is_section = true;
        w->is_plain = mark->kind == PROSE_PLAIN;
    }
}

/* ---- Terms ----------------------------------------------------------------------------------- */

static bool has_capital(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const UChar32 c = (UChar32)unicode_next(text, n, &at);

        if (u_isUWhiteSpace(c))
            return false;
        if (u_isupper(c))
            return true;
    }
    return false;
}

void writer_stand_apart(struct writer *w)
{
    if (w->bytes > 0 ? ends_with_word(w->text, w->bytes) : w->has_word)
        put(w, " ", 1);
    w->is_behind = false;
}

void writer_leave_apart(struct writer *w)
{
    w->is_behind = true;
}

void writer_reach_term(struct writer *w, const struct prose_mark *mark)
{
    const struct prose_term *term = &w->prose->terms[mark->partner];

    if (begins_with_word(term->target, term->bytes))
        writer_stand_apart(w);
    w->is_behind = false;
}

void writer_term(struct writer *w, const struct prose_mark *mark, bool is_raised)
{
    const struct prose_term *term = &w->prose->terms[mark->partner];
    size_t rest = 0, n;
    char first[5];

    if (is_raised && !has_capital(term->target, term->bytes)) {
        n = unicode_encode(
            (uint32_t)u_toupper((UChar32)unicode_next(term->target, term->bytes, &rest)), first);
        writer_text(w, first, n);
    }
    writer_text(w, term->target + rest, term->bytes - rest);
    w->is_behind = ends_with_word(term->target, term->bytes);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Writes what was put from `begin` on again, with the document's ends of lines. */
static void put_line_ends(struct writer *w, size_t begin)
{
    const size_t n = w->bytes - begin;
    char *line = malloc(n + 1);
    size_t at = 0;

    if (!line) {
        w->no_memory = true;
        return;
    }
    memcpy(line, w->text + begin, n);
    w->bytes = begin;
    for (size_t i = 0; i < n; i++) {
        if (line[i] != '\n')
            continue;
        put(w, line + at, i - at);
        put(w, w->prose->line_end, strlen(w->prose->line_end));
        at = i + 1;
    }
    put(w, line + at, n - at);
    free(line);
}

void writer_break_line(struct writer *w, size_t end)
{
    const struct prose *p = w->prose;
    size_t begin = w->bytes, n = 0;

    for (; w->next_break < p->n_breaks && p->breaks[w->next_break] < end; w->next_break++)
        n++;
    while (begin > w->line && !is_line_end(w->text[begin - 1]))
        begin--;
    if (n > 0 && !w->no_memory) {
        wrap_line(w->text + begin, w->bytes - begin, n);
        put_line_ends(w, begin);
    }
    w->line = w->bytes;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

char *writer_take(struct writer *w)
{
    char *text;

    put(w, "", 0); /* an empty document has an end, too */
    if (w->no_memory || !w->text)
        return NULL;
    text = w->text;
    text[w->bytes] = '\0';
    if (w->bytes > 0)
        w->has_word = ends_with_word(text, w->bytes);
    for (size_t i = w->bytes < 2 ? 0 : w->bytes - 2; i < w->bytes; i++) {
        w->last[0] = w->last[1];
        w->last[1] = text[i];
    }
    w->n_taken += w->bytes;
    w->text = NULL;
    w->bytes = w->capacity = w->line = 0;
    return text;
}

void writer_fini(struct writer *w)
{
    free(w->text);
    trace_fini(&w->trace);
}
