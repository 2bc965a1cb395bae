/* .spm files that libsentencepiece must not be given: damaged ones, and those crafted to lead it
 * outside its tables. Runs in the root of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/sentencepiece.h"
#include "text/spm_file.h"

#include "acre.h"

#define GOOD "tests/golden/tokenizer/source.spm"
#define DIFFICULT                                                                                  \
    "Hello w\xC3\xB6rld, this is \xEF\xBD\x86\xEF\xBC\xA1 \xEF\xAC\x83 \xE6\x97\xA5\xE6\x9C\xAC."

static int count_piece(void *user, const char *piece, size_t piece_bytes)
{
    size_t *n = user;
    *n += piece != NULL && piece_bytes > 0;
    return 0;
}

/* A model with some bytes changed is refused, or splits text into something: it never crashes. */
static void test_damaged(void **state)
{
    (void)state;
    static char good[1 << 20], bad[1 << 20];
    FILE *file = fopen(GOOD, "rb");
    assert_non_null(file);
    size_t n = fread(good, 1, sizeof(good), file);
    fclose(file);
    assert_int_equal(spm_file_check("m.spm", good, n, NULL), 0);
    assert_int_equal(spm_file_check("m.spm", good, n - 1, NULL), ACRE_EMODEL);
    uint32_t random = 1;
    int n_unsound = 0;
    for (int round = 0; round < 300; round++) {
        memcpy(bad, good, n);
        for (int i = 0; i <= round % 4; i++) {
            random = random * 1664525U + 1013904223U;
            bad[(random >> 3) % (round % 2 ? n : 9000)] = (char)(random >> 24);
        }
        struct spm *spm;
        if (spm_file_check("m.spm", bad, n, NULL)) {
            n_unsound++;
        } else if (!spm_open(bad, n, &spm)) {
            size_t n_pieces = 0;
            spm_encode(spm, DIFFICULT, strlen(DIFFICULT), count_piece, &n_pieces);
            spm_close(spm);
        }
    }
    assert_true(n_unsound > 30);
}

/* ---- Crafted SentencePiece models ------------------------------------------------------------ */

struct proto {
    char bytes[1 << 17];
    size_t n;
};

static void put_varint(struct proto *proto, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        proto->bytes[proto->n++] = (char)(value | 0x80);
    proto->bytes[proto->n++] = (char)value;
}

static void put_bytes(struct proto *proto, uint64_t tag, const void *data, size_t n)
{
    put_varint(proto, tag);
    put_varint(proto, n);
    memcpy(proto->bytes + proto->n, data, n);
    proto->n += n;
}

static void put_piece(struct proto *model, const char *text, size_t bytes, uint64_t type)
{
    struct proto piece = {.n = 0};
    put_bytes(&piece, 1 << 3 | 2, text, bytes);
    put_varint(&piece, 3 << 3);
    put_varint(&piece, type);
    put_bytes(model, 1 << 3 | 2, piece.bytes, piece.n);
}

enum { NORMAL = 1, UNKNOWN = 2, USER_DEFINED = 4, N_UNITS = 36 * 256 };

/* A normalisation table; cases change the one of init_map(). */
struct map {
    uint32_t units[N_UNITS];
    uint32_t size; /* of the trie, as the file says */
    char strings[2048];
    size_t strings_bytes;
};

/* "a" becomes "b". */
static void init_map(struct map *map)
{
    *map = (struct map){.size = sizeof(map->units), .strings_bytes = 4};
    for (uint32_t i = 0; i < N_UNITS; i++)
        map->units[i] = 1U << 31;
    map->units[0] = 256 << 10;                              /* base 256 */
    map->units[256 + 'a'] = 'a' | 1 << 8 | ('a' ^ 1) << 10; /* ends a key, base 256 + 1, */
    map->units[256 + 1] = 1U << 31 | 2;                     /* whose value is strings + 2 */
    memcpy(map->strings, "\0\0b", 4);
}

static void put_map(struct proto *model, uint64_t tag, const struct map *map)
{
    static char bytes[sizeof(*map)];
    struct proto normalizer = {.n = 0};
    size_t units = sizeof(map->units), n = 4 + units + map->strings_bytes;
    memcpy(bytes, &map->size, 4); /* this machine is little-endian, as the file is */
    memcpy(bytes + 4, map->units, units);
    memcpy(bytes + 4 + units, map->strings, map->strings_bytes);
    put_bytes(&normalizer, 2 << 3 | 2, bytes, n);
    put_bytes(model, tag, normalizer.bytes, normalizer.n);
}

static void start_model(struct proto *model)
{
    *model = (struct proto){.n = 0};
    put_piece(model, "<unk>", 5, UNKNOWN);
    put_piece(model, "b", 1, NORMAL);
}

#define NO_MODEL "m.spm: expected a SentencePiece model, found something else"
#define BAD_MAP                                                                                    \
    "m.spm: precompiled_charsmap: expected a table of rules that stays within itself, found "      \
    "another"
#define NESTED "m.spm: user-defined pieces: expected at most 64 that begin one another, found more"
#define NO_TEXT "m.spm: pieces: expected UTF-8, found other bytes"

static void check_refused(const struct proto *model, const char *what, const char *message)
{
    struct acre_err err = {.code = 0};
    if (spm_file_check("m.spm", model->bytes, model->n, &err) != ACRE_EMODEL)
        fail_msg("expected a model to be refused for %s", what);
    assert_string_equal(err.text, message);
}

/* What is not refused must do no harm to a text that meets everything in it. */
static size_t check_accepted(const struct proto *model, const char *text)
{
    struct spm *spm;
    size_t n_pieces = 0;
    assert_int_equal(spm_file_check("m.spm", model->bytes, model->n, NULL), 0);
    assert_int_equal(spm_open(model->bytes, model->n, &spm), 0);
    assert_int_equal(spm_encode(spm, text, strlen(text), count_piece, &n_pieces), 0);
    spm_close(spm);
    return n_pieces;
}

enum { NORMALIZER_TAG = 3 << 3 | 2, DENORMALIZER_TAG = 5 << 3 | 2 };

static void test_crafted_map(void **state)
{
    (void)state;
    static struct proto model;
    static struct map map;
    static const struct {
        uint32_t at, unit;
        const char *what;
    } damages[] = {
        {0, 1U << 31 | N_UNITS << 10, "a root that leads outside"},
        {0, 0x7FFFFC00, "a root that leads far outside"},
        {256 + 'a', 'a' | N_UNITS << 10, "a unit that leads outside"},
        {256 + 1, 1U << 31 | 4, "a value behind the strings"},
        {256 + 'a', 'a' | 1 << 8 | 'a' << 10, "a key that ends in every round of a circle"},
    };
    init_map(&map);
    start_model(&model);
    put_map(&model, NORMALIZER_TAG, &map);
    put_map(&model, DENORMALIZER_TAG, &map);
    assert_true(check_accepted(&model, "aaa") == 3 + 1);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        init_map(&map);
        map.units[damages[i].at] = damages[i].unit;
        start_model(&model);
        put_map(&model, i % 2 ? NORMALIZER_TAG : DENORMALIZER_TAG, &map);
        check_refused(&model, damages[i].what, BAD_MAP);
    }
    init_map(&map);
    memset(map.strings + 2, 'b', 1500);
    map.strings_bytes = 1503;
    start_model(&model);
    put_map(&model, NORMALIZER_TAG, &map);
    check_refused(&model, "a rule that makes one character a thousand", BAD_MAP);
}

/* Rules for "a", "aa", "aaa" ...: the library has room for 32 that fit. */
static void test_nested_rules(void **state)
{
    (void)state;
    static struct proto model;
    static struct map map;
    for (uint32_t n = 30; n <= 34; n++) {
        init_map(&map);
        for (uint32_t i = 1; i <= n; i++) {
            uint32_t at = 256 * i + 'a', base = 256 * (i + 1);
            map.units[at] = 'a' | 1 << 8 | (at ^ base) << 10;
            map.units[base] = 1U << 31 | 2;
        }
        start_model(&model);
        put_map(&model, NORMALIZER_TAG, &map);
        if (n <= 32)
            check_accepted(&model, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        else
            check_refused(&model, "more than 32 rules that begin one another", BAD_MAP);
    }
}

/* The library's reader takes the lower 32 bits of a tag and of a piece's type. */
static void test_crafted_protocol(void **state)
{
    (void)state;
    static struct proto model;
    static struct map map;
    init_map(&map);
    map.units[0] = 1U << 31 | N_UNITS << 10;
    start_model(&model);
    put_map(&model, UINT64_C(1) << 32 | NORMALIZER_TAG, &map);
    check_refused(&model, "a map under a tag of 33 bits", NO_MODEL);

    start_model(&model);
    put_varint(&model, 2); /* number 0 */
    put_varint(&model, 0);
    check_refused(&model, "a field without a number", NO_MODEL);

    start_model(&model);
    put_varint(&model, 19 << 3);
    memset(model.bytes + model.n, 0x80, 10);
    model.bytes[model.n + 10] = 0;
    model.n += 11;
    check_refused(&model, "a number of eleven bytes", NO_MODEL);

    start_model(&model);
    put_varint(&model, 19 << 3 | 3);
    put_varint(&model, 19 << 3 | 4);
    check_refused(&model, "a group", NO_MODEL);
}

/* At most 64 of them may begin one another; what follows a NUL in a piece is not looked at. */
static void test_nested_symbols(void **state)
{
    (void)state;
    static struct proto model;
    static char long_text[200];
    memset(long_text, 'x', sizeof(long_text) - 1);
    for (size_t n = 60; n <= 70; n++) {
        for (int kind = 0; kind < 3; kind++) {
            start_model(&model);
            for (size_t i = 1; i <= n; i++) {
                char piece[128];
                size_t bytes = i;
                memset(piece, 'x', sizeof(piece));
                if (kind == 1) {
                    piece[bytes++] = '\0';
                    piece[bytes++] = (char)i;
                }
                put_piece(&model, piece, bytes,
                          kind == 2 ? UINT64_C(1) << 32 | USER_DEFINED : USER_DEFINED);
            }
            if (n > 64)
                check_refused(&model, "symbols that begin one another", NESTED);
            else if (kind != 1)
                check_accepted(&model, long_text);
        }
    }
}

static void test_pieces_are_text(void **state)
{
    (void)state;
    static struct proto model;
    static const char *const wrong[] = {"\xFF", "a\x80", "\xE2\x96", "\xED\xA0\x80"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        start_model(&model);
        put_piece(&model, wrong[i], strlen(wrong[i]), 1);
        check_refused(&model, "a piece that is no UTF-8", NO_TEXT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged),        cmocka_unit_test(test_crafted_map),
        cmocka_unit_test(test_nested_rules),   cmocka_unit_test(test_crafted_protocol),
        cmocka_unit_test(test_nested_symbols), cmocka_unit_test(test_pieces_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
