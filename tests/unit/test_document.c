/* Documents: the translations in the places of the sentences, and lines of tokens. Runs in the root
 * of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../support/split.h"
#include "../support/temp.h"
#include "base/mem.h"
#include "text/document.h"

static struct tokenizer *bytes;
static char byte_directory[sizeof(TEMP_TEMPLATE)];

static int open_bytes(void **state)
{
    (void)state;
    temp_make(byte_directory);
    temp_write_text(byte_directory, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"ByteTokenizer\"}");
    return tokenizer_open(byte_directory, 258, "", &bytes, NULL);
}

static int close_bytes(void **state)
{
    (void)state;
    tokenizer_close(bytes);
    temp_remove(byte_directory);
    return 0;
}

/* ---- Joining --------------------------------------------------------------------------------- */

static void check_join(const char *text, const char *const *translations, size_t max_tokens,
                       const char *expected)
{
    struct acre_range places[8];
    struct document document;
    char *joined;
    assert_int_equal(split_text(&document, text, strlen(text), bytes, "zh", max_tokens, NULL), 0);
    assert_true(document.n_sentences <= 8);
    assert_int_equal(document_join(&document, translations, &joined, places, NULL), 0);
    assert_string_equal(joined, expected);
    for (size_t i = 0; i < document.n_sentences; i++) {
        assert_int_equal(places[i].n_bytes, strlen(translations[i]));
        assert_memory_equal(joined + places[i].first, translations[i], places[i].n_bytes);
    }
    mem_free(joined);
    document_fini(&document);
}

/* Where a script without spaces becomes one with spaces, there is one between sentences. */
static void test_join_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *translations[4], *expected;
        size_t max_tokens;
    } cases[] = {
        {"今天很冷。我在家。", {"It is cold.", "I am home."}, "It is cold. I am home.", 99},
        {"今天很冷。我在家。", {"今日は寒い。", "家にいる。"}, "今日は寒い。家にいる。", 99},
        {"今天很冷。我在家。", {"춥습니다.", "집에 있어요."}, "춥습니다. 집에 있어요.", 99},
        {"今天很冷。\n我在家。", {"It is cold.", "I am home."}, "It is cold.\nI am home.", 99},
        {"“冷。”“我在家。”", {"“Cold.”", "“I am home.”"}, "“Cold.” “I am home.”", 99},
        {"“冷。”“我在家。”", {"“冷い。”", "“家。”"}, "“冷い。”“家。”", 99},
        {"Hello!今天很冷。", {"Hello!", "It is cold."}, "Hello! It is cold.", 99},
        {"Hello!Bye.", {"Hallo!", "Tschüss."}, "Hallo!Tschüss.", 99},
        {"冷。冷。冷。", {"Cold.", "", "Cold."}, "Cold. Cold.", 99},
        {"冷。\n冷。冷。", {"Cold.", "", "Cold."}, "Cold.\nCold.", 99},
        {"冷。冷。", {"😀 Cold 😀", "Cold."}, "😀 Cold 😀 Cold.", 99},
        {"今天，今天", {"today,", "today"}, "today, today", 12},
        {"今天，今天", {"today, ", "today"}, "today, today", 12},
        {"冷？冷。", {"Froid ?", "« Froid. »"}, "Froid ? « Froid. »", 99},
        {"abcdefghijklm", {"ABCDEFGHIJ", "KLM"}, "ABCDEFGHIJKLM", 10},
        {"https://a.bc/d", {"https://a.", "bc/d"}, "https://a.bc/d", 10},
        {"ไปไป", {"go", "go"}, "go go", 6},
        {"ไปไป", {"ไป", "ไป"}, "ไปไป", 6},
        {"冷。冷。", {"หนาว", "หนาว"}, "หนาว หนาว", 99},
        {"ไปไป", {"去", "去"}, "去去", 6},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_join(cases[i].text, cases[i].translations, cases[i].max_tokens, cases[i].expected);
}

static void test_join(void **state)
{
    (void)state;
    static const char text[] = "  One. Two.\n\n Three \n";
    const char *const translations[] = {"Eins.", "", "Drei ist l\xC3\xA4nger"};
    struct acre_range places[3];
    struct document document;
    char *joined;
    assert_int_equal(split_text(&document, text, strlen(text), bytes, "en", 50, NULL), 0);
    assert_int_equal(document.n_sentences, 3);
    assert_int_equal(document_join(&document, translations, &joined, places, NULL), 0);
    assert_string_equal(joined, "  Eins. \n\n Drei ist l\xC3\xA4nger \n");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(places[i].n_bytes, strlen(translations[i]));
        assert_memory_equal(joined + places[i].first, translations[i], places[i].n_bytes);
    }
    mem_free(joined);
    document_fini(&document);
}

/* ---- Lines of tokens ------------------------------------------------------------------------- */

static void test_token_lines(void **state)
{
    (void)state;
    struct document document;
    struct acre_err err = {0};
    assert_int_equal(document_init_tokens(&document, "a <0x20> b. c", 13, bytes, 5, &err),
                     ACRE_EINPUT);
    assert_string_equal(err.text, "expected a token of one character or <0xHH>, found \"b.\"");
    assert_int_equal(document_init_tokens(&document, "a . b", 5, bytes, 3, &err), 0);
    assert_int_equal(document.n_sentences, 1);
    assert_int_equal(document.sentences[0].source.n, 3);
    document_fini(&document);
    assert_int_equal(document_init_tokens(&document, "a . b", 5, bytes, 2, &err), ACRE_EINPUT);
    assert_string_equal(err.text, "expected at most 2 tokens, found 3");
    assert_int_equal(document_init_tokens(&document, "  ", 2, bytes, 2, &err), 0);
    assert_int_equal(document.n_sentences, 0);
    document_fini(&document);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    int status = ACRE_ENOMEM;
    long n = 0;
    for (; status == ACRE_ENOMEM && n < 1000; n++) {
        struct document document;
        struct acre_err err = {0};
        mem_fail_after(n);
        status = document_init_tokens(&document, "a b", 3, bytes, 10, &err);
        mem_fail_after(-1);
        assert_int_equal(err.code, status);
        document_fini(&document);
    }
    assert_int_equal(status, 0);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_join_apart),
        cmocka_unit_test(test_token_lines),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, open_bytes, close_bytes);
}
