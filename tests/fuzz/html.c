/* Documents as prose and back. The first byte says which kind a document is, the second which of
 * many wrong translations it gets: words in another order, left out, doubled, aligned at random;
 * and which of its words are terms of a glossary, and what those are called. Whatever the
 * translation, every tag of the document comes out once, within the elements that it stood in; of
 * subtitles, numbers and times stay as they are, and no "-->" comes about; nor does a "]]>" of XML
 * that would end a section, or be none, or a control character. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/unicode.h"
#include "content/html_element.h"
#include "content/html_token.h"
#include "content/render.h"
#include "content/subtitle.h"
#include "content/terms.h"

enum { MAX_WORDS = 4096, MAX_SENTENCES = 1024 };

static unsigned state;

static unsigned random_below(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % n;
}

/* ---- A translation --------------------------------------------------------------------------- */

struct translation {
    struct acre_range from[MAX_SENTENCES], to[MAX_SENTENCES];
    struct acre_part parts[MAX_SENTENCES];
    struct acre_alignment alignments[MAX_WORDS];
    char text[1 << 17];
    size_t bytes, n_words, n_sentences;
};

static void add(struct translation *t, const char *text, size_t n)
{
    if (t->bytes + n + 8 < sizeof(t->text)) {
        memcpy(t->text + t->bytes, text, n);
        t->bytes += n;
    }
}

/* What no model should say, in place of a word. */
static void add_odd(struct translation *t)
{
    static const char *const odd[] = {"]]>",  "]]",   "--",           "-->", ">",    "\n",
                                      "\n\n", "\x01", "\xEF\xBF\xBE", "<b>", "</b>", "&"};
    const char *text = odd[random_below(sizeof(odd) / sizeof(odd[0]))];

    add(t, text, strlen(text));
}

static bool is_blank(char c)
{
    return strchr(" \n\t", c) && c;
}

/* Words of the sentence in an order that is nearly theirs. */
static void translate_sentence(struct translation *t, const char *text, struct acre_range from)
{
    const size_t end = from.first + from.n_bytes, begin_out = t->bytes, n_before = t->n_words;
    struct acre_range words[64];
    size_t n = 0;

    for (size_t at = from.first; at < end && n < 64;) {
        size_t begin = at;

        while (at < end && !is_blank(text[at]))
            at++;
        words[n++] = (struct acre_range){begin, at - begin};
        while (at < end && is_blank(text[at]))
            at++;
    }
    for (size_t i = 0; i < n + 2 && t->n_words < MAX_WORDS; i++) {
        const struct acre_range *word = &words[random_below(3) ? i % n : random_below((unsigned)n)];
        const struct acre_range *said = random_below(4) ? word : &words[random_below((unsigned)n)];

        if (i > 0)
            add(t, " ", 1);
        t->alignments[t->n_words].source = random_below(9) ? *word : (struct acre_range){0, 0};
        t->alignments[t->n_words++].target = (struct acre_range){t->bytes, said->n_bytes};
        add(t, text + said->first, said->n_bytes);
        if (random_below(16) == 0)
            add_odd(t);
    }
    t->from[t->n_sentences] = from;
    t->parts[t->n_sentences].n_tokens = t->n_words - n_before;
    t->to[t->n_sentences++] = (struct acre_range){begin_out, t->bytes - begin_out};
}

/* Sentences are what is between line ends, and sometimes between blanks. */
static void translate(struct translation *t, const char *text, size_t bytes)
{
    t->bytes = t->n_words = t->n_sentences = 0;
    for (size_t at = 0; at < bytes;) {
        size_t begin = at, end;

        while (at < bytes && is_blank(text[at]))
            at++;
        add(t, text + begin, at - begin);
        for (begin = end = at; at < bytes && text[at] != '\n'; at++) {
            if (is_blank(text[at]) && random_below(20) == 0)
                break;
            if (!is_blank(text[at]))
                end = at + 1;
        }
        at = end;
        if (end > begin && t->n_sentences < MAX_SENTENCES)
            translate_sentence(t, text, (struct acre_range){begin, end - begin});
    }
}

/* ---- What must hold -------------------------------------------------------------------------- */

/* The tags of a document, however ordered. */
static unsigned long count_tags(const char *text, size_t bytes, enum html_syntax syntax)
{
    struct html_reader reader = {.text = text, .bytes = bytes, .syntax = syntax};
    struct html_token token;
    unsigned long sum = 0;

    while (html_next(&reader, &token)) {
        unsigned long hash = 5381;

        if (token.type != HTML_START && token.type != HTML_END)
            continue;
        for (size_t i = 0; i < token.n; i++)
            hash = hash * 33 + (unsigned char)text[token.at + i];
        sum += hash * hash;
    }
    return sum;
}

/* The tags of a document with all the elements that each stands in, however ordered. What is kept
 * as it is counts as one; 0: where that ends is said by what follows it. */
static unsigned long count_paths(const char *text, size_t bytes, enum html_syntax syntax)
{
    static unsigned long paths[1 << 13];
    struct html_reader reader = {.text = text, .bytes = bytes, .syntax = syntax};
    struct html_token token;
    unsigned long sum = 1;
    size_t depth = 0;
    bool has_text;

    while (html_next(&reader, &token)) {
        unsigned long hash = paths[depth] * 33 + 5381;

        if (token.type != HTML_START && token.type != HTML_END)
            continue;
        for (size_t i = 0; i < token.n; i++)
            hash = hash * 33 + (unsigned char)text[token.at + i];
        sum += hash * hash;
        if (element_is_void(&reader, &token))
            continue;
        if (token.type == HTML_END) {
            depth -= depth > 0;
        } else if (!element_is_frozen(&reader, &token)) {
            paths[++depth] = hash;
        } else {
            if (!element_skip(&reader, &token, &has_text))
                return 0;
        }
    }
    return sum;
}

static size_t count(const char *text, size_t bytes, const char *what)
{
    const char *end = text + bytes, *at = text;
    size_t n = 0;

    for (; (at = memmem(at, (size_t)(end - at), what, strlen(what))); at++)
        n++;
    return n;
}

/* A character that XML has no place for. */
static bool has_control(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' && !memchr("\t\n\r", text[i], 3))
            return true;
    return count(text, bytes, "\xEF\xBF\xBE") > 0 || count(text, bytes, "\xEF\xBF\xBF") > 0;
}

/* Text of XML that has "]]>", which readers refuse outside of a section. */
static bool has_stray_end(const char *text, size_t bytes)
{
    struct html_reader reader = {.text = text, .bytes = bytes, .syntax = HTML_XML};
    struct html_token token;

    while (html_next(&reader, &token))
        if (token.type == HTML_TEXT && memmem(text + token.at, token.n, "]]>", 3))
            return true;
    return false;
}

/* In one piece; *out is owned by the caller. */
static size_t render_whole(const struct prose *prose, const struct acre_result *result, char **out)
{
    struct render_part part;
    struct render *render;

    if (render_open(prose, result, 0, false, &render, NULL) != 0)
        abort();
    while (render_next(render))
        ;
    if (render_take(render, &part, NULL) != 0)
        abort();
    render_close(render);
    *out = part.text;
    return part.bytes;
}

static bool is_in(struct acre_range range, size_t bytes)
{
    return range.first <= bytes && range.n_bytes <= bytes - range.first;
}

static void check_places(const struct prose *prose, const struct acre_alignment *items, size_t n,
                         size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        if (!is_in(items[i].source, prose->document_bytes) || !is_in(items[i].target, bytes))
            abort();
}

/* Sentence by sentence it is the same, and what is told of places is within the texts. */
static void check_parts(const struct prose *prose, const struct translation *t, const char *whole,
                        size_t bytes)
{
    const struct acre_alignment *alignments = t->alignments;
    struct render_part part;
    struct render *render;
    size_t at = 0;

    if (render_open(prose, NULL, 0, !prose->is_markup, &render, NULL) != 0)
        abort();
    for (size_t i = 0; i <= t->n_sentences; i++) {
        if (i == t->n_sentences)
            render_rest(render);
        else
            render_sentence(render,
                            &(struct render_sentence){t->from[i], t->to[i], t->text, alignments,
                                                      t->parts[i].n_tokens, t->parts[i].is_apart});
        alignments += i < t->n_sentences ? t->parts[i].n_tokens : 0;
        if (render_take(render, &part, NULL) != 0 || part.bytes > bytes - at ||
            memcmp(whole + at, part.text, part.bytes) != 0 ||
            part.sentence_at > part.sentence_end || part.sentence_end > part.bytes)
            abort();
        at += part.bytes;
        check_places(prose, part.alignments, part.n_alignments, at);
        check_places(prose, part.sentences, part.n_sentences, at);
        free(part.text);
        free(part.alignments);
        free(part.sentences);
    }
    render_close(render);
    if (at != bytes)
        abort();
}

/* Some bytes of a text, from and to the beginnings of characters. */
static struct acre_range slice(const char *text, size_t bytes)
{
    size_t begin = random_below((unsigned)bytes), end = begin + 1 + random_below(30);

    end = end < bytes ? end : bytes;
    while (begin < bytes && ((unsigned char)text[begin] & 0xC0) == 0x80)
        begin++;
    while (end < bytes && ((unsigned char)text[end] & 0xC0) == 0x80)
        end++;
    return (struct acre_range){begin, end > begin ? end - begin : 0};
}

/* NULL: none. Terms that are refused are left out. */
static struct dictionary *choose_terms(const char *text, size_t bytes)
{
    struct dictionary *dictionary = dictionary_open(1 << 20);

    if (!dictionary)
        abort();
    for (unsigned n = bytes > 0 ? random_below(8) : 0; n > 0; n--) {
        const struct acre_range from = slice(text, bytes), to = slice(text, bytes);

        dictionary_add(dictionary, text + from.first, from.n_bytes, text + to.first, to.n_bytes,
                       NULL);
    }
    if (dictionary_seal(dictionary, NULL) == 0)
        return dictionary;
    dictionary_drop(dictionary);
    return NULL;
}

/* What is between the speeches of subtitles is the same, byte by byte and in order. */
static void check_frame(const char *document, size_t bytes, bool is_vtt, const char *out, size_t n)
{
    struct subtitle_reader reader = {.text = document, .bytes = bytes, .is_vtt = is_vtt};
    size_t at = 0, begin, end;
    bool is_there;

    do {
        is_there = subtitle_next(&reader, &begin, &end);
        begin = is_there ? begin : bytes;
        const char *found = memmem(out, n, document + at, begin - at);

        if (!found)
            abort();
        n -= (size_t)(found - out) + begin - at;
        out = found + (begin - at);
        at = end;
    } while (is_there);
}

static void check(const char *document, size_t bytes, unsigned kind)
{
    static struct translation t;
    const struct prose_markup markup = {.syntax = kind == 1   ? HTML_XHTML
                                                  : kind == 2 ? HTML_XML
                                                              : HTML_PAGE,
                                        .has_lines = kind == 2 && bytes % 2 == 1,
                                        .with_attributes = kind == 3};
    struct prose prose;
    struct dictionary *dictionary;
    struct acre_err err;
    char *out;
    size_t n;

    if ((kind == 4  ? prose_read_text(document, bytes, NULL, &prose, &err)
         : kind > 4 ? prose_read_subtitles(document, bytes, kind == 6, NULL, &prose, &err)
                    : prose_read_markup(document, bytes, &markup, NULL, &prose, &err)) != 0 ||
        unicode_valid_bytes(prose.text, prose.text_bytes) != prose.text_bytes)
        abort();
    dictionary = choose_terms(document, bytes);
    if (dictionary && terms_mark(&prose, &dictionary, 1, &err) != 0)
        abort();
    translate(&t, prose.text, prose.text_bytes);
    const struct acre_hypothesis hypothesis = {.text = t.text,
                                               .n_tokens = t.n_words,
                                               .sentences = t.to,
                                               .parts = t.parts,
                                               .alignments = t.alignments};
    const struct acre_result result = {.hypotheses = &hypothesis,
                                       .n_hypotheses = 1,
                                       .sentences = t.from,
                                       .n_sentences = t.n_sentences};

    n = render_whole(&prose, &result, &out);
    if (unicode_valid_bytes(out, n) != n || strlen(out) != n)
        abort();
    if (kind < 3 && count_tags(document, bytes, markup.syntax) != count_tags(out, n, markup.syntax))
        abort();
    if (kind < 3 && count_paths(document, bytes, markup.syntax) > 0 &&
        count_paths(document, bytes, markup.syntax) != count_paths(out, n, markup.syntax))
        abort();
    if ((kind == 1 || kind == 2) && has_control(out, n) && !has_control(document, bytes))
        abort();
    if (kind == 6 && count(out, n, "-->") > count(document, bytes, "-->"))
        abort();
    if (kind == 2 && has_stray_end(out, n) && !has_stray_end(document, bytes))
        abort();
    if (prose.n_values == 0 && kind < 5)
        check_parts(&prose, &t, out, n);
    if (kind > 4)
        check_frame(document, bytes, kind == 6, out, n);
    free(out);
    render_whole(&prose, NULL, &out);
    free(out);
    prose_fini(&prose);
    dictionary_drop(dictionary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *document;

    if (size < 2)
        return 0;
    document = malloc(size - 1);
    if (!document)
        abort();
    for (size_t i = 2; i < size; i++)
        document[i - 2] = data[i] ? (char)data[i] : ' ';
    document[size - 2] = '\0';
    unicode_scrub(document);
    state = data[1];
    check(document, strlen(document), data[0] % 7);
    free(document);
    return 0;
}
