/* What of a document is text; and that none is read beyond its end: each stands against a page that
 * nobody may touch, so that one byte too far ends this program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "content/prose.h"
#include "content/render.h"

#define CUE "00:01.000 --> 00:02.000\n"

static const char *const documents[] = {
    "<![CDATA[",
    "<![CDATA[]]",
    "<![CDATA[<b]]>",
    "<![CDATA[&]]>",
    "<!DOCTYPE",
    "<!DOCTYPE [",
    "<!DOCTYPE [<!-",
    "<!DOCTYPE '",
    "<!DOCTYPE [<?",
    CUE "{\\",
    CUE "a{\\i",
    CUE "a<1",
    CUE "a<00:01.0",
    "<code>abc<",
    "<code>abc</",
    "<code>abc</code",
    "<code>abc<!",
    "<code>abc<code",
    "<code>abc<!--",
    "<svg>a<b></b<",
    "<b>abc<",
    "abc<",
    "<",
    "<b>abc</b",
    "<b a=",
    "<b a='",
    "<script>a</",
    "<script><![CDATA[",
    "<script><!-",
    "<script><?",
    "&",
    "abc&am",
    "<title>a<",
    "<p title='a'>a<",
    "<textarea>a</",
    "<code",
};

struct pages {
    char *first; /* the second one is nobody's */
    size_t bytes;
};

static struct pages map_pages(void)
{
    struct pages pages = {.bytes = (size_t)sysconf(_SC_PAGESIZE)};

    pages.first =
        mmap(NULL, 2 * pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages.first, MAP_FAILED);
    assert_int_equal(mprotect(pages.first + pages.bytes, pages.bytes, PROT_NONE), 0);
    return pages;
}

/* In each syntax, the last two of which are those of subtitles. */
static void read_as(const char *document, size_t bytes, enum html_syntax syntax,
                    struct prose *prose)
{
    const struct prose_markup markup = {.syntax = syntax, .with_attributes = true};
    const bool is_vtt = syntax == HTML_WEBVTT;

    if (syntax == HTML_SUBRIP || is_vtt)
        assert_int_equal(prose_read_subtitles(document, bytes, is_vtt, NULL, prose, NULL), 0);
    else
        assert_int_equal(prose_read_markup(document, bytes, &markup, NULL, prose, NULL), 0);
}

static void nothing_is_read_behind_the_document(void **state)
{
    const struct pages pages = map_pages();

    (void)state;
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        for (enum html_syntax syntax = HTML_PAGE; syntax <= HTML_WEBVTT; syntax++) {
            const size_t bytes = strlen(documents[i]);
            char *document = pages.first + pages.bytes - bytes;
            struct prose prose;

            memcpy(document, documents[i], bytes);
            read_as(document, bytes, syntax, &prose);
            prose_fini(&prose);
        }
    munmap(pages.first, 2 * pages.bytes);
}

/* ---- What is text ---------------------------------------------------------------------------- */

#define DOCTYPE "<!DOCTYPE n [\n<!ENTITY co \"A>]c\">\n<!-- it's ]> --><?p ']>?>\n]\n>"

#define LONG_NAME "a-name-that-is-longer-than-those-of-html"

/* What the engine is given, and what comes out where it says nothing; NULL: the document. */
static const struct reading {
    enum html_syntax syntax;
    const char *document, *text, *rendered;
} readings[] = {
    {HTML_XHTML,
     "<script src='a.js'/><title/><style/><iframe/><textarea/><p>A dog <code/>is <b/>here.</p>",
     "A dog is here.\n", NULL},
    {HTML_XHTML, "<table translate='no'><tr/><table/></table><li class='notranslate'><ul/></li>Go.",
     "Go.\n", NULL},
    {HTML_XHTML, "<script>a</script><title>A</title><code>b</code><p>C", "A\nX1\nC\n", NULL},
    {HTML_PAGE, "A <svg><style/><script/></svg> dog. <math><title/></math>", "A dog. \n", NULL},
    {HTML_PAGE, "<script/>A</script>B <code/>C</code>", "B X1\n", NULL},
    {HTML_XML, "<p>A&#160;dog.</p><p>&#xA0;</p>", "A\u00A0dog.\u00A0\n",
     "<p>A&#160;dog.</p><p>&#160;</p>"},
    {HTML_XHTML,
     "<script><![CDATA[\"<script></script>\"]]> <!-- </script> --> <? </script> ?></script><p>A "
     "dog.",
     "A dog.\n", NULL},
    {HTML_PAGE, "<script><![CDATA[</script>A dog.", "A dog.\n", NULL},
    {HTML_XHTML, "<title>A <!-- big --> dog</title><title><![CDATA[Q & A]]></title>",
     "A dog\nQ & A\n", NULL},
    {HTML_XHTML, "<p>A&nbsp;dog.</p>", "A\u00A0dog.\n", "<p>A&#160;dog.</p>"},
    {HTML_PAGE, "<p>A&#160;dog.</p>", "A\u00A0dog.\n", "<p>A&nbsp;dog.</p>"},
    {HTML_WEBVTT, CUE "A&nbsp;dog.", "A\u00A0dog.\n", NULL},
    {HTML_PAGE, "<p>Visit http://example.com&nbsp;or call.</p>", "Visit X1\u00A0or call.\n", NULL},
    {HTML_XML, "<p>See &lt;http://example.com/&gt; for more.</p>", "See X1 for more.\n", NULL},
    {HTML_XML, "&quot;http://a.b/c&quot; today", "\"X1\" today\n", "\"http://a.b/c\" today"},
    {HTML_XML, "&#39;http://a.b/c.&#39; at http://a.b/d&apos;e", "'X1.' at X2\n",
     "'http://a.b/c.' at http://a.b/d&apos;e"},
    {HTML_XML, "<r>Open &quot;\\\\host\\docs&quot;, then \\\\a\\b&amp;c.</r>",
     "Open \"X1\", then X2.\n", "<r>Open \"\\\\host\\docs\", then \\\\a\\b&amp;c.</r>"},
    {HTML_PAGE, "X<sub>1</sub>X and X<b>Q</b>2 {a}", "X1X and XQ2 PH1\n", NULL},
    {HTML_PAGE, "X&#49; X {a} <!DOCTYPE X1>", "X1 X XQ1 \n", "X1 X {a} <!DOCTYPE X1>"},
    {HTML_PAGE, "X {a}1 X{b}1 <i X1>X</i> Q1", "X X1 X2 X Q1\n", NULL},
    {HTML_SUBRIP, CUE "X{\\i1}1\nb {a}", "X1 b XQ1\n", NULL},
    {HTML_PAGE, "You have {n, plural, one {<b>#</b> dog<br>} other {# dogs}} <i>here</i>.",
     "You have X1 here.\n", NULL},
    {HTML_PAGE, "You have {n, plural, one {<svg><path d='M0'/></svg> <icon/> dog} other {dogs}}.",
     "You have X1.\n", NULL},
    {HTML_SUBRIP, CUE "A {n, select, a {<i>b</i>} other {c}}", "A X1\n", NULL},
    {HTML_PAGE, "<i>a {n, plural, one {</i>b}} c", "a n, plural, one b c\n", NULL},
    {HTML_PAGE, "<p>a {n, plural, one {<p title='}}'>b", "a n, plural, one \nb\n", NULL},
    {HTML_PAGE, "At http://a.b/?a=1&amp;b=2&c=3&lt=4 now", "At X1 now\n", NULL},
    {HTML_XML, "At http://a.b/?a&amp; or http://a.b/caf&eacute;.", "At X1 or X2.\n", NULL},
    {HTML_PAGE, "{{ a &lt; b }} and info@a.b&gt;", "X1 and X2\n", NULL},
    {HTML_SUBRIP, CUE "See http://a.b/&gt; now", "See X1; now\n", NULL},
    {HTML_PAGE, "詳細はhttp://example.comをご覧ください。", "詳細はX1をご覧ください。\n", NULL},
    {HTML_PAGE, "http://example.com:80에서 www.example.comที่", "X1에서 X2ที่\n", NULL},
    {HTML_PAGE, "http://www.例え.jpを http://例え.jp/パス http://a.b?c=値", "X1を X2 X3\n", NULL},
    {HTML_PAGE, "http://münchen.example 5", "X1 5\n", NULL},
    {HTML_PAGE, "Open file:///etc/hosts, file:///C:/a or file://server/a.", "Open X1, X2 or X3.\n",
     NULL},
    {HTML_PAGE, "Use redis://localhost:6379/0, GIT+ssh://git@a/b and s3://b/k!",
     "Use X1, X2 and X3!\n", NULL},
    {HTML_PAGE, "Well:// no:/a, a:///, 3://a and mailto: too.",
     "Well:// no:/a, a:///, 3://a and mailto: too.\n", NULL},
    {HTML_SUBRIP, CUE "{\\i1}A dog,{\\i0} and my {\\b1}old{\\b0} friend.{\\r}",
     "A dog, and my old friend.\n", NULL},
    {HTML_SUBRIP, CUE "a {\\i1 {\\b1} {\\\nc} {d}", "a i1 c X1\n", NULL},
    {HTML_PAGE, "<nav><a href=/>Home</a><a>Help</a><a><b>A</b><i>b</i></a><a> us</a></nav>",
     "Home\nHelp\nAb us\n", NULL},
    {HTML_XML, "<r><a>Save.</a><b>Cancel</b><c>or</c><d></d><e>go</e></r>", "Save.Cancelor\ngo\n",
     NULL},
    {HTML_PAGE, "<label>Name</label><input><label>Address</label><input>A<img>B <img>C",
     "Name\nAddress\nA\nB C\n", NULL},
    {HTML_PAGE, "<p>Press <kbd>Ctrl</p><p>Then <kbd><p>A</p></kbd> <span translate=no>b</p>go",
     "Press\nThen X1\ngo\n", NULL},
    {HTML_PAGE, "A &gt; b <i>&lt;</i> c&gt;d, e&lt;f -> <b>g</b> | h &amp; {i",
     "A\nb c\nd, e\nf\ng\nh & i\n", "A &gt; b <i>&lt;</i> c&gt;d, e&lt;f -> <b>g</b> | h &amp; {i"},
    {HTML_WEBVTT, CUE "A &gt; b > c", "A b c\n", NULL},
    {HTML_XML, DOCTYPE "<n>A &co; dog.</n>", "A X1 dog.\n", NULL},
    {HTML_XML, "<n>&product-name; &copy-right; &a.b_c:d; &caf\u00E9; &copy=1 &" LONG_NAME ";!</n>",
     "X1 X2 X3 X4 &copy=1 X5!\n",
     "<n>&product-name; &copy-right; &a.b_c:d; &caf\u00E9; &amp;copy=1 &" LONG_NAME ";!</n>"},
    {HTML_PAGE, "<p title='a &check; b' alt='&copy2026'>c</p>", "c\n\n\u00A92026",
     "<p title='a &check; b' alt='\u00A92026'>c</p>"},
    {HTML_XML, "<p title='&brand-new; dog' alt='a&#10;&#9;&#13;b\nc'/>", "\na\n\t\rb c",
     "<p title='&brand-new; dog' alt='a&#10;&#9;&#13;b c'/>"},
    {HTML_PAGE, "<p>&copy-right;</p>", "\u00A9-right;\n", "<p>\u00A9-right;</p>"},
    {HTML_XML, "<n>A <:b>dog</:b> :<_/></n>", "A dog :\n", NULL},
    {HTML_SUBRIP, CUE "A dog <:)", "A dog:)\n", NULL},
    {HTML_XHTML, DOCTYPE "<n>A dog.</n>", "A dog.\n", NULL},
    {HTML_XML, "<!DOCTYPE n><n>A dog.</n><!DOCTYPE [ >", "A dog.\n", NULL},
    {HTML_PAGE, "<!DOCTYPE a'[b>A dog.", "A dog.\n", NULL},
    {HTML_SUBRIP, "1:0 --> 1:1\rA dog\rsleeps.\r\r1:1 --> 1:2\r{\\i\r", "A dog sleeps.\ni\n", NULL},
    {HTML_SUBRIP, CUE "{\\i1}- A\nlonger.", "A longer.\n", NULL},
    {HTML_SUBRIP, CUE "A\n{{ user name }}", "A X1\n", NULL},
    {HTML_SUBRIP, CUE "`a b c`\nsaid", "X1 said\n", NULL},
    {HTML_SUBRIP, CUE "- Unparted\n<i>", "Unparted \n", NULL},
    {HTML_XML, "<n>A <![CDATA[dog & 5 < 6 >]]> is &lt;<![CDATA[]]>&gt;.</n>",
     "A\ndog & 5 6 \nis \n.\n", "<n>A <![CDATA[dog & 5 < 6 >]]> is &lt;<![CDATA[]]>&gt;.</n>"},
    {HTML_XML, "<n><![CDATA[<p>A <b>dog</b>&nbsp;is<br>here &amp; I</n></p>]]></n>",
     "A dog\u00A0is\nhere & I\n",
     "<n><![CDATA[<p>A <b>dog</b>&#160;is<br>here &amp; I</n></p>]]></n>"},
    {HTML_XHTML, "<p><![CDATA[a]]></p><code><![CDATA[b]]></code><![CDATA[<p>", "a\nX1\n", NULL},
    {HTML_PAGE, "<p><![CDATA[a]]></p>", "", NULL},
    {HTML_WEBVTT, CUE "I see<00:00:00.480><c> the old</c><00:00:01.000><c> house.</c>",
     "I see the old house.\n", NULL},
    {HTML_WEBVTT, CUE "A\n \ndog.\n\nNo cue.", "A\ndog.\n", NULL},
    {HTML_WEBVTT, CUE "It is <1 or < 2.", "It is 1 or 2.\n", CUE "It is &lt;1 or < 2."},
    {HTML_WEBVTT, CUE "It is <1 or <\n\nNote", "It is 1 or \n", CUE "It is &lt;1 or &lt;\n\nNote"},
    {HTML_WEBVTT, CUE "It is <1 or <", "It is 1 or \n", CUE "It is &lt;1 or <"},
    {HTML_SUBRIP, CUE "It is <1> or", "It is or\n", NULL},
};

/* XML whose ends of lines are those of the text. */
static const struct reading lines[] = {
    {HTML_XML, "Save it.\n\nThen close\r\n- One\n", "Save it.\nThen close\n- One\n", NULL},
    {HTML_XML, "<n>\n  <p>A <b>dog\n is</b> here.</p> \n</n>", "A dog\nis here.\n", NULL},
    {HTML_XML, "A <b> \n dog</b>&#10;is\there.", "A \ndog is here.\n", "A <b> \n dog</b> is here."},
    {HTML_XML, "<n><![CDATA[A\ndog.]]><![CDATA[<p>A\ndog.</p>]]></n>", "A\ndog.\nA dog.\n",
     "<n><![CDATA[A\ndog.]]><![CDATA[<p>A dog.</p>]]></n>"},
};

static char *render_nothing(const struct prose *prose)
{
    struct render_part part;
    struct render *render;

    assert_int_equal(render_open(prose, NULL, 0, false, &render, NULL), 0);
    render_rest(render);
    assert_int_equal(render_take(render, &part, NULL), 0);
    render_close(render);
    return part.text;
}

static void check_reading(const struct reading *expected, struct prose *prose)
{
    char *rendered;

    if (prose->text_bytes != strlen(expected->text) ||
        strncmp(prose->text ? prose->text : "", expected->text, prose->text_bytes) != 0)
        fail_msg("%s: expected \"%s\", found \"%.*s\"", expected->document, expected->text,
                 (int)prose->text_bytes, prose->text);
    rendered = render_nothing(prose);
    assert_string_equal(rendered, expected->rendered ? expected->rendered : expected->document);
    free(rendered);
    prose_fini(prose);
}

static void text_is_what_is_to_be_translated(void **state)
{
    struct prose prose;

    (void)state;
    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        read_as(readings[i].document, strlen(readings[i].document), readings[i].syntax, &prose);
        check_reading(&readings[i], &prose);
    }
}

static void ends_of_lines_are_those_of_the_text(void **state)
{
    const struct prose_markup markup = {.syntax = HTML_XML, .has_lines = true};
    struct prose prose;

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(prose_read_markup(lines[i].document, strlen(lines[i].document), &markup,
                                           NULL, &prose, NULL),
                         0);
        check_reading(&lines[i], &prose);
    }
}

static void no_words_of_a_text_look_like_masks(void **state)
{
    static const char document[] = "X\U0001F6001 is %s here.";
    static const struct reading read = {HTML_PAGE, document, "X1 is XQ1 here.", NULL};
    struct prose prose;

    (void)state;
    assert_int_equal(prose_read_text(document, sizeof(document) - 1, NULL, &prose, NULL), 0);
    check_reading(&read, &prose);
}

/* The first sentence of the text, of `bytes`, becomes `said`, each of whose characters comes from
 * the first one like it. */
static char *render_as(const struct prose *prose, size_t bytes, const char *said)
{
    struct acre_alignment characters[64];
    struct render_sentence sentence = {
        .source = {0, bytes}, .target = {0, strlen(said)}, .text = said, .alignments = characters};
    struct render_part part;
    struct render *render;

    for (size_t i = 0; said[i]; i++) {
        const char *from = memchr(prose->text, said[i], bytes);

        if (said[i] != ' ')
            characters[sentence.n_alignments++] = (struct acre_alignment){
                {from ? (size_t)(from - prose->text) : 0, from ? 1 : 0}, {i, 1}};
    }
    assert_int_equal(render_open(prose, NULL, 0, false, &render, NULL), 0);
    render_sentence(render, &sentence);
    render_rest(render);
    assert_int_equal(render_take(render, &part, NULL), 0);
    render_close(render);
    return part.text;
}

struct translation {
    enum html_syntax syntax;
    const char *document, *sentence, *said, *rendered;
};

static void check_translation(const struct translation *t)
{
    const size_t bytes = strlen(t->sentence);
    struct prose prose;
    char *rendered;

    read_as(t->document, strlen(t->document), t->syntax, &prose);
    assert_true(prose.text_bytes >= bytes);
    assert_memory_equal(prose.text, t->sentence, bytes);
    rendered = render_as(&prose, bytes, t->said);
    assert_string_equal(rendered, t->rendered);
    free(rendered);
    prose_fini(&prose);
}

#define CHECK_TRANSLATIONS(list)                                                                   \
    for (size_t i = 0; i < sizeof(list) / sizeof((list)[0]); i++)                                  \
    check_translation(&(list)[i])

/* The sign comes behind the brackets at once. */
static void brackets_end_no_section_of_xml(void **state)
{
    static const struct translation joined[] = {
        {HTML_XML, "<n><![CDATA[a ]] ><b>b</b>]]></n>", "a ]] b", "a ]]b",
         "<n><![CDATA[a ]]]]><![CDATA[><b>b</b>]]></n>"},
        {HTML_XML, "<n>a ]] ><b>b</b></n>", "a ]] b", "a ]]b", "<n>a ]]&gt;<b>b</b></n>"},
        {HTML_PAGE, "<p>a ]] ><b>b</b></p>", "a ]] b", "a ]]b", "<p>a ]]><b>b</b></p>"},
    };

    (void)state;
    CHECK_TRANSLATIONS(joined);
}

static void no_sign_ends_a_cue(void **state)
{
    static const struct translation joined[] = {
        {HTML_WEBVTT, CUE "a -- ><i>b</i>", "a -- b", "a --b", CUE "a --&gt;<i>b</i>"},
        {HTML_WEBVTT, CUE "a - -><i>b</i>", "a - b", "a -b", CUE "a --&gt;<i>b</i>"},
        {HTML_SUBRIP, CUE "a -- ><i>b</i>", "a -- b", "a --b", CUE "a --><i>b</i>"},
    };

    (void)state;
    CHECK_TRANSLATIONS(joined);
}

/* As models that write bytes may write them. */
static void no_controls_of_a_model_tear_a_document(void **state)
{
    static const struct translation odd[] = {
        {HTML_XML, "<n>a <b>b</b></n>", "a b",
         "\xEF\xBF\xBE"
         "a\x01 b\n",
         "<n>\uFFFD"
         "a\uFFFD <b>b</b>\n</n>"},
        {HTML_XML, "<n><![CDATA[a]]></n>", "a", "a\xEF\xBF\xBF", "<n><![CDATA[a\uFFFD]]></n>"},
        {HTML_PAGE, "<p>a</p>", "a", "a\x01\n", "<p>a\x01\n</p>"},
        {HTML_WEBVTT, CUE "a b", "a b", "a\n\r\nb", CUE "a   b"},
        {HTML_SUBRIP, CUE "a b", "a b", "a\n\nb", CUE "a  b"},
    };

    (void)state;
    CHECK_TRANSLATIONS(odd);
}

static void no_line_ends_with_a_quotation_mark(void **state)
{
    static const struct translation quoted[] = {
        {HTML_SUBRIP, CUE "a\nb", "a b", "« Abracadabra. »", CUE "« Abracadabra. »"},
        {HTML_SUBRIP, CUE "a\nb", "a b", "« Abra cadabra. »", CUE "« Abra\ncadabra. »"},
        {HTML_SUBRIP, CUE "a\nb", "a b", "Non, « abracadabra ».", CUE "Non,\n« abracadabra »."},
        {HTML_SUBRIP, CUE "a\nb", "a b", "Das »Abra« vom Kadabra.", CUE "Das »Abra«\nvom Kadabra."},
    };

    (void)state;
    CHECK_TRANSLATIONS(quoted);
}

static void an_element_that_goes_on_swallows_nothing_before_it(void **state)
{
    static const struct translation swapped[] = {
        {HTML_PAGE, "<p>a <img> <b>b c. d</b></p>", "a b c.", "a c b.",
         "<p>a <img> <b>c b. d</b></p>"},
        {HTML_PAGE, "<p>a <a id=n></a><a href=y>b c. d</a></p>", "a b c.", "a c b.",
         "<p>a <a id=n></a><a href=y>c b. d</a></p>"},
        {HTML_XML, "<r>a <x/><g>b c. d</g></r>", "a b c.", "a c b.", "<r>a <x/><g>c b. d</g></r>"},
    };

    (void)state;
    CHECK_TRANSLATIONS(swapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_behind_the_document),
        cmocka_unit_test(text_is_what_is_to_be_translated),
        cmocka_unit_test(ends_of_lines_are_those_of_the_text),
        cmocka_unit_test(no_words_of_a_text_look_like_masks),
        cmocka_unit_test(brackets_end_no_section_of_xml),
        cmocka_unit_test(no_sign_ends_a_cue),
        cmocka_unit_test(no_controls_of_a_model_tear_a_document),
        cmocka_unit_test(no_line_ends_with_a_quotation_mark),
        cmocka_unit_test(an_element_that_goes_on_swallows_nothing_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
