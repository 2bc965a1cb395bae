/* Documents made to be slow: four times as much of one takes at most about four times as long, to
 * read and to render. Each is one paragraph. Its translation are its own words, in an order that is
 * nearly theirs, so that marks are placed. A sentence of it is cut where an engine would, or is the
 * whole paragraph. Time is this thread's own, and the least of some tries: other work of the
 * machine makes it longer, never shorter. Nor do terms make a text slow by how they repeat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "content/render.h"
#include "content/terms.h"

/* Of the smaller size, a document takes 0.1 to 40 ms. */
enum { SMALL_BYTES = 60000, TIMES = 4, TRIES = 5, SENTENCE_WORDS = 512 };

/* A cost that is the square would be 16. Caches that overflow make it somewhat more than 4. */
static const double most = 8;

struct shape {
    const char *name;
    const char *before, *piece, *after; /* the document: pieces as often as they fit */
    bool is_text;                       /* else markup, */
    enum html_syntax syntax;            /* of this */
    bool is_whole;                      /* one sentence, of any length */
    bool has_terms;
};

#define CUE "00:01.000 --> 00:02.000\n"

#define FOUR(text) text text text text
#define OPEN FOUR(FOUR("w <img><b>"))
#define CLOSE FOUR(FOUR("</b>"))

static const struct shape shapes[] = {
    {"inline tags", "", "some <b>word</b> ", "", .is_whole = true},
    {"tags within words", "", "w<i>o</i>r<b>d</b>s ", "", .is_whole = true},
    {"tags without partner", "", "word </b> word <i> ", "", .is_whole = true},
    {"inline tags, short sentences", "", "some <b>word</b> ", "", .is_text = false},
    {"nested inline tags", "", "<b>word ", "", .is_text = false},
    {"nested blocks", "", "<div>", "word", .is_text = false},
    {"closed blocks", "", "</div>", "word", .is_text = false},
    {"elements that go on", "", "<p>" OPEN OPEN OPEN OPEN "<p>w" CLOSE CLOSE CLOSE CLOSE, "",
     .is_text = false},
    {"misnested", "", "<b><i>word</b></i> ", "", .is_text = false},
    {"attributes", "<p", " title=word", ">word</p>", .is_text = false},
    {"attributes of many", "", "<img title='some word' alt=more>", "", .is_text = false},
    {"unclosed tag", "word <a", " x", "", .is_text = false},
    {"unclosed comment", "word <!--", " <!-", "", .is_text = false},
    {"unclosed comments", "word ", "<!-- ", "", .is_text = false},
    {"oddly ended comments", "word ", "<!-- --!>", "", .is_text = false},
    {"dashes in comments", "word <!--", "--", "", .is_text = false},
    {"unclosed values", "word ", "<a b=\"", "", .is_text = false},
    {"unclosed scripts", "word <script>", "</scrip ", "", .is_text = false},
    {"unclosed sections of scripts", "<script>", "<![CDATA[ ", "", .syntax = HTML_XHTML},
    {"unclosed ignored", "word ", "<code>", "", .is_text = false},
    {"less than", "word ", "<", "", .is_text = false},
    {"entities", "", "&amp;w &eacute; ", "", .is_text = false},
    {"unknown entities", "", "&abcdefghi", "", .is_text = false},
    {"names of XML", "", "&-abcdefgh.", "", .syntax = HTML_XML},
    {"a name of XML", "http://a.b/&", "a-", "", .syntax = HTML_XML},
    {"ampersands", "", "&", "", .is_text = false},
    {"numbers", "", "&#00000000065", "", .is_text = false},
    {"links that end", "", "www.a&lt;", "", .is_text = false},
    {"servers that end", "", "\\\\a&lt;", "", .is_text = false},
    {"links of references", "http://a.b/", "&amp;c", "", .is_text = false},
    {"times in a cue", CUE, "<1", "", .syntax = HTML_WEBVTT},
    {"open codes", CUE, "{\\", "", .syntax = HTML_SUBRIP},
    {"codes", CUE, "word {\\i1} ", "", .syntax = HTML_SUBRIP},
    {"hashes in a cue of two lines", CUE "word\n", "#", "", .syntax = HTML_SUBRIP},
    {"unclosed declaration", "<!DOCTYPE [", "<!-- ' -->'<?", "", .syntax = HTML_XML},
    {"declarations", "", "<!DOCTYPE [", "", .syntax = HTML_XHTML},
    {"lines of an old system", "1:0 --> 1:1\r", "some words\r", "", .syntax = HTML_SUBRIP},
    {"sections", "", "<![CDATA[]] > & word]]>", "", .syntax = HTML_XML},
    {"a section", "<![CDATA[", "<b>word</i> ]]", "]]>", .syntax = HTML_XML},
    {"open sections", "", "<![CDATA[", "", .syntax = HTML_XML},
    {"placeholders", "", "word %s ", "", .is_text = true, .is_whole = true},
    {"placeholders in HTML", "", "word {name} ", "", .is_whole = true},
    {"all masks", "X1 XQ1 PH1 XKV1 {a} ", "X1 {a} ", "", .is_text = true, .is_whole = true},
    {"all masks in HTML", "X<b>1</b> XQ1 PH1 XKV1 {a} ", "X<b>1</b> {a} ", "", .is_whole = true},
    {"glued placeholders", "", "{a}{b}x", "", .is_text = true, .is_whole = true},
    {"open braces", "", "{", "", .is_text = true},
    {"links", "", "https://a.b/", "", .is_text = true},
    {"hosts", "", "a.a", "", .is_text = true},
    {"hosts in HTML", "", "a.de ", "", .is_text = false},
    {"files", "", "a/a", "", .is_text = true},
    {"names of programs", "", "a_a", "", .is_text = true},
    {"numbers", "", "1-1", "", .is_text = true},
    {"numbers in groups", "", "1111 ", "", .is_text = true},
    {"stars", "", "*", "", .is_text = true},
    {"stars in words", "", "a*", "", .is_text = true},
    {"hashes", "", "#", "", .is_text = true},
    {"ampersands in text", "", "&", "", .is_text = true},
    {"raised digits", "", "\u00B2", "", .is_text = true},
    {"words with raised digits", "", "abcd\u00B2", "", .is_text = true},
    {"per cents", "", "%-", "", .is_text = true},
    {"rules", "", "-", "", .is_text = true},
    {"rules in HTML", "", "=-", "", .is_text = false},
    {"open tags in text", "", "<a ", "", .is_text = true},
    {"open messages", "", "{a,plural,", "", .is_text = true},
    {"open messages in HTML", "", "{a,plural,<b>", "", .is_text = false},
    {"messages in HTML", "", "{a,plural,{<!--}}", "", .is_text = false},
    {"back quotes", "", "`", "", .is_text = true},
    {"backslashes", "", "\\", "", .is_text = true},
    {"servers", "", "\\\\a)", "", .is_text = true},
    {"drives", "", "C:\\a) C:\\", "", .is_text = true},
    {"separators", "", "w>w|", "", .is_text = true},
    {"separators in HTML", "", "w&gt;w|", "", .is_text = false},
    {"siblings", "", "<a>w</a>", "", .is_text = false},
    {"forgotten ends", "", "<kbd>w</p>", "", .is_text = false},
    {"units and apostrophes", "", "aaaa\u00B2'", "", .is_text = true},
    {"apostrophes and units in HTML", "", "\u2019aaaa\u2460", "", .is_text = false},
    {"notes and apostrophes", "", "\u00B9aaaa'", "", .is_text = true},
    {"possessives", "", "aaaa\u00B2's", "", .is_text = true},
    {"letters for apostrophes", "", "aaaa\u00B2\u02BC", "", .is_text = true},
    {"stars", "", "*a ", "", .is_text = true},
    {"wildcards", "", "*-", "", .is_text = true},
    {"patterns", "", "a-*-", "", .is_text = true},
    {"blanks before signs", "", " \u25B6 \u2265", "", .is_text = true},
    {"signs and blanks", "", " \u2605 ", "", .is_text = true},
    {"terms", "", "some term of many ", "", .is_text = true, .has_terms = true},
    {"terms in HTML", "", "some <b>term</b> of many ", "", .has_terms = true},
    {"terms and placeholders", "", "term %s of ", "", .is_text = true, .has_terms = true},
    {"hosts of terms", "", "a.de/", "", .is_text = true, .has_terms = true},
    {"hosts of terms in HTML", "", "a.de/", "", .has_terms = true},
};

/* ---- A translation --------------------------------------------------------------------------- */

struct translation {
    char *text;
    struct acre_alignment *alignments;
    struct acre_range *sentences;
    struct acre_part *parts;
    size_t n_words, n_sentences;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

/* Every other word comes from the one beside it. */
static void align(struct translation *t, struct acre_range word)
{
    struct acre_alignment *own = &t->alignments[t->n_words];

    *own = (struct acre_alignment){.source = word, .target = word};
    if (t->n_words++ % 2 == 0 || t->parts[t->n_sentences].n_tokens == 0)
        return;
    own->source = own[-1].source;
    own[-1].source = word;
}

static void add_word(struct translation *t, struct acre_range word, bool begins_line, bool is_whole)
{
    if (t->n_sentences > 0 && !begins_line &&
        (is_whole || t->parts[t->n_sentences - 1].n_tokens < SENTENCE_WORDS)) {
        t->n_sentences--;
    } else {
        t->sentences[t->n_sentences] = word;
        t->parts[t->n_sentences].n_tokens = 0;
    }
    align(t, word);
    t->parts[t->n_sentences].n_tokens++;
    t->sentences[t->n_sentences].n_bytes =
        word.first + word.n_bytes - t->sentences[t->n_sentences].first;
    t->n_sentences++;
}

static void translate(struct translation *t, const char *text, size_t bytes, bool is_whole)
{
    *t = (struct translation){.text = calloc(bytes + 1, 1),
                              .alignments = calloc(bytes + 1, sizeof(*t->alignments)),
                              .sentences = calloc(bytes + 1, sizeof(*t->sentences)),
                              .parts = calloc(bytes + 1, sizeof(*t->parts))};
    assert_true(t->text && t->alignments && t->sentences && t->parts);
    memcpy(t->text, text, bytes);
    for (size_t at = 0, begin; at < bytes;) {
        bool begins_line = false;

        while (at < bytes && is_blank(text[at]))
            begins_line = text[at++] == '\n' || begins_line;
        begin = at;
        while (at < bytes && !is_blank(text[at]))
            at++;
        if (at > begin)
            add_word(t, (struct acre_range){begin, at - begin}, begins_line, is_whole);
    }
}

static void free_translation(struct translation *t)
{
    free(t->text);
    free(t->alignments);
    free(t->sentences);
    free(t->parts);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static char *make(const struct shape *shape, size_t bytes)
{
    const size_t n = strlen(shape->piece);
    char *document = malloc(strlen(shape->before) + bytes + n + strlen(shape->after) + 1), *end;

    assert_non_null(document);
    end = stpcpy(document, shape->before);
    for (size_t i = 0; i < bytes; i += n)
        end = stpcpy(end, shape->piece);
    stpcpy(end, shape->after);
    return document;
}

static double render_s(const struct prose *prose, bool is_whole)
{
    struct translation t;
    struct render_part part;
    struct render *render;
    double begin;

    translate(&t, prose->text ? prose->text : "", prose->text_bytes, is_whole);
    const struct acre_hypothesis hypothesis = {.text = t.text,
                                               .n_tokens = t.n_words,
                                               .sentences = t.sentences,
                                               .parts = t.parts,
                                               .alignments = t.alignments};
    const struct acre_result result = {.hypotheses = &hypothesis,
                                       .n_hypotheses = 1,
                                       .sentences = t.sentences,
                                       .n_sentences = t.n_sentences};
    begin = now_s();
    assert_int_equal(render_open(prose, &result, 0, false, &render, NULL), 0);
    while (render_next(render))
        continue;
    assert_int_equal(render_take(render, &part, NULL), 0);
    render_close(render);
    begin = now_s() - begin;
    free(part.text);
    free_translation(&t);
    return begin;
}

static double once_s(const struct shape *shape, const char *document, struct dictionary *dictionary)
{
    const struct prose_markup markup = {.syntax = shape->syntax, .with_attributes = true};
    const struct known terms = {.dictionaries = &dictionary, .n_dictionaries = 1};
    const struct known *known =
        shape->has_terms ? &terms : NULL; /* of ASCII, for want of a model */
    const size_t bytes = strlen(document);
    const double begin = now_s();
    struct prose prose;
    double seconds;

    if (shape->syntax == HTML_SUBRIP || shape->syntax == HTML_WEBVTT)
        assert_int_equal(
            prose_read_subtitles(document, bytes, shape->syntax == HTML_WEBVTT, NULL, &prose, NULL),
            0);
    else if (shape->is_text)
        assert_int_equal(prose_read_text(document, bytes, known, &prose, NULL), 0);
    else
        assert_int_equal(prose_read_markup(document, bytes, &markup, known, &prose, NULL), 0);
    if (shape->has_terms)
        assert_int_equal(terms_mark(&prose, &dictionary, 1, NULL), 0);
    seconds = now_s() - begin + render_s(&prose, shape->is_whole);
    prose_fini(&prose);
    return seconds;
}

static double least_s(const struct shape *shape, size_t bytes, struct dictionary *dictionary)
{
    char *document = make(shape, bytes);
    double least = once_s(shape, document, dictionary);

    for (int i = 1; i < TRIES; i++) {
        const double seconds = once_s(shape, document, dictionary);

        least = seconds < least ? seconds : least;
    }
    free(document);
    return least;
}

static struct dictionary *make_dictionary(void)
{
    static const char *const terms[] = {"term", "of", "a", ".", "de", "/"};
    struct dictionary *dictionary = dictionary_open(1 << 20);

    assert_non_null(dictionary);
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
        assert_int_equal(dictionary_add(dictionary, terms[i], strlen(terms[i]), "Wort", 4, NULL),
                         0);
    assert_int_equal(dictionary_seal(dictionary, NULL), 0);
    return dictionary;
}

static void test_time_grows_with_bytes(void **state)
{
    struct dictionary *dictionary = make_dictionary();
    int n_slow = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const double one = least_s(&shapes[i], SMALL_BYTES, dictionary),
                     four = least_s(&shapes[i], TIMES * SMALL_BYTES, dictionary);

        print_message("%-30s %7.2f ms, of four times as much %7.2f ms: %.1f\n", shapes[i].name,
                      1e3 * one, 1e3 * four, four / one);
        n_slow += four / one > most;
    }
    dictionary_drop(dictionary);
    assert_int_equal(n_slow, 0);
}

/* "A." so often, and "a", which a sentence could begin with wherever an "A" stands. */
static struct dictionary *make_repeated(size_t n)
{
    struct dictionary *dictionary = dictionary_open(1 << 20);
    char term[DICTIONARY_TERM_BYTES + 1] = "";

    assert_non_null(dictionary);
    for (size_t i = 0; i < n; i++)
        strcat(term, "A.");
    assert_int_equal(dictionary_add(dictionary, term, 2 * n, "x", 1, NULL), 0);
    assert_int_equal(dictionary_add(dictionary, "a", 1, "y", 1, NULL), 0);
    assert_int_equal(dictionary_seal(dictionary, NULL), 0);
    return dictionary;
}

static void test_time_does_not_grow_with_terms(void **state)
{
    static const struct shape shape = {"", "", "A.", "", .is_text = true, .has_terms = true};
    struct dictionary *shorter = make_repeated(16), *longer = make_repeated(511);
    const double one = least_s(&shape, SMALL_BYTES, shorter),
                 other = least_s(&shape, SMALL_BYTES, longer);

    (void)state;
    print_message("of 16 repeated words %.2f ms, of 511 %.2f ms\n", 1e3 * one, 1e3 * other);
    dictionary_drop(shorter);
    dictionary_drop(longer);
    assert_true(other < 4 * one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_grows_with_bytes),
        cmocka_unit_test(test_time_does_not_grow_with_terms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
