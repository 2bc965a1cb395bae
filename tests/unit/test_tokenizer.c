/* Tokenizers against transformers' MarianTokenizer (tests/golden/tokenizer/cases.json), bytes
 * against their definition, and damaged vocabularies. Runs in the root of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../support/random.h"
#include "../support/temp.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer.h"

#define GOLDEN "tests/golden/tokenizer"

static json_t *cases;
static int vocab_size;
static struct tokenizer *pieces, *bytes;
static char byte_directory[sizeof(TEMP_TEMPLATE)];

static int open_all(void **state)
{
    (void)state;
    struct acre_err err = {0};
    json_error_t where;
    cases = json_load_file(GOLDEN "/cases.json", 0, &where);
    assert_non_null(cases);
    vocab_size = (int)json_integer_value(json_object_get(cases, "vocab_size"));
    if (tokenizer_open(GOLDEN, vocab_size, "", &pieces, &err))
        fail_msg("%s", err.text);
    temp_make(byte_directory);
    temp_write_text(byte_directory, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"ByteTokenizer\"}");
    return tokenizer_open(byte_directory, 258, "", &bytes, &err);
}

static int close_all(void **state)
{
    (void)state;
    json_decref(cases);
    tokenizer_close(pieces);
    tokenizer_close(bytes);
    temp_remove(byte_directory);
    return 0;
}

static void check_ids(const struct tokens *tokens, const json_t *ids, const char *text)
{
    if (tokens->n != json_array_size(ids))
        fail_msg("\"%s\": expected %zu tokens, found %zu", text, json_array_size(ids), tokens->n);
    for (size_t i = 0; i < tokens->n; i++) {
        int id = (int)json_integer_value(json_array_get(ids, i));
        if (tokens->ids[i] != id)
            fail_msg("\"%s\": token %zu: expected %d, found %d", text, i, id, tokens->ids[i]);
    }
}

static void test_golden_encode(void **state)
{
    (void)state;
    const json_t *list = json_object_get(cases, "encode");
    assert_true(json_array_size(list) > 90);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *each = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(each, "text"));
        const json_t *ids = json_object_get(each, "ids"), *names = json_object_get(each, "pieces");
        struct tokens tokens = {0};
        assert_int_equal(tokenizer_encode(pieces, text, strlen(text), &tokens, NULL), 0);
        check_ids(&tokens, ids, text);
        for (size_t t = 0; t < tokens.n; t++)
            if (tokens.ids[t] != 1) /* an unknown piece loses its spelling */
                assert_string_equal(tokenizer_token(pieces, tokens.ids[t]),
                                    json_string_value(json_array_get(names, t)));
        tokens_fini(&tokens);
    }
}

static void test_golden_tokens(void **state)
{
    (void)state;
    const json_t *list = json_object_get(cases, "encode");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *each = json_array_get(list, i), *names = json_object_get(each, "pieces");
        char line[4096] = "";
        for (size_t t = 0; t < json_array_size(names); t++) {
            strcat(line, t ? " " : "");
            strcat(line, json_string_value(json_array_get(names, t)));
        }
        struct tokens tokens = {0};
        assert_int_equal(tokenizer_encode_tokens(pieces, line, strlen(line), &tokens, NULL), 0);
        check_ids(&tokens, json_object_get(each, "ids"), line);
        tokens_fini(&tokens);
    }
}

static void test_golden_decode(void **state)
{
    (void)state;
    const json_t *list = json_object_get(cases, "decode");
    assert_true(json_array_size(list) > 190);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *ids = json_object_get(json_array_get(list, i), "ids");
        struct tokens tokens = {0};
        for (size_t t = 0; t < json_array_size(ids); t++)
            tokens_append(&tokens, (int32_t)json_integer_value(json_array_get(ids, t)));
        char *text;
        assert_int_equal(tokenizer_decode(pieces, tokens.ids, tokens.n, &text, NULL), 0);
        assert_string_equal(text,
                            json_string_value(json_object_get(json_array_get(list, i), "text")));
        mem_free(text);
        tokens_fini(&tokens);
    }
}

/* Special tokens in a text are text, and so is a language code that no vocabulary has. */
static void test_not_special(void **state)
{
    (void)state;
    static const char *const texts[] = {"</s>", "a <pad> b", "<unk>", ">>xx<< hello", ">><<", ">>"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tokens tokens = {0};
        assert_int_equal(tokenizer_encode(pieces, texts[i], strlen(texts[i]), &tokens, NULL), 0);
        assert_true(tokens.n > 1);
        for (size_t t = 0; t < tokens.n; t++)
            assert_true(tokens.ids[t] != 0 && tokens.ids[t] != vocab_size - 1);
        tokens_fini(&tokens);
    }
    assert_string_equal(tokenizer_token(pieces, -1), "<unk>");
    assert_string_equal(tokenizer_token(pieces, vocab_size), "<unk>");
    assert_string_equal(tokenizer_token(pieces, 0), "</s>");
    char *text;
    const int32_t strange[] = {-5, 1 << 30, 0, 1, vocab_size - 1};
    assert_int_equal(tokenizer_decode(pieces, strange, 5, &text, NULL), 0);
    assert_string_equal(text, "");
    mem_free(text);
    assert_int_equal(tokenizer_decode(pieces, NULL, 0, &text, NULL), 0);
    assert_string_equal(text, "");
    mem_free(text);
}

static void test_bytes(void **state)
{
    (void)state;
    assert_true(tokenizer_is_bytes(bytes));
    assert_false(tokenizer_is_bytes(pieces));
    struct tokens tokens = {0};
    assert_int_equal(tokenizer_encode(bytes, "A\xC3\xA9\0 ", 5, &tokens, NULL), 0);
    static const int32_t ids[] = {67, 197, 171, 2, 34};
    assert_int_equal(tokens.n, 5);
    assert_memory_equal(tokens.ids, ids, sizeof(ids));
    tokens_fini(&tokens);
    static const struct {
        int32_t id;
        const char *name;
    } names[] = {{0, "<pad>"},         {1, "</s>"},          {2, "<0x00>"},  {2 + ' ', "<0x20>"},
                 {2 + 'a', "a"},       {2 + '<', "<"},       {2 + '~', "~"}, {2 + 0x7F, "<0x7F>"},
                 {2 + 0xC3, "<0xC3>"}, {2 + 0xFF, "<0xFF>"}, {258, "<unk>"}, {-1, "<unk>"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_string_equal(tokenizer_token(bytes, names[i].id), names[i].name);
}

/* A letter and its mark are read as the letter that Unicode composes of them, and stand where both
 * stood. Marks without end take no longer than other text. */
static void test_bytes_are_composed(void **state)
{
    (void)state;
    static const char apart[] = "Zu\xCC\x88rich", together[] = "Z\xC3\xBCrich";
    struct tokens tokens = {0}, expected = {0};
    struct acre_range ranges[8];
    assert_int_equal(tokenizer_encode(bytes, apart, strlen(apart), &tokens, NULL), 0);
    assert_int_equal(tokenizer_encode(bytes, together, strlen(together), &expected, NULL), 0);
    assert_int_equal(tokens.n, 7);
    assert_memory_equal(tokens.ids, expected.ids, 7 * sizeof(*tokens.ids));
    assert_int_equal(tokenizer_source_ranges(bytes, apart, strlen(apart), false, 8, ranges, NULL),
                     0);
    static const struct acre_range places[] = {{0, 1}, {1, 3}, {1, 3}, {4, 1},
                                               {5, 1}, {6, 1}, {7, 1}, {8, 0}};
    assert_memory_equal(ranges, places, sizeof(places));

    enum { MARKS = 100000 };
    char *marks = mem_alloc(2 * MARKS);
    for (size_t i = 0; i < MARKS; i++)
        memcpy(marks + 2 * i, i < MARKS / 2 ? "\xCC\x81" : "\xCC\x96", 2); /* above, below */
    tokens.n = 0;
    assert_int_equal(tokenizer_encode(bytes, marks, 2 * MARKS, &tokens, NULL), 0);
    assert_int_equal(tokens.n, 2 * MARKS);
    mem_free(marks);
    tokens_fini(&tokens);
    tokens_fini(&expected);
}

/* Each of the bytes that spell a character has its place, as alignments promise. */
static void test_ranges_of_bytes_among_pieces(void **state)
{
    (void)state;
    struct tokenizer *shipped;
    struct tokens tokens = {0};
    struct acre_range ranges[32];
    static const char text[] = "It is 5 \xC2\xB0"
                               "C \xF0\x9F\x98\x80 now.";
    assert_int_equal(tokenizer_open("models/en-de-token", 8000, "", &shipped, NULL), 0);
    assert_int_equal(tokenizer_encode(shipped, text, strlen(text), &tokens, NULL), 0);
    assert_in_range(tokens.n, 8, 32);
    assert_int_equal(
        tokenizer_source_ranges(shipped, text, strlen(text), false, tokens.n, ranges, NULL), 0);
    size_t n_bytes = 0;
    for (size_t i = 0; i < tokens.n; i++) {
        const char *token = tokenizer_token(shipped, tokens.ids[i]);
        if (strncmp(token, "<0x", 3))
            continue;
        bool is_degree = n_bytes++ < 2;
        assert_int_equal(ranges[i].first, is_degree ? 8 : 12);
        assert_int_equal(ranges[i].n_bytes, is_degree ? 2 : 4);
    }
    assert_int_equal(n_bytes, 6);
    tokens_fini(&tokens);
    tokenizer_close(shipped);
}

/* The obvious way: what all tokens so far became is a beginning of the text. */
static void ranges_of_beginnings(const struct tokenizer *tokenizer, const struct tokens *tokens,
                                 const char *text, struct acre_range *ranges)
{
    size_t first = 0, done = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        char *beginning;
        assert_int_equal(tokenizer_decode(tokenizer, tokens->ids, i + 1, &beginning, NULL), 0);
        size_t end = i + 1 == tokens->n ? strlen(text) : strlen(beginning);
        bool is_beginning = end >= done && !strncmp(beginning, text, strlen(beginning));
        mem_free(beginning);
        if (!is_beginning)
            continue;
        for (; first <= i; first++) {
            size_t begin = done;
            while (begin < end && text[begin] == ' ')
                begin++;
            ranges[first] = (struct acre_range){begin, end - begin};
        }
        done = end;
    }
}

/* Of random texts with blanks, marks and characters that are spelt by bytes. */
static void test_target_ranges(void **state)
{
    (void)state;
    enum { N_TEXTS = 200, N_PARTS = 30 };
    static const char *parts[] = {" ",
                                  "  ",
                                  "the",
                                  "House",
                                  "\xC3\xBC",
                                  "\xC5\x81",
                                  " cat",
                                  "\xC2\xA0",
                                  "\xE2\x82\xAC",
                                  ".",
                                  ",",
                                  "\xF0\x9F\x98\x80",
                                  "ing",
                                  "\xE4\xBD\xA0",
                                  "5",
                                  "-",
                                  "a",
                                  "\xCC\x88"};
    struct tokenizer *shipped;
    assert_int_equal(tokenizer_open("models/en-de-token", 8000, "", &shipped, NULL), 0);
    struct tokenizer *const all[] = {pieces, bytes, shipped};
    for (size_t i = 0; i < 3 * N_TEXTS; i++) {
        struct tokenizer *tokenizer = all[i % 3];
        char text[8 * N_PARTS] = "", *decoded;
        struct tokens tokens = {0};
        struct acre_range found[8 * N_PARTS], expected[8 * N_PARTS];
        for (size_t n = random_pick(1, N_PARTS); n > 0; n--)
            strcat(text, parts[random_pick(0, sizeof(parts) / sizeof(parts[0]) - 1)]);
        assert_int_equal(
            tokenizer_encode_target(tokenizer, text, strlen(text), false, &tokens, NULL), 0);
        assert_int_equal(tokenizer_decode(tokenizer, tokens.ids, tokens.n, &decoded, NULL), 0);
        ranges_of_beginnings(tokenizer, &tokens, decoded, expected);
        assert_int_equal(tokenizer_target_ranges(tokenizer, tokens.ids, tokens.n, decoded,
                                                 strlen(decoded), found, NULL),
                         0);
        assert_memory_equal(found, expected, tokens.n * sizeof(*found));
        mem_free(decoded);
        tokens_fini(&tokens);
    }
    tokenizer_close(shipped);
}

static void test_byte_decode(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out; /* \x01 stands for the end token */
    } table[] = {
        {"hello", "hello"},
        {"caf\xC3\xA9", "caf\xC3\xA9"},
        {"a\x01z", "az"},
        {"cut \xF0\x9F\x98", "cut \xEF\xBF\xBD"},
        {"\xFF\xFE", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC3(", "\xEF\xBF\xBD("},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int32_t ids[32];
        size_t n = strlen(table[i].in);
        for (size_t t = 0; t < n; t++)
            ids[t] = table[i].in[t] == 1 ? 1 : 2 + (unsigned char)table[i].in[t];
        char *text;
        assert_int_equal(tokenizer_decode(bytes, ids, n, &text, NULL), 0);
        assert_string_equal(text, table[i].out);
        mem_free(text);
    }
    const int32_t with_nul[] = {67, 2, 68, 300, -1};
    char *text;
    assert_int_equal(tokenizer_decode(bytes, with_nul, 5, &text, NULL), 0);
    assert_string_equal(text, "AB");
    mem_free(text);
}

static void test_byte_tokens(void **state)
{
    (void)state;
    static const char line[] = "a  <0x20> \xC3\xA9 < <0xc3> <0xA9> ";
    static const int32_t ids[] = {99, 34, 197, 171, 62, 197, 171};
    struct tokens tokens = {0};
    assert_int_equal(tokenizer_encode_tokens(bytes, line, sizeof(line) - 1, &tokens, NULL), 0);
    assert_int_equal(tokens.n, sizeof(ids) / sizeof(ids[0]));
    assert_memory_equal(tokens.ids, ids, sizeof(ids));
    tokens_fini(&tokens);
    static const char *const bad[] = {"ab", "<0xG0>", "<0x1>", "</s>", "\xC3\xA9z", "<0x123>"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct acre_err err = {0};
        char expected[128];
        snprintf(expected, sizeof(expected),
                 "expected a token of one character or <0xHH>, found \"%s\"", bad[i]);
        assert_int_equal(tokenizer_encode_tokens(bytes, bad[i], strlen(bad[i]), &tokens, &err),
                         ACRE_EINPUT);
        assert_string_equal(err.text, expected);
        tokens_fini(&tokens);
    }
}

/* ---- Damaged directories --------------------------------------------------------------------- */

struct damage {
    const char *file, *text; /* text NULL: the file is missing */
    int code;
    const char *message;
};

static const struct damage damages[] = {
    {"vocab.json", NULL, ACRE_EIO, "vocab.json: cannot be opened: No such file or directory"},
    {"vocab.json", "{\"</s>\":0,\"<unk>\":1,\"a\":901}", ACRE_EMODEL,
     "vocab.json: a: expected an integer from 0 to 900, found 901"},
    {"vocab.json", "{\"</s>\":0,\"<unk>\":1,\"a\":-1}", ACRE_EMODEL,
     "vocab.json: a: expected an integer from 0 to 900, found -1"},
    {"vocab.json", "{\"</s>\":0,\"<unk>\":1,\"a\":2.0}", ACRE_EMODEL,
     "vocab.json: a: expected an integer from 0 to 900, found 2.0"},
    {"vocab.json", "{\"</s>\":0,\"<unk>\":1,\"a\":1}", ACRE_EMODEL,
     "vocab.json: a: expected an id of its own, found 1"},
    {"vocab.json", "{\"</s>\":0,\"a\":1}", ACRE_EMODEL,
     "vocab.json: <unk>: expected an id, found nothing"},
    {"vocab.json", "{\"<unk>\":0}", ACRE_EMODEL, "vocab.json: </s>: expected an id, found nothing"},
    {"source.spm", NULL, ACRE_EIO, "source.spm: cannot be opened: No such file or directory"},
    {"source.spm", "", ACRE_EMODEL,
     "source.spm: expected a SentencePiece model, found something else"},
    {"target.spm", "no model", ACRE_EMODEL,
     "target.spm: expected a SentencePiece model, found something else"},
    {"tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\"}", ACRE_EMODEL,
     "tokenizer_config.json: tokenizer_class: expected MarianTokenizer, ByteTokenizer, "
     "M2M100Tokenizer, NllbTokenizer or MBart50Tokenizer, found "
     "\"T5Tokenizer\""},
    {"tokenizer_config.json", "{\"tokenizer_class\":3}", ACRE_EMODEL,
     "tokenizer_config.json: tokenizer_class: expected MarianTokenizer, ByteTokenizer, "
     "M2M100Tokenizer, NllbTokenizer or MBart50Tokenizer, found 3"},
    {"tokenizer_config.json", "{\"separate_vocabs\":true}", ACRE_EIO,
     "target_vocab.json: cannot be opened: No such file or directory"},
};

static const char *const files[] = {"vocab.json", "source.spm", "target.spm",
                                    "tokenizer_config.json"};

static void copy_golden(const char *directory, const char *but)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char from[128];
        snprintf(from, sizeof(from), GOLDEN "/%s", files[i]);
        if (strcmp(files[i], but))
            temp_copy(directory, files[i], from);
    }
}

static void test_damage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const struct damage *damage = &damages[i];
        char directory[sizeof(TEMP_TEMPLATE)];
        struct tokenizer *tokenizer = NULL;
        struct acre_err err = {0};
        temp_make(directory);
        copy_golden(directory, damage->file);
        if (damage->text)
            temp_write_text(directory, damage->file, damage->text);
        assert_int_equal(tokenizer_open(directory, vocab_size, "", &tokenizer, &err), damage->code);
        assert_string_equal(err.text, damage->message);
        assert_null(tokenizer);
        temp_remove(directory);
    }
    struct acre_err err;
    struct tokenizer *tokenizer;
    assert_int_equal(tokenizer_open(byte_directory, 257, "", &tokenizer, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "config.json: vocab_size: expected at least 258 for a "
                                  "ByteTokenizer, found 257");
}

/* The class of config.json counts where tokenizer_config.json has none. */
static void test_class_of_config(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)];
    struct tokenizer *tokenizer;
    struct acre_err err = {0};
    temp_make(directory);
    copy_golden(directory, "tokenizer_config.json");
    if (tokenizer_open(directory, vocab_size, "MarianTokenizer", &tokenizer, &err))
        fail_msg("%s", err.text);
    tokenizer_close(tokenizer);
    assert_int_equal(tokenizer_open(directory, vocab_size, "MBartTokenizer", &tokenizer, &err),
                     ACRE_EMODEL);
    assert_string_equal(err.text, "config.json: tokenizer_class: expected MarianTokenizer, "
                                  "ByteTokenizer, M2M100Tokenizer, NllbTokenizer or "
                                  "MBart50Tokenizer, found \"MBartTokenizer\"");
    temp_write_text(directory, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"MarianTokenizer\"}");
    if (tokenizer_open(directory, vocab_size, "MBartTokenizer", &tokenizer, &err))
        fail_msg("%s", err.text);
    tokenizer_close(tokenizer);
    temp_remove(directory);
}

/* Ids of the target are those of target_vocab.json. */
static void test_separate(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], *text;
    struct tokenizer *tokenizer;
    struct acre_err err = {0};
    temp_make(directory);
    copy_golden(directory, "tokenizer_config.json");
    temp_write_text(directory, "tokenizer_config.json", "{\"separate_vocabs\":true}");
    temp_write_text(directory, "target_vocab.json",
                    "{\"</s>\":0,\"<unk>\":1,\"\xE2\x96\x81Hallo\":2,\"!\":3,\"<pad>\":4}");
    if (tokenizer_open(directory, vocab_size, "", &tokenizer, &err))
        fail_msg("%s", err.text);
    const int32_t ids[] = {4, 2, 3, 5, 0};
    assert_int_equal(tokenizer_decode(tokenizer, ids, 5, &text, NULL), 0);
    assert_string_equal(text, "Hallo!");
    assert_string_equal(tokenizer_token(tokenizer, 2), "\xE2\x96\x81Hallo");
    mem_free(text);
    struct tokens tokens = {0}, wanted = {0};
    tokenizer_encode(tokenizer, "What is it?", 11, &tokens, NULL);
    tokenizer_encode(pieces, "What is it?", 11, &wanted, NULL);
    assert_int_equal(tokens.n, wanted.n);
    assert_memory_equal(tokens.ids, wanted.ids, tokens.n * sizeof(*tokens.ids));
    tokens_fini(&tokens);
    tokens_fini(&wanted);
    tokenizer_close(tokenizer);
    temp_remove(directory);
}

/* Every allocation of ours fails once. */
static void test_out_of_memory(void **state)
{
    (void)state;
    int code = ACRE_ENOMEM;
    long n = 0;
    for (; code == ACRE_ENOMEM && n < 100; n++) {
        struct tokenizer *tokenizer = NULL;
        struct tokens tokens = {0};
        struct acre_err err = {0};
        char *text = NULL;
        mem_fail_after(n);
        code = tokenizer_open(GOLDEN, vocab_size, "", &tokenizer, &err);
        if (!code)
            code = tokenizer_encode(tokenizer, "Hello there", 11, &tokens, &err);
        if (!code)
            code = tokenizer_decode(tokenizer, tokens.ids, tokens.n, &text, &err);
        mem_fail_after(-1);
        assert_int_equal(err.code, code);
        mem_free(text);
        tokens_fini(&tokens);
        tokenizer_close(tokenizer);
    }
    assert_int_equal(code, 0);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_encode),
        cmocka_unit_test(test_golden_tokens),
        cmocka_unit_test(test_golden_decode),
        cmocka_unit_test(test_not_special),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_are_composed),
        cmocka_unit_test(test_ranges_of_bytes_among_pieces),
        cmocka_unit_test(test_target_ranges),
        cmocka_unit_test(test_byte_decode),
        cmocka_unit_test(test_byte_tokens),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_separate),
        cmocka_unit_test(test_class_of_config),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
