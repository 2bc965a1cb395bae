/* Splitting texts into sentences: known texts, properties over random ones (joined again they are
 * what they were), over-long ones and large ones. Runs in the root of the tree.
 */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <time.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include "../support/random.h"
#include "../support/split.h"
#include "../support/temp.h"
#include "base/mem.h"
#include "text/splitter.h"
#include "text/utf8.h"

#define GOLDEN "tests/golden/tokenizer"
#define NBSP "\xC2\xA0"
#define IDEOGRAPHIC_SPACE "\xE3\x80\x80"
#define MAN "\xF0\x9F\x91\xA8"
#define JOINER "\xE2\x80\x8D"
#define WOMAN "\xF0\x9F\x91\xA9"
#define LINE_SEPARATOR "\xE2\x80\xA8"

#if defined(__SANITIZE_ADDRESS__)
enum { LARGE = 1 << 17 }; /* takes thirty times as long with the sanitizer */
#else
enum { LARGE = 1 << 19 };
#endif
enum { PIECES = 901, SHIPPED_PIECES = 8000 };

static struct tokenizer *pieces, *bytes, *shipped; /* the last spells what it has no piece for */
static char byte_directory[sizeof(TEMP_TEMPLATE)];

static int open_all(void **state)
{
    (void)state;
    temp_make(byte_directory);
    temp_write_text(byte_directory, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"ByteTokenizer\"}");
    return tokenizer_open(GOLDEN, PIECES, "", &pieces, NULL) ||
           tokenizer_open(byte_directory, 258, "", &bytes, NULL) ||
           tokenizer_open("models/en-de-token", SHIPPED_PIECES, "", &shipped, NULL);
}

static int close_all(void **state)
{
    (void)state;
    tokenizer_close(pieces);
    tokenizer_close(bytes);
    tokenizer_close(shipped);
    temp_remove(byte_directory);
    return 0;
}

/* ---- Known texts ----------------------------------------------------------------------------- */

struct splitting {
    const char *language, *text;
    const char *sentences[8];
};

static const struct splitting splittings[] = {
    {"en", "", {0}},
    {"en", " \n\t" NBSP IDEOGRAPHIC_SPACE LINE_SEPARATOR "\r\n", {0}},
    {"en", "Hello.", {"Hello."}},
    {"en", "  Hello. How are you?  ", {"Hello.", "How are you?"}},
    {"en", "No end mark", {"No end mark"}},
    {"en",
     "One line\nand another\r\n\r\nthird\rfourth\vfifth\fsixth",
     {"One line", "and another", "third", "fourth", "fifth", "sixth"}},
    {"en", "\tName:\t\tJohn Doe\tAge: \t42", {"Name:", "John Doe", "Age:", "42"}},
    {"en",
     "a" LINE_SEPARATOR "b\xE2\x80\xA9"
     "c\xC2\x85"
     "d",
     {"a", "b", "c", "d"}},
    {"en", "Mr. Smith met Dr. Jones. They talked.", {"Mr. Smith met Dr. Jones.", "They talked."}},
    {"en",
     "J. R. Smith and Prof. Miller paid $3.50 at 5 p.m. on Monday. Good!",
     {"J. R. Smith and Prof. Miller paid $3.50 at 5 p.m. on Monday.", "Good!"}},
    {"en", "The U.S. Army is here. It left.", {"The U.S. Army is here.", "It left."}},
    {"en",
     "Use metals, e.g. Gold. Or i.e. Silver, z.B. Kupfer.",
     {"Use metals, e.g. Gold.", "Or i.e. Silver, z.B. Kupfer."}},
    {"en",
     "Apples, pears, etc. They grow. Drs. A. and B. agree vs. C. D.",
     {"Apples, pears, etc.", "They grow.", "Drs. A. and B. agree vs. C. D."}},
    {"en", "It was 3. The end.", {"It was 3.", "The end."}},
    {"en", "See No. 7. He said no. Then he left.", {"See No. 7.", "He said no.", "Then he left."}},
    {"en",
     "It is on Jan. 5, 2024. It ended in Jan. Then came Feb. 3.",
     {"It is on Jan. 5, 2024.", "It ended in Jan.", "Then came Feb. 3."}},
    {"en", "(cf. p. 12). It takes approx. 50 s. 3", {"(cf. p. 12).", "It takes approx. 50 s. 3"}},
    {"de",
     "Man nimmt z. B. Gold, i. d. R. Silber. \xC3\x9C"
     "ber Abs. 3 BGB.",
     {"Man nimmt z. B. Gold, i. d. R. Silber.", "\xC3\x9C"
                                                "ber Abs. 3 BGB."}},
    {"de",
     "Der Hl. Nikolaus gab 5 Mio. Euro. D. h. am 5. M\xC3\xA4r. 1990.",
     {"Der Hl. Nikolaus gab 5 Mio. Euro.", "D. h. am 5. M\xC3\xA4r. 1990."}},
    {"fr", "Voir p. 5. C'est av. J.-C. 3", {"Voir p. 5.", "C'est av. J.-C. 3"}},
    {"de",
     "Am 3. Oktober war es kalt. Dann kam Hr. Weber.",
     {"Am 3. Oktober war es kalt.", "Dann kam Hr. Weber."}},
    {"de", "Das war 1990. Dann kam er.", {"Das war 1990.", "Dann kam er."}},
    {"fr",
     "Bonjour M. Dupont. \xC3\x87"
     "a va ?",
     {"Bonjour M. Dupont.", "\xC3\x87"
                            "a va ?"}},
    {"", "One. Two.", {"One.", "Two."}},
    {"zz", "One. Two.", {"One.", "Two."}},
    {"en", "...", {0}},
    {"en", "\xF0\x9F\x98\x80 \n!", {0}},
    {"en", "\xF0\x9F\x98\x80\nSee 3!", {"See 3!"}},
    {"en", "\xEF\xBB\xBFWith a mark.\xE2\x80\x8B ", {"With a mark."}},
    {"en",
     NBSP "Spaces" NBSP "inside." IDEOGRAPHIC_SPACE "Next.",
     {"Spaces" NBSP "inside.", "Next."}},
    {"ja",
     "\xE4\xBB\x8A\xE6\x97\xA5\xE3\x80\x82\xE6\x98\x8E\xE6\x97\xA5\xE3\x80\x82",
     {"\xE4\xBB\x8A\xE6\x97\xA5\xE3\x80\x82", "\xE6\x98\x8E\xE6\x97\xA5\xE3\x80\x82"}},
    {"en", "He said \"Stop.\" Then he left.", {"He said \"Stop.\"", "Then he left."}},
    {"en", "Really?! Yes.", {"Really?!", "Yes."}},
    {"en",
     "\"Really?\"  she asked. \"No!\" He left.",
     {"\"Really?\"  she asked.", "\"No!\"", "He left."}},
    {"en",
     "They (all?) left. \"Who?\"\nme! why? i see",
     {"They (all?) left.", "\"Who?\"", "me!", "why?", "i see"}},
};

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(splittings) / sizeof(splittings[0]); i++) {
        const struct splitting *each = &splittings[i];
        struct document document;
        struct acre_err err = {0};
        if (split_text(&document, each->text, strlen(each->text), bytes, each->language, 500, &err))
            fail_msg("%s", err.text);
        for (size_t s = 0; s < document.n_sentences; s++) {
            const struct document_sentence *found = &document.sentences[s];
            const char *expected = each->sentences[s];
            if (!expected || strlen(expected) != found->n_bytes ||
                memcmp(expected, document.text + found->first, found->n_bytes))
                fail_msg("\"%s\": sentence %zu: expected \"%s\", found \"%.*s\"", each->text, s,
                         expected ? expected : "nothing", (int)found->n_bytes,
                         document.text + found->first);
        }
        if (each->sentences[document.n_sentences])
            fail_msg("\"%s\": \"%s\" is missing", each->text,
                     each->sentences[document.n_sentences]);
        document_fini(&document);
    }
}

/* What the vocabulary has no word of comes out as it went in; one known word is enough. */
static void test_unknown(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n_sentences;
    } texts[] = {
        {"\xE4\xBD\xA0\xE5\xA5\xBD", 0},                  /* Chinese */
        {"\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7.", 0}, /* Arabic and a full stop */
        {"\xE4\xBD\xA0\xE5\xA5\xBD. The house.", 1},      /* the second sentence */
        {"The \xE4\xBD\xA0\xE5\xA5\xBD house.", 1},
    };
    for (size_t i = 0; i < 2 * sizeof(texts) / sizeof(texts[0]); i++) {
        struct document document;
        const char *text = texts[i / 2].text;
        assert_int_equal(
            split_text(&document, text, strlen(text), i % 2 ? shipped : pieces, "en", 50, NULL), 0);
        assert_int_equal(document.n_sentences, texts[i / 2].n_sentences);
        document_fini(&document);
    }
}

/* The tokenizer of the tree, in which a rare piece is a second language code. */
static struct tokenizer *open_codes(char directory[sizeof(TEMP_TEMPLATE)])
{
    static const char *const files[] = {"source.spm", "target.spm", "tokenizer_config.json"};
    static const char rare[] = "\"\xE2\x96\x81\xC3\xBC"
                               "ber\"",
                      code[] = "\">>fr<<\"  ";
    static char vocab[1 << 16], path[256];
    struct tokenizer *tokenizer;
    temp_make(directory);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), GOLDEN "/%s", files[i]);
        temp_copy(directory, files[i], path);
    }
    FILE *file = fopen(GOLDEN "/vocab.json", "r");
    assert_non_null(file);
    vocab[fread(vocab, 1, sizeof(vocab) - 1, file)] = '\0';
    fclose(file);
    memcpy(strstr(vocab, rare), code, strlen(code));
    temp_write_text(directory, "vocab.json", vocab);
    assert_int_equal(tokenizer_open(directory, PIECES, "", &tokenizer, NULL), 0);
    return tokenizer;
}

/* A language code steers the sentences behind it, too, and all pieces of one; none becomes known by
 * it, and none longer than may be. */
static void test_codes(void **state)
{
    (void)state;
    enum { DE = 899, FR = 898, MAX_TOKENS = 8 };
    static const char text[] =
        "The house. >>de<< The house! The garden.\n\xE4\xBD\xA0\xE5\xA5\xBD.\n"
        "no >>fr<<\n>>fr<< The house, the garden, the house.";
    static const struct {
        const char *own;
        int32_t code;
    } expected[] = {{"The house.", -1}, {">>de<< The house!", DE}, {"The garden.", DE},
                    {"no >>fr<<", DE},  {">>fr<< The house,", FR}, {"the garden,", FR},
                    {"the house.", FR}};
    char directory[sizeof(TEMP_TEMPLATE)];
    struct tokenizer *tokenizer = open_codes(directory);
    struct document document;
    assert_int_equal(split_text(&document, text, strlen(text), tokenizer, "en", MAX_TOKENS, NULL),
                     0);
    for (size_t s = 0; s < document.n_sentences; s++) {
        const struct document_sentence *sentence = &document.sentences[s];
        const char *own = document.text + sentence->first;
        struct tokens tokens = {0};
        assert_int_equal(sentence->n_bytes, strlen(expected[s].own));
        assert_memory_equal(own, expected[s].own, sentence->n_bytes);
        assert_true(expected[s].code < 0 || sentence->source.ids[0] == expected[s].code);
        assert_true(sentence->source.n <= MAX_TOKENS);
        tokenizer_encode(tokenizer, own, sentence->n_bytes, &tokens, NULL);
        assert_int_equal(sentence->n_before, expected[s].code >= 0 && *own != '>');
        assert_int_equal(sentence->source.n, sentence->n_before + tokens.n);
        assert_memory_equal(sentence->source.ids + sentence->n_before, tokens.ids,
                            tokens.n * sizeof(*tokens.ids));
        tokens_fini(&tokens);
    }
    assert_int_equal(document.n_sentences, sizeof(expected) / sizeof(expected[0]));
    document_fini(&document);
    tokenizer_close(tokenizer);
    temp_remove(directory);
}

/* A code is no word that the vocabulary knows: what has no other stays as it is. */
static void test_codes_alone(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)];
    struct tokenizer *tokenizer = open_codes(directory);
    static const char *texts[] = {">>de<<\nThe house.", ">>de<< \xE4\xBD\xA0.\nThe house."};
    for (size_t i = 0; i < 2; i++) {
        struct document document;
        assert_int_equal(
            split_text(&document, texts[i], strlen(texts[i]), tokenizer, "en", 8, NULL), 0);
        assert_int_equal(document.n_sentences, 1);
        assert_int_equal(document.sentences[0].first, strchr(texts[i], '\n') + 1 - texts[i]);
        assert_int_equal(document.sentences[0].n_before, 1);
        document_fini(&document);
    }
    tokenizer_close(tokenizer);
    temp_remove(directory);
}

static void test_bad_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"abc\xFF", "byte 3: expected UTF-8, found 0xFF"},
        {"\xC3", "byte 0: expected UTF-8, found 0xC3"},
        {"a. b \xED\xA0\x80", "byte 5: expected UTF-8, found 0xED"},
        {"a\xC0\xAF", "byte 1: expected UTF-8, found 0xC0"},
        {"a\xF4\x90\x80\x80", "byte 1: expected UTF-8, found 0xF4"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct document document;
        struct acre_err err = {0};
        assert_int_equal(
            split_text(&document, bad[i].text, strlen(bad[i].text), bytes, "en", 50, &err),
            ACRE_EINPUT);
        assert_string_equal(err.text, bad[i].message);
    }
    struct document document;
    struct acre_err err = {0};
    assert_int_equal(split_text(&document, "ab\xF0\x9F\x98\x80", 6, bytes, "en", 3, &err),
                     ACRE_EINPUT);
    assert_string_equal(err.text, "byte 2: expected a character of at most 3 tokens, found more");
    assert_int_equal(split_text(&document, "abc\0d", 5, bytes, "en", 9, &err), ACRE_EINPUT);
    assert_string_equal(err.text, "byte 3: expected text, found U+0000");
    assert_int_equal(split_text(&document, NULL, 0, bytes, "en", 3, &err), 0);
    assert_int_equal(document.n_sentences, 0);
    document_fini(&document);
}

/* ---- Properties ------------------------------------------------------------------------------ */

static uint32_t draw(uint32_t n)
{
    return (uint32_t)random_pick(0, n - 1);
}

static size_t put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | c);
    return n;
}

static uint32_t draw_character(void)
{
    static const uint32_t special[] = {' ',    '.',     ',',    '\n',   '\r',   '!',     0xA0,
                                       0x3000, 0x2028,  0x3002, 0x301,  0x200D, 0x1F600, 0xFEFF,
                                       0x200B, 0x1F3FD, 0x85,   0x2581, '>',    '<',     ';'};
    uint32_t kind = draw(10), c;
    if (kind < 5)
        return 'a' + draw(26);
    if (kind < 8)
        return special[draw(sizeof(special) / sizeof(special[0]))];
    do
        c = 1 + draw(kind == 8 ? 0x7FF : 0x10FFFE);
    while (c >= 0xD800 && c < 0xE000);
    return c;
}

/* Bytes between sentences must be what is kept, and sentences neither empty nor padded. */
static void check_shape(const struct document *document, size_t max_tokens)
{
    size_t at = 0;
    for (size_t s = 0; s < document->n_sentences; s++) {
        const struct document_sentence *sentence = &document->sentences[s];
        assert_true(sentence->first >= at && sentence->n_bytes > 0);
        at = sentence->first + sentence->n_bytes;
        assert_true(at <= document->text_bytes);
        assert_true(sentence->source.n > 0 && sentence->source.n <= max_tokens);
        assert_false(strchr(" \t\n\r", document->text[sentence->first]));
        assert_false(strchr(" \t\n\r", document->text[at - 1]));
        assert_int_equal(utf8_check(document->text + sentence->first, sentence->n_bytes),
                         sentence->n_bytes);
    }
}

/* The text as ICU composes it, to be freed. */
static char *in_nfc(const char *text, size_t n_bytes)
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t room = 9 * (int32_t)n_bytes, n;
    UChar *plain = mem_alloc((size_t)room * 2), *units = mem_alloc((size_t)room * 2);
    char *composed = mem_alloc((size_t)room + 1);
    u_strFromUTF8(plain, room, &n, text, (int32_t)n_bytes, &status);
    n = unorm2_normalize(unorm2_getNFCInstance(&status), plain, n, units, room, &status);
    u_strToUTF8(composed, room + 1, NULL, units, n, &status);
    assert_true(U_SUCCESS(status));
    mem_free(plain);
    mem_free(units);
    return composed;
}

static void check_tokens(const struct document *document, const struct tokenizer *tokenizer)
{
    for (size_t s = 0; s < document->n_sentences; s++) {
        const struct document_sentence *sentence = &document->sentences[s];
        struct tokens tokens = {0};
        tokenizer_encode(tokenizer, document->text + sentence->first, sentence->n_bytes, &tokens,
                         NULL);
        assert_int_equal(tokens.n, sentence->source.n);
        assert_memory_equal(tokens.ids, sentence->source.ids, tokens.n * sizeof(*tokens.ids));
        tokens_fini(&tokens);
        if (!tokenizer_is_bytes(tokenizer))
            continue;
        char *text, *composed = in_nfc(document->text + sentence->first, sentence->n_bytes);
        assert_int_equal(
            tokenizer_decode(tokenizer, sentence->source.ids, sentence->source.n, &text, NULL), 0);
        assert_string_equal(text, composed);
        mem_free(text);
        mem_free(composed);
    }
}

static void check_identity(const struct document *document, const char *text)
{
    const char **copies = mem_alloc((document->n_sentences + 1) * sizeof(*copies));
    struct acre_range *places = mem_alloc((document->n_sentences + 1) * sizeof(*places));
    for (size_t s = 0; s < document->n_sentences; s++)
        copies[s] = mem_copy_text(document->text + document->sentences[s].first,
                                  document->sentences[s].n_bytes);
    char *joined;
    assert_int_equal(document_join(document, copies, &joined, places, NULL), 0);
    assert_string_equal(joined, text);
    for (size_t s = 0; s < document->n_sentences; s++)
        mem_free((char *)(uintptr_t)copies[s]);
    for (size_t s = 0; s < document->n_sentences; s++)
        assert_int_equal(places[s].first, document->sentences[s].first);
    mem_free(copies);
    mem_free(places);
    mem_free(joined);
}

static void check_text(const char *text, size_t n, const struct tokenizer *tokenizer,
                       const char *language, size_t max_tokens)
{
    struct document document;
    struct acre_err err = {0};
    if (split_text(&document, text, n, tokenizer, language, max_tokens, &err))
        fail_msg("%s", err.text);
    check_shape(&document, max_tokens);
    check_tokens(&document, tokenizer);
    check_identity(&document, text);
    document_fini(&document);
}

static void test_random(void **state)
{
    (void)state;
    static const char *const languages[] = {"en", "de", "fr", "ja", ""};
    char text[4 * 600 + 1];
    for (int round = 0; round < 2000; round++) {
        size_t n = 0;
        for (uint32_t left = draw(round % 10 ? 100 : 600); left > 0; left--)
            n += put(text + n, draw_character());
        text[n] = '\0';
        bool is_bytes = round & 1;
        /* NFKC makes 18 letters of U+FDFA */
        check_text(text, n, is_bytes ? bytes : pieces, languages[draw(5)],
                   (is_bytes ? 4 : 40) + draw(60));
    }
}

/* ---- Long sentences -------------------------------------------------------------------------- */

static void check_cut(const char *text, size_t max_tokens, size_t n_expected,
                      const char *const *expected)
{
    struct document document;
    assert_int_equal(split_text(&document, text, strlen(text), bytes, "en", max_tokens, NULL), 0);
    for (size_t s = 0; s < document.n_sentences && s < n_expected; s++) {
        const struct document_sentence *found = &document.sentences[s];
        if (strlen(expected[s]) != found->n_bytes ||
            memcmp(expected[s], document.text + found->first, found->n_bytes))
            fail_msg("piece %zu: expected \"%s\", found \"%.*s\"", s, expected[s],
                     (int)found->n_bytes, document.text + found->first);
    }
    assert_int_equal(document.n_sentences, n_expected);
    document_fini(&document);
}

static void test_places(void **state)
{
    (void)state;
    check_cut("one two three, four five", 20, 2,
              (const char *const[]){"one two three,", "four five"});
    check_cut("one two three four five", 20, 2,
              (const char *const[]){"one two three four", "five"});
    check_cut("etc. and a, b and c dd", 20, 2, (const char *const[]){"etc. and a,", "b and c dd"});
    check_cut("aaaa bbbb cccc. dd, eeee ff", 20, 2,
              (const char *const[]){"aaaa bbbb cccc.", "dd, eeee ff"});
    check_cut("abcdefghijklmnopqrstuvwxyz", 10, 3,
              (const char *const[]){"abcdefghij", "klmnopqrst", "uvwxyz"});
    /* not within a letter and its accent, nor within a character */
    check_cut("abcdefghie\xCC\x81xyz", 10, 2, (const char *const[]){"abcdefghi", "e\xCC\x81xyz"});
    check_cut("abcdefgh" MAN JOINER WOMAN "xyz", 15, 2,
              (const char *const[]){"abcdefgh", MAN JOINER WOMAN "xyz"});
    check_cut("abcdefgh" MAN JOINER WOMAN "xyz", 12, 3,
              (const char *const[]){"abcdefgh", MAN JOINER WOMAN "x", "yz"});
    check_cut("\xE4\xBB\x8A\xE6\x97\xA5\xE4\xBB\x8A\xE6\x97\xA5", 8, 2,
              (const char *const[]){"\xE4\xBB\x8A\xE6\x97\xA5", "\xE4\xBB\x8A\xE6\x97\xA5"});
    /* after a Chinese comma rather than after the last character */
    check_cut(
        "\xE4\xBB\x8A\xE6\x97\xA5\xEF\xBC\x8C\xE4\xBB\x8A\xE6\x97\xA5", 12, 2,
        (const char *const[]){"\xE4\xBB\x8A\xE6\x97\xA5\xEF\xBC\x8C", "\xE4\xBB\x8A\xE6\x97\xA5"});
}

static void check_filling(const char *text, size_t n)
{
    struct document document;
    size_t n_tokens = 0;
    assert_int_equal(split_text(&document, text, n, pieces, "en", 128, NULL), 0);
    for (size_t s = 0; s < document.n_sentences; s++)
        n_tokens += document.sentences[s].source.n;
    assert_true(document.n_sentences > 1);
    assert_true(n_tokens / document.n_sentences >= 128 * 2 / 3);
    document_fini(&document);
}

/* Pieces of a text without any end should be filled well, not cut to shreds, whether it has many
 * tokens for its bytes or few. */
static void test_filling(void **state)
{
    (void)state;
    static char text[20001];
    for (size_t i = 0; i < 20000; i++)
        text[i] = i % 6 == 5 ? ' ' : (char)('a' + draw(26));
    check_filling(text, 20000);
    for (size_t i = 0; i < 20000; i++)
        text[i] = i % 20 ? ' ' : 'a';
    check_filling(text, 20000);
}

/* ---- Long texts ------------------------------------------------------------------------------ */

/* `first`, then `unit` repeated to about `size` bytes. Owned by the caller. */
static char *repeat(const char *first, const char *unit, size_t size)
{
    char *text = mem_alloc(size + 256), *end = stpcpy(text, first);
    while ((size_t)(end - text) < size)
        end = stpcpy(end, unit);
    stpcpy(end, "b");
    return text;
}

static void check_same(const struct document *parts, const struct document *whole)
{
    assert_int_equal(parts->n_sentences, whole->n_sentences);
    for (size_t s = 0; s < whole->n_sentences; s++) {
        const struct document_sentence *a = &parts->sentences[s], *b = &whole->sentences[s];
        assert_int_equal(a->first, b->first);
        assert_int_equal(a->n_bytes, b->n_bytes);
        assert_int_equal(a->source.n, b->source.n);
        assert_memory_equal(a->source.ids, b->source.ids, a->source.n * sizeof(*a->source.ids));
    }
}

/* Splits in parts of max_bytes and says how many there were. */
static size_t split_parts(struct document *document, const char *text, size_t max_bytes,
                          enum acre_split split)
{
    struct splitter *splitter;
    bool is_done = false;
    size_t n = 0;
    assert_int_equal(
        splitter_open(document, text, strlen(text), pieces, "en", 20, split, &splitter, NULL), 0);
    for (; !is_done; n++)
        assert_int_equal(splitter_continue(splitter, max_bytes, &is_done, NULL), 0);
    splitter_close(splitter);
    return n;
}

/* What ends a sentence is the caller's choice; what is too long is cut all the same. */
static void test_split_choices(void **state)
{
    (void)state;
    static const struct {
        enum acre_split split;
        const char *text, *sentences[5];
    } cases[] = {
        {ACRE_SPLIT_LINES, "One two\nthree. Four.", {"One two", "three.", "Four."}},
        {ACRE_SPLIT_SENTENCES, "One two\nthree. Four.", {"One two\nthree.", "Four."}},
        {ACRE_SPLIT_SENTENCES, "One.\nTwo\r\n\nthree", {"One.", "Two\r\n\nthree"}},
        {ACRE_SPLIT_SENTENCES, "\"One!\")\n Two", {"\"One!\")", "Two"}},
        {ACRE_SPLIT_SENTENCES, " \nOne\n ", {"One"}},
        {ACRE_SPLIT_NOTHING, " One. Two\nthree.\n\nFour. ", {"One. Two\nthree.\n\nFour."}},
        {ACRE_SPLIT_NOTHING, " \n ", {0}},
        {ACRE_SPLIT_ONLY_LINES, "One. Two\n\nthree. \n Four.", {"One. Two", "three.", "Four."}},
        {ACRE_SPLIT_NOTHING,
         "One two three four five. One two three four five six seven",
         {"One two three four five.", "One two three four five", "six seven"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct document document;
        size_t n = 0;
        split_parts(&document, cases[i].text, 3, cases[i].split);
        for (; cases[i].sentences[n]; n++) {
            assert_true(n < document.n_sentences);
            const struct document_sentence *found = &document.sentences[n];
            assert_int_equal(found->n_bytes, strlen(cases[i].sentences[n]));
            assert_memory_equal(document.text + found->first, cases[i].sentences[n],
                                found->n_bytes);
        }
        assert_int_equal(document.n_sentences, n);
        document_fini(&document);
    }
}

/* Each choice is linear where line ends are all there is. */
static void test_split_choices_of_many_lines(void **state)
{
    (void)state;
    static const char *const units[] = {")\n", "\n", "a\n", "...\n", "a)\n"};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        char *text = repeat("a", units[i], LARGE / 8);
        for (int split = ACRE_SPLIT_LINES; split <= ACRE_SPLIT_ONLY_LINES; split++) {
            struct document document;
            split_parts(&document, text, LARGE, (enum acre_split)split);
            document_fini(&document);
        }
        mem_free(text);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The processor time that a line takes to be split with a run of blanks in it. */
static double split_blanks(const char *first, size_t n_spaces, size_t n_line_ends, const char *last,
                           enum acre_split split)
{
    char *text = mem_alloc(n_spaces + n_line_ends + 16), *end = stpcpy(text, first);
    memset(end, ' ', n_spaces);
    memset(end + n_spaces, '\n', n_line_ends);
    stpcpy(end + n_spaces + n_line_ends, last);
    struct document document;
    double start = seconds();
    split_parts(&document, text, SIZE_MAX, split);
    double taken = seconds() - start;
    document_fini(&document);
    mem_free(text);
    return taken;
}

/* Whether a sentence goes on is told by what stands behind a run of blanks, in which every line end
 * is a place to end it: the run is looked through once, not once for each. */
static void test_blanks(void **state)
{
    (void)state;
    enum { BLANKS = LARGE / 16 };
    for (int split = ACRE_SPLIT_LINES; split <= ACRE_SPLIT_ONLY_LINES; split++) {
        enum acre_split choice = (enum acre_split)split;
        assert_true(split_blanks("No.", 0, BLANKS, "5", choice) < 0.5);
        assert_true(split_blanks("x)", BLANKS / 2, BLANKS / 2, "y", choice) < 0.5);
    }
}

/* In parts a text gives what it gives as a whole, and no part is much more than it should be:
 * neither of many sentences nor of one that has no end, or hardly one. */
static void test_parts(void **state)
{
    (void)state;
    static const char *const units[] = {
        "Hello there. ", "and then we go ", "A. ", "J.\n", "a\n", "\n", "a, b", "\xE4\xBB\x8A"};
    enum { BYTES = 40000 };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        char *text = repeat("J. ", units[i], BYTES);
        struct document whole, parts;
        assert_int_equal(split_text(&whole, text, strlen(text), pieces, "en", 20, NULL), 0);
        for (size_t max_bytes = 1; max_bytes < 2 * BYTES; max_bytes = max_bytes * 3 + 5) {
            size_t n = split_parts(&parts, text, max_bytes, ACRE_SPLIT_LINES);
            check_same(&parts, &whole);
            document_fini(&parts);
            if (max_bytes > 1000 && n < BYTES / 4 / max_bytes)
                fail_msg("\"%s\": %zu parts of %zu bytes", units[i], n, max_bytes);
        }
        document_fini(&whole);
        mem_free(text);
    }
}

/* Encodes again what the sentences are. */
static double encode_sentences(const struct document *document, const struct tokenizer *tokenizer)
{
    struct tokens tokens = {0};
    double start = seconds();
    for (size_t s = 0; s < document->n_sentences; s++) {
        const struct document_sentence *sentence = &document->sentences[s];
        tokens.n = 0;
        tokenizer_encode(tokenizer, document->text + sentence->first, sentence->n_bytes, &tokens,
                         NULL);
    }
    double taken = seconds() - start;
    tokens_fini(&tokens);
    return taken;
}

/* Where there are no spaces to cut at a piece is all that fits, and is not encoded again for it.
 * U+FDFA are many tokens: NFKC makes 18 letters of it, and the vocabulary spells each. */
static void test_encoded_once(void **state)
{
    (void)state;
    static const char *const units[] = {"a", "a\xEF\xB7\xBA"};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        char *text = repeat("", units[i], 30000);
        double whole = INFINITY, encoding = INFINITY;
        for (int round = 0; round < 5; round++) {
            struct document document;
            double start = seconds();
            assert_int_equal(split_text(&document, text, strlen(text), shipped, "en", 500, NULL),
                             0);
            whole = fmin(whole, seconds() - start);
            encoding = fmin(encoding, encode_sentences(&document, shipped));
            document_fini(&document);
        }
        if (whole > 1.6 * encoding)
            fail_msg("%s: %.2f ms, its pieces %.2f ms", units[i], 1e3 * whole, 1e3 * encoding);
        mem_free(text);
    }
}

/* The processor time that splitting such a text takes. */
static double split_repeated(const char *first, const char *unit, size_t size,
                             const struct tokenizer *tokenizer)
{
    char *text = repeat(first, unit, size);
    size_t n = strlen(text);
    struct document document;
    double start = seconds();
    assert_int_equal(split_text(&document, text, n, tokenizer, "en", 500, NULL), 0);
    double taken = seconds() - start;
    check_shape(&document, 500);
    check_identity(&document, text);
    document_fini(&document);
    mem_free(text);
    return taken;
}

/* Four times the text takes about four times as long, not sixteen times: the least of a few
 * measurements, because other work on the machine only adds. */
static void check_large(const char *what, const char *first, const char *unit,
                        const struct tokenizer *tokenizer)
{
    double quarter = INFINITY, whole = INFINITY;
    for (int i = 0; i < 3; i++) {
        quarter = fmin(quarter, split_repeated(first, unit, LARGE / 4, tokenizer));
        whole = fmin(whole, split_repeated(first, unit, LARGE, tokenizer));
    }
    if (whole > 8 * quarter + 0.1)
        fail_msg("%s, %s: %.2f s, a quarter of it %.2f s", what,
                 tokenizer_is_bytes(tokenizer) ? "bytes" : "pieces", whole, quarter);
}

static void test_large(void **state)
{
    (void)state;
    static const struct {
        const char *what, *first, *unit;
    } texts[] = {
        {"initial, newlines", "J.", "\n"},
        {"initial, blanks", "J.", "\xE2\x80\x8B \n"},
        {"end, symbols", "a. ", ", "},
        {"quotes", "a", "\""},
        {"marks", "a", "\xCC\x81"},
        {"unknown", "a", "\xE4\xBB\x8A"},
        {"prose", "", "The weather is nice today, and we go for a walk in the old town. "},
        {"no ends", "", "and then we go "},
        {"no spaces", "", "abcdefghijklmnopqrstuvwxyz"},
        {"one letter", "", "a"},
        {"Chinese", "", "\xE4\xBB\x8A\xE6\x97\xA5"},
        {"initials", "", "A. "},
        {"short lines", "", "a\n"},
        {"spaces", "", "a                                                               "},
        {"blank", "", "\n"},
        {"full stops", "", "."},
        {"controls", "", "\x01"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check_large(texts[i].what, texts[i].first, texts[i].unit, pieces);
        check_large(texts[i].what, texts[i].first, texts[i].unit, bytes);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char text[] = "One. Two goes on and on, longer than ten tokens, it does.\nThree.";
    int code = ACRE_ENOMEM;
    long n = 0;
    for (; code == ACRE_ENOMEM && n < 1000; n++) {
        struct document document;
        struct acre_err err = {0};
        mem_fail_after(n);
        code = split_text(&document, text, sizeof(text) - 1, pieces, "en", 10, &err);
        mem_fail_after(-1);
        assert_int_equal(err.code, code);
        document_fini(&document);
    }
    assert_int_equal(code, 0);
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),         cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_codes),         cmocka_unit_test(test_codes_alone),
        cmocka_unit_test(test_bad_text),      cmocka_unit_test(test_random),
        cmocka_unit_test(test_places),        cmocka_unit_test(test_filling),
        cmocka_unit_test(test_split_choices), cmocka_unit_test(test_split_choices_of_many_lines),
        cmocka_unit_test(test_blanks),        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_encoded_once),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
