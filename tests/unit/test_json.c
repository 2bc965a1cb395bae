/* Files and strict getters: every message, word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/temp.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/room.h"

static json_t *root;
static struct json_object object;

static int parse(const char *text, struct acre_err *err)
{
    return json_parse("f.json", text, strlen(text), &root, &object, err);
}

static void test_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } damaged[] = {
        {"", "f.json: line 1: expected JSON, found: '[' or '{' expected near end of file"},
        {"{", "f.json: line 1: expected JSON, found: string or '}' expected near end of file"},
        {"{\"a\":1}x", "f.json: line 1: expected JSON, found: end of file expected near 'x'"},
        {"{\"a\":1,\n\"a\":2}",
         "f.json: line 2: expected JSON, found: duplicate object key near '\"a\"'"},
        {"[1]", "f.json: expected a JSON object, found another value"},
        {"7", "f.json: expected a JSON object, found another value"},
        {"{\"a\":\"\xff\"}",
         "f.json: line 1: expected JSON, found: unable to decode byte 0xff near '\"'"},
    };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct acre_err err = {0};
        assert_int_equal(parse(damaged[i].text, &err), ACRE_EMODEL);
        assert_int_equal(err.code, ACRE_EMODEL);
        if (i > 0) /* the text for nothing at all differs between versions of jansson */
            assert_string_equal(err.text, damaged[i].message);
    }
}

/* Objects without members take most: 80 times as much as their text. What is parsed is freed. */
static void test_parsing_asks_for_room(void **state)
{
    (void)state;
    enum { N_OBJECTS = 2 << 20, LEFT_BYTES = 256 << 20 };
    static char text[16 + 3 * N_OBJECTS];
    size_t room = room_bytes("");
    struct acre_err err;
    char *at = text + sprintf(text, "{\"a\":[");
    for (size_t i = 0; i < N_OBJECTS; i++, at += 3)
        memcpy(at, i == 0 ? "{} " : ",{}", 3);
    strcpy(at, "]}");
    if (room < 2 * (size_t)LEFT_BYTES)
        skip();
    assert_int_equal(room_take("all but", room - LEFT_BYTES, NULL), 0);
    assert_int_equal(parse(text, &err), ACRE_ENOMEM);
    assert_non_null(strstr(err.text, "f.json: expected 1068 MiB of free memory, found "));
    assert_int_equal(parse("{}", &err), 0);
    json_decref(root);
    room_filled(room - LEFT_BYTES);
}

struct reading {
    const char *json;
    int code;
    const char *message;
};

#define CHECK_READINGS(table, call)                                                                \
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {                                \
        struct acre_err err = {0};                                                                 \
        assert_int_equal(parse(table[i].json, &err), 0);                                           \
        assert_int_equal(call, table[i].code);                                                     \
        assert_string_equal(err.text, table[i].message);                                           \
        json_decref(root);                                                                         \
    }

static void test_integers(void **state)
{
    (void)state;
    static const struct reading table[] = {
        {"{\"n\":1}", 0, ""},
        {"{\"n\":65536}", 0, ""},
        {"{}", ACRE_EMODEL, "f.json: n: expected an integer from 1 to 65536, found nothing"},
        {"{\"n\":null}", ACRE_EMODEL, "f.json: n: expected an integer from 1 to 65536, found null"},
        {"{\"n\":\"abc\"}", ACRE_EMODEL,
         "f.json: n: expected an integer from 1 to 65536, found \"abc\""},
        {"{\"n\":1.5}", ACRE_EMODEL, "f.json: n: expected an integer from 1 to 65536, found 1.5"},
        {"{\"n\":0}", ACRE_EMODEL, "f.json: n: expected an integer from 1 to 65536, found 0"},
        {"{\"n\":65537}", ACRE_EMODEL,
         "f.json: n: expected an integer from 1 to 65536, found 65537"},
        {"{\"n\":4294967297}", ACRE_EMODEL,
         "f.json: n: expected an integer from 1 to 65536, found 4294967297"},
        {"{\"n\":[1]}", ACRE_EMODEL, "f.json: n: expected an integer from 1 to 65536, found [1]"},
        {"{\"n\":\"ääääääääääääääääääääääääääääääääääääääää\"}", ACRE_EMODEL,
         "f.json: n: expected an integer from 1 to 65536, found "
         "\"äääääääääääääääääääääääääääää..."},
    };
    int n;
    CHECK_READINGS(table, json_get_int(&object, "n", 1, 65536, &n, &err))
}

static void test_optional(void **state)
{
    (void)state;
    static const struct reading ints[] = {
        {"{}", 0, ""},
        {"{\"n\":null}", 0, ""},
        {"{\"n\":3}", ACRE_EMODEL, "f.json: n: expected an integer from 0 to 2, found 3"},
    };
    int n = 7;
    CHECK_READINGS(ints, json_opt_int(&object, "n", 0, 2, &n, &err))
    assert_int_equal(n, 7);
    static const struct reading bools[] = {
        {"{\"b\":true}", 0, ""},
        {"{\"b\":1}", ACRE_EMODEL, "f.json: b: expected true or false, found 1"},
    };
    bool b = false;
    CHECK_READINGS(bools, json_opt_bool(&object, "b", &b, &err))
    assert_true(b);
    static const struct reading floats[] = {
        {"{\"x\":1}", 0, ""},
        {"{\"x\":-0.5}", 0, ""},
        {"{\"x\":\"1\"}", ACRE_EMODEL, "f.json: x: expected a number from -1 to 2, found \"1\""},
        {"{\"x\":2.5}", ACRE_EMODEL, "f.json: x: expected a number from -1 to 2, found 2.5"},
    };
    float x = 0;
    CHECK_READINGS(floats, json_opt_float(&object, "x", -1, 2, &x, &err))
    assert_true(x == -0.5F);
}

static void test_text(void **state)
{
    (void)state;
    static const struct reading table[] = {
        {"{\"s\":\"abc\"}", 0, ""},
        {"{}", ACRE_EMODEL, "f.json: s: expected a string of 1 to 3 bytes, found nothing"},
        {"{\"s\":7}", ACRE_EMODEL, "f.json: s: expected a string of 1 to 3 bytes, found 7"},
        {"{\"s\":\"\"}", ACRE_EMODEL, "f.json: s: expected a string of 1 to 3 bytes, found \"\""},
        {"{\"s\":\"abcd\"}", ACRE_EMODEL,
         "f.json: s: expected a string of 1 to 3 bytes, found \"abcd\""},
    };
    char s[4] = "";
    CHECK_READINGS(table, json_get_text(&object, "s", sizeof(s), s, &err))
    assert_string_equal(s, "abc");
}

static void test_nesting(void **state)
{
    (void)state;
    struct acre_err err = {0};
    struct json_object child, grandchild;
    int n;
    assert_int_equal(parse("{\"a\":{\"b\":{\"n\":9}},\"c\":1}", &err), 0);
    assert_int_equal(json_opt_object(&object, "a", &child, &err), 0);
    assert_int_equal(json_opt_object(&child, "b", &grandchild, &err), 0);
    assert_int_equal(json_get_int(&grandchild, "n", 0, 2, &n, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "f.json: a.b.n: expected an integer from 0 to 2, found 9");
    assert_int_equal(json_opt_object(&object, "c", &child, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "f.json: c: expected an object, found 1");
    assert_int_equal(json_opt_object(&object, "d", &child, &err), 0);
    assert_null(child.value);
    json_decref(root);
}

static void test_files(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], path[64];
    struct text text;
    struct acre_err err = {0};
    temp_make(directory);
    temp_write_text(directory, "a", "hello");
    temp_write_text(directory, "empty", "");
    temp_write_text(directory, "pointer",
                    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n");
    snprintf(path, sizeof(path), "%s/dir", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof(path), "%s/link", directory);
    assert_int_equal(symlink("gone", path), 0);

    assert_int_equal(file_read(directory, "a", 5, &text, &err), 0);
    assert_string_equal(text.bytes, "hello");
    assert_int_equal(text.n, 5);
    text_fini(&text);
    assert_int_equal(file_read(directory, "empty", 5, &text, &err), 0);
    assert_int_equal(text.n, 0);
    text_fini(&text);

    static const struct {
        const char *name, *message;
    } bad[] = {
        {"a", "a: expected a file of at most 4 bytes, found 5"},
        {"b", "b: cannot be opened: No such file or directory"},
        {"dir", "dir: expected a regular file, found a directory"},
        {"fifo", "fifo: expected a regular file, found something else"},
        {"a/b", "a/b: cannot be opened: Not a directory"},
        {"pointer", "pointer: expected the file itself, found a pointer of Git LFS; fetch the file "
                    "with git lfs pull"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(file_read(directory, bad[i].name, 4, &text, &err), ACRE_EIO);
        assert_string_equal(err.text, bad[i].message);
        assert_null(text.bytes);
    }
    assert_int_equal(file_read_optional(directory, "b", 4, &text, &err), 0);
    assert_null(text.bytes);
    assert_int_equal(file_read_optional(directory, "a", 4, &text, &err), ACRE_EIO);
    static const char *const there[] = {"link", "a/b"}; /* though nobody can read them */
    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        assert_true(file_exists(directory, there[i]));
        assert_int_equal(file_read_optional(directory, there[i], 4, &text, &err), ACRE_EIO);
    }
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(file_read(directory, "a", 5, &text, &err), ACRE_ENOMEM);
        mem_fail_after(-1);
    }
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parsing),  cmocka_unit_test(test_parsing_asks_for_room),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_optional),
        cmocka_unit_test(test_text),     cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
