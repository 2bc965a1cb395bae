/* Weights files: good ones, shards, and damaged ones with the message for each. Runs in the root
 * of the tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "../support/temp.h"
#include "base/mem.h"
#include "model/safetensors.h"

/* A file in memory: header length, header, and `n` bytes of data, which count up from 0. */
struct file {
    unsigned char bytes[4096];
    size_t n;
};

static void build(struct file *file, const char *header, size_t data_bytes)
{
    size_t header_bytes = strlen(header);
    file->n = 8 + header_bytes + data_bytes;
    assert_true(file->n <= sizeof(file->bytes));
    for (size_t i = 0; i < 8; i++)
        file->bytes[i] = (unsigned char)(header_bytes >> (8 * i));
    memcpy(file->bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        file->bytes[8 + header_bytes + i] = (unsigned char)i;
}

/* Opens from a block of exactly the file's size, so that a sanitizer sees any byte too far. */
static int open_built(const struct file *file, struct safetensors **weights, void **block,
                      struct acre_err *err)
{
    *block = malloc(file->n + 1);
    unsigned char *start = *block;
    start += 1 - file->n % 2; /* at an odd address now and then */
    memcpy(start, file->bytes, file->n);
    return safetensors_open_buffer(start, file->n, weights, err);
}

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"                           \
    "\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]},"                             \
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1,2],\"data_offsets\":[32,48]},"                  \
    "\"none\":{\"dtype\":\"BF16\",\"shape\":[3,0],\"data_offsets\":[26,26]}}   "

static void test_good(void **state)
{
    (void)state;
    struct file file;
    struct safetensors *weights;
    struct acre_err err = {0};
    struct tensor tensor;
    void *block;
    build(&file, GOOD, 48);
    if (open_built(&file, &weights, &block, &err))
        fail_msg("%s", err.text);
    assert_int_equal(safetensors_count(weights), 3);
    assert_string_equal(safetensors_name(weights, 0), "a");
    assert_string_equal(safetensors_name(weights, 1), "b");
    assert_string_equal(safetensors_name(weights, 2), "none");
    assert_int_equal(safetensors_parameters(weights), 7);
    assert_string_equal(safetensors_metadata(weights, "format"), "pt");
    assert_null(safetensors_metadata(weights, "else"));
    assert_null(safetensors_find(weights, "ids"));
    assert_null(safetensors_find(weights, "c"));
    assert_int_equal(safetensors_find(weights, "a")->n_dims, 0);

    const size_t shape[] = {2, 3};
    assert_int_equal(safetensors_get(weights, "b", 2, shape, &tensor, &err), 0);
    assert_int_equal((uintptr_t)tensor.data % 4, 0);
    float values[6];
    static const unsigned char first[] = {4, 5, 6, 7};
    tensor_read(&tensor, 1, 1, values);
    assert_memory_equal(values, first, 4);
    safetensors_close(weights);
    free(block);
}

static void test_get(void **state)
{
    (void)state;
    struct file file;
    struct safetensors *weights;
    struct acre_err err = {0};
    struct tensor tensor;
    void *block;
    build(&file, GOOD, 48);
    assert_int_equal(open_built(&file, &weights, &block, &err), 0);
    static const struct {
        const char *name;
        int n_dims;
        size_t shape[2];
        const char *message;
    } bad[] = {
        {"b", 2, {3, 2}, "buffer: b: expected shape [3, 2], found [2, 3]"},
        {"b", 1, {6}, "buffer: b: expected shape [6], found [2, 3]"},
        {"a", 1, {1}, "buffer: a: expected shape [1], found []"},
        {"c", 2, {2, 3}, "buffer: c: expected a tensor [2, 3], found nothing"},
        {"ids", 1, {2}, "buffer: ids: expected type F32, F16 or BF16, found I64"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            safetensors_get(weights, bad[i].name, bad[i].n_dims, bad[i].shape, &tensor, &err),
            ACRE_EMODEL);
        assert_string_equal(err.text, bad[i].message);
    }
    safetensors_close(weights);
    free(block);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

#define T(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message;
} damages[] = {
    {"", 0, "buffer: line 1: expected JSON, found: '[' or '{' expected near end of file"},
    {"[]", 0, "buffer: expected a JSON object, found another value"},
    {"{}", 0, "buffer: expected tensors, found none"},
    {"{\"__metadata__\":{}}", 8, "buffer: expected tensors, found none"},
    {"{\"__metadata__\":[]}", 0, "buffer: __metadata__: expected an object, found []"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "buffer: __metadata__: expected strings, found 1"},
    {"{\"t\":3}", 0, "buffer: t: expected an object, found 3"},
    {T("\"F31\"", "[1]", "[0,4]"), 4,
     "buffer: t: dtype: expected a type of safetensors, found \"F31\""},
    {T("7", "[1]", "[0,4]"), 4, "buffer: t: dtype: expected a type of safetensors, found 7"},
    {"{\"t\":{}}", 4, "buffer: t: dtype: expected a type of safetensors, found nothing"},
    {T("\"F32\"", "1", "[0,4]"), 4, "buffer: t: shape: expected an array of sizes, found 1"},
    {T("\"F32\"", "[1,1,1,1,1]", "[0,4]"), 4,
     "buffer: t: shape: expected at most 4 sizes, found [1,1,1,1,1]"},
    {T("\"F32\"", "[-1]", "[0,4]"), 4, "buffer: t: shape: expected sizes of 0 or more, found [-1]"},
    {T("\"F32\"", "[1.0]", "[0,4]"), 4,
     "buffer: t: shape: expected sizes of 0 or more, found [1.0]"},
    {T("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4,
     "buffer: t: shape: expected a product below 2^64, found [4294967296,4294967296]"},
    {T("\"F32\"", "[4611686018427387905]", "[0,4]"), 4,
     "buffer: t: data_offsets: expected the bytes of 4611686018427387905 numbers of type F32, "
     "found [0,4]"},
    {T("\"F32\"", "[1]", "[0,8]"), 8,
     "buffer: t: data_offsets: expected the bytes of 1 numbers of type F32, found [0,8]"},
    {T("\"F16\"", "[2,2]", "[0,4]"), 4,
     "buffer: t: data_offsets: expected the bytes of 4 numbers of type F16, found [0,4]"},
    {T("\"I8\"", "[2]", "[0,4]"), 4,
     "buffer: t: data_offsets: expected the bytes of 2 numbers of type I8, found [0,4]"},
    {T("\"F32\"", "[1]", "[0,4]"), 3,
     "buffer: t: data_offsets: expected begin <= end <= 3, the bytes of data, found [0,4]"},
    {T("\"F32\"", "[1]", "[4,0]"), 4,
     "buffer: t: data_offsets: expected begin <= end <= 4, the bytes of data, found [4,0]"},
    {T("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4,
     "buffer: t: data_offsets: expected begin <= end <= 4, the bytes of data, found "
     "[9223372036854775803,9223372036854775807]"},
    {T("\"F32\"", "[1]", "[-4,0]"), 4,
     "buffer: t: data_offsets: expected two offsets, found "
     "[-4,0]"},
    {T("\"F32\"", "[1]", "[0]"), 4, "buffer: t: data_offsets: expected two offsets, found [0]"},
    {T("\"F32\"", "[1]", "{}"), 4, "buffer: t: data_offsets: expected two offsets, found {}"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7]}}",
     8, "buffer: u: data_offsets: expected bytes of its own, found those of t"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     8, "buffer: u: data_offsets: expected bytes of its own, found those of t"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "buffer: line 1: expected JSON, found: duplicate object key near '\"t\"'"},
};

static void test_damage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct file file;
        struct safetensors *weights = NULL;
        struct acre_err err = {0};
        void *block;
        build(&file, damages[i].header, damages[i].data_bytes);
        if (open_built(&file, &weights, &block, &err) != ACRE_EMODEL)
            fail_msg("%s: expected an error", damages[i].header);
        assert_int_equal(err.code, ACRE_EMODEL);
        if (damages[i].header[0]) /* the text for nothing differs between versions of jansson */
            assert_string_equal(err.text, damages[i].message);
        assert_null(weights);
        free(block);
    }
}

static void test_header_length(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[8];
        const char *message;
    } lengths[] = {
        {{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
         "buffer: header: expected at most 2 bytes, found 18446744073709551615"},
        {{3}, "buffer: header: expected at most 2 bytes, found 3"},
    };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct file file;
        struct safetensors *weights;
        struct acre_err err = {0};
        build(&file, "{}", 0);
        memcpy(file.bytes, lengths[i].bytes, 8);
        assert_int_equal(safetensors_open_buffer(file.bytes, file.n, &weights, &err), ACRE_EMODEL);
        assert_string_equal(err.text, lengths[i].message);
    }
}

/* Numbers at the ends and around the middle of tensors of each type. */
static void test_not_finite(void **state)
{
    (void)state;
    static const struct {
        const char *type, *found;
        uint32_t bits;
        int bytes;
    } numbers[] = {
        {"F32", "inf", 0x7F800000, 4}, {"F32", "-inf", 0xFF800000, 4},
        {"F32", "nan", 0x7F800001, 4}, {"F16", "inf", 0x7C00, 2},
        {"F16", "-inf", 0xFC00, 2},    {"F16", "nan", 0x7C01, 2},
        {"BF16", "inf", 0x7F80, 2},    {"BF16", "-inf", 0xFF80, 2},
        {"BF16", "nan", 0x7FFF, 2},
    };
    enum { N = 10000 };
    static const size_t places[] = {0, 1, 4095, 4096, 5001, N - 1};
    static unsigned char bytes[4 * N + 256];
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            char header[128], message[128];
            size_t size = (size_t)numbers[i].bytes, shape[2] = {100, 100};
            int n =
                snprintf(header, sizeof(header),
                         "{\"w\":{\"dtype\":\"%s\",\"shape\":[100,100],\"data_offsets\":[0,%zu]}}",
                         numbers[i].type, N * size);
            memset(bytes, 0, sizeof(bytes));
            bytes[0] = (unsigned char)n;
            memcpy(bytes + 8, header, (size_t)n);
            memset(bytes + 8 + n, 0x71, N * size); /* large, but finite */
            memcpy(bytes + 8 + (size_t)n + places[p] * size, &numbers[i].bits, size);
            struct safetensors *weights;
            struct acre_err err = {0};
            struct tensor tensor;
            assert_int_equal(
                safetensors_open_buffer(bytes, 8 + (size_t)n + N * size, &weights, &err), 0);
            assert_int_equal(safetensors_get(weights, "w", 2, shape, &tensor, &err), ACRE_EMODEL);
            snprintf(message, sizeof(message),
                     "buffer: w: expected finite numbers, found %s at index %zu", numbers[i].found,
                     places[p]);
            if (strstr(numbers[i].found, "nan")) /* of either sign */
                assert_non_null(strstr(err.text, "nan at index"));
            else
                assert_string_equal(err.text, message);
            safetensors_close(weights);
        }
    }
}

/* A file that becomes shorter once it is open is an error, and nothing worse. */
static void test_cut_short(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], path[128];
    struct safetensors *weights;
    struct acre_err err = {0};
    struct tensor tensor;
    struct file file;
    size_t shape[2] = {2, 3};
    build(&file, GOOD, 48);
    temp_make(directory);
    temp_write(directory, "model.safetensors", file.bytes, file.n);
    assert_int_equal(safetensors_open(directory, &weights, &err), 0);
    assert_int_equal(safetensors_get(weights, "b", 2, shape, &tensor, &err), 0);
    snprintf(path, sizeof(path), "%s/model.safetensors", directory);
    assert_int_equal(truncate(path, (off_t)file.n - 40), 0);
    float numbers[6];
    tensor_read(&tensor, 0, 6, numbers); /* what has been read stays */
    safetensors_release(weights);
    assert_int_equal(safetensors_get(weights, "b", 2, shape, &tensor, &err), ACRE_EIO);
    assert_non_null(strstr(err.text, "model.safetensors: expected "));
    assert_non_null(strstr(err.text, "it became shorter"));
    safetensors_close(weights);
    temp_remove(directory);
}

/* Each start of a good file is refused; only the padding behind the last tensor may be missing. */
static void test_truncated(void **state)
{
    (void)state;
    struct file whole;
    build(&whole, GOOD, 48);
    for (size_t n = 0; n < whole.n; n++) {
        struct file file = whole;
        struct safetensors *weights = NULL;
        struct acre_err err = {0};
        void *block;
        file.n = n;
        assert_int_equal(open_built(&file, &weights, &block, &err), ACRE_EMODEL);
        assert_non_null(strstr(err.text, "buffer: "));
        free(block);
    }
}

/* Any byte of the header changed to any of a few others: an error or a file that can be read. */
static void test_flipped(void **state)
{
    (void)state;
    struct file whole;
    build(&whole, GOOD, 48);
    for (size_t at = 0; at < 8 + strlen(GOOD); at++) {
        for (const char *c = "09\"[]{},:-x\x80"; *c; c++) {
            struct file file = whole;
            struct safetensors *weights;
            void *block;
            file.bytes[at] = (unsigned char)*c;
            if (!open_built(&file, &weights, &block, NULL)) {
                for (size_t i = 0; i < safetensors_count(weights); i++) {
                    const char *name = safetensors_name(weights, i);
                    const struct tensor *found = safetensors_find(weights, name);
                    struct tensor tensor;
                    float values[64];
                    assert_true(tensor_count(found) <= 64);
                    if (!safetensors_get(weights, name, found->n_dims, found->shape, &tensor, NULL))
                        tensor_read(&tensor, 0, tensor_count(&tensor), values);
                }
                safetensors_close(weights);
            }
            free(block);
        }
    }
}

/* ---- Directories ----------------------------------------------------------------------------- */

#define X_AT_0 "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define Y_AT_0 "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define INDEX "model.safetensors.index.json"

static void write_built(const char *directory, const char *name, const char *header)
{
    struct file file;
    build(&file, header, 4);
    temp_write(directory, name, file.bytes, file.n);
}

static int open_index(const char *directory, const char *index, struct safetensors **weights,
                      struct acre_err *err)
{
    temp_write_text(directory, INDEX, index);
    return safetensors_open(directory, weights, err);
}

static void test_shards(void **state)
{
    (void)state;
    static const struct {
        const char *index, *message;
        int code;
    } bad[] = {
        {"{}", INDEX ": weight_map: expected an object, found nothing", ACRE_EMODEL},
        {"{\"weight_map\":[]}", INDEX ": weight_map: expected an object, found []", ACRE_EMODEL},
        {"{\"weight_map\":{}}", INDEX ": expected tensors, found none", ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"../1\"}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found \"../1\"",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"d/1\"}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found \"d/1\"",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"..\"}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found \"..\"",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found "
               "\"/etc/passwd\"",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"1\\nready\"}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found \"1\\nready\"",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"" INDEX "\"}}",
         INDEX ": header: expected at most 43 bytes, found 8388068008349082235", ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":1}}",
         INDEX ": weight_map.x: expected the name of a file in the directory, found 1",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"3\"}}", "3: cannot be opened: No such file or directory",
         ACRE_EIO},
        {"{\"weight_map\":{\"x\":\"1\",\"y\":\"1\"}}", INDEX ": y: expected in 1, found nowhere",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"1\",\"y\":\"2\",\"z\":\"2\"}}",
         INDEX ": z: expected in 2, found nowhere", ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"2\",\"y\":\"1\"}}", INDEX ": x: expected in 2, found in 1",
         ACRE_EMODEL},
        {"{\"weight_map\":{\"x\":\"1\",\"y\":\"again\"}}", NULL, ACRE_EMODEL},
    };
    char directory[sizeof(TEMP_TEMPLATE)];
    struct safetensors *weights;
    struct acre_err err = {0};
    temp_make(directory);
    write_built(directory, "1", "{" X_AT_0 "}");
    write_built(directory, "2", "{" Y_AT_0 "}");
    write_built(directory, "again", "{" X_AT_0 "}");
    if (open_index(directory, "{\"metadata\":{},\"weight_map\":{\"x\":\"1\",\"y\":\"2\"}}",
                   &weights, &err))
        fail_msg("%s", err.text);
    assert_int_equal(safetensors_count(weights), 2);
    assert_string_equal(safetensors_name(weights, 1), "y");
    safetensors_close(weights);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(open_index(directory, bad[i].index, &weights, &err), bad[i].code);
        if (bad[i].message)
            assert_string_equal(err.text, bad[i].message);
        else
            assert_non_null(strstr(err.text, "x: expected one tensor of this name, found another "
                                             "in "));
    }
    temp_remove(directory);
}

/* It is refused before it is read. */
static void test_huge_index(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], path[96];
    struct safetensors *weights;
    struct acre_err err = {0};
    temp_make(directory);
    temp_write_text(directory, INDEX, "{");
    snprintf(path, sizeof(path), "%s/" INDEX, directory);
    assert_int_equal(truncate(path, 100 << 20), 0);
    assert_int_equal(safetensors_open(directory, &weights, &err), ACRE_EIO);
    assert_string_equal(err.text,
                        INDEX ": expected a file of at most 8388608 bytes, found 104857600");
    temp_remove(directory);
}

/* Whatever names files have in them, a message is one line. */
static void test_names_with_control_characters(void **state)
{
    (void)state;
    struct file file;
    struct safetensors *weights;
    struct acre_err err = {0};
    build(&file,
          "{\"a\\nready\\u001b[2J\":{\"dtype\":\"X\",\"shape\":[],"
          "\"data_offsets\":[0,0]}}",
          0);
    assert_int_equal(safetensors_open_buffer(file.bytes, file.n, &weights, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "buffer: a?ready?[2J: dtype: expected a type of safetensors, "
                                  "found \"X\"");
}

static void test_directories(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], path[64];
    struct safetensors *weights;
    struct acre_err err = {0};
    temp_make(directory);
    assert_int_equal(safetensors_open(directory, &weights, &err), ACRE_EIO);
    assert_string_equal(err.text, "model.safetensors: cannot be opened: No such file or directory");
    temp_write(directory, "pytorch_model.bin", "", 0);
    assert_int_equal(safetensors_open(directory, &weights, &err), ACRE_EMODEL);
    assert_string_equal(err.text,
                        "model.safetensors: expected it, found only pytorch_model.bin, which "
                        "python3 -m models.convert SOURCE DIR converts");
    temp_write(directory, "model.safetensors", "", 0);
    assert_int_equal(safetensors_open(directory, &weights, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "model.safetensors: expected at least 8 bytes, found 0");
    write_built(directory, "model.safetensors", "{" X_AT_0 "}");
    assert_int_equal(safetensors_open(directory, &weights, &err), 0);
    assert_int_equal(safetensors_parameters(weights), 1);
    safetensors_close(weights);
    temp_remove(directory);
    temp_make(directory);
    snprintf(path, sizeof(path), "%s/model.safetensors", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(safetensors_open(directory, &weights, &err), ACRE_EIO);
    assert_string_equal(err.text, "model.safetensors: expected a regular file, found a directory");
    temp_remove(directory);
    safetensors_close(NULL);
}

static void test_golden_file(void **state)
{
    (void)state;
    struct safetensors *weights;
    struct acre_err err = {0};
    const char *path = "tests/golden/area-attention/eq3-basic.safetensors";
    if (safetensors_open_file(path, &weights, &err))
        fail_msg("%s", err.text);
    assert_non_null(safetensors_find(weights, "query"));
    assert_int_equal(safetensors_find(weights, "query")->n_dims, 4);
    assert_non_null(strstr(safetensors_metadata(weights, "acre"), "attention"));
    safetensors_close(weights);
    assert_int_equal(safetensors_open_file("nowhere/a", &weights, &err), ACRE_EIO);
    assert_string_equal(err.text, "nowhere/a: cannot be opened: No such file or directory");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)];
    temp_make(directory);
    write_built(directory, "1", "{" X_AT_0 "}");
    write_built(directory, "2", "{" Y_AT_0 "} ");
    temp_write_text(directory, INDEX, "{\"weight_map\":{\"x\":\"1\",\"y\":\"2\"}}");
    int code = ACRE_ENOMEM;
    long n = 0;
    for (; code == ACRE_ENOMEM && n < 100; n++) {
        struct safetensors *weights = NULL;
        struct acre_err err = {0};
        struct tensor tensor;
        mem_fail_after(n);
        code = safetensors_open(directory, &weights, &err);
        if (!code)
            code = safetensors_get(weights, "x", 1, &(size_t){1}, &tensor, &err);
        mem_fail_after(-1);
        assert_int_equal(err.code, code);
        safetensors_close(weights);
    }
    assert_int_equal(code, 0);
    assert_true(n > 10);
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_get),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_truncated),   cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_huge_index),  cmocka_unit_test(test_names_with_control_characters),
        cmocka_unit_test(test_shards),      cmocka_unit_test(test_directories),
        cmocka_unit_test(test_golden_file), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
