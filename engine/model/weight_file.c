/* The header stays parsed: names and metadata are borrowed from it. Nothing is mapped: reading from
 * a mapping of a file that has become shorter since ends the process. */
#include "model/weight_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/room.h"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100000000, /* as the format says */
};

/* ---- Types ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
    enum dtype dtype;
} types[] = {
    {"F32", 4, true, DTYPE_F32}, {"F16", 2, true, DTYPE_F16}, {"BF16", 2, true, DTYPE_BF16},
    {"F64", 8, false, 0},        {"I64", 8, false, 0},        {"U64", 8, false, 0},
    {"I32", 4, false, 0},        {"U32", 4, false, 0},        {"I16", 2, false, 0},
    {"U16", 2, false, 0},        {"I8", 1, false, 0},         {"U8", 1, false, 0},
    {"BOOL", 1, false, 0},       {"F8_E5M2", 1, false, 0},    {"F8_E4M3", 1, false, 0},
};

enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static size_t find_type(const json_t *name)
{
    size_t i = 0;
    while (i < N_TYPES &&
           !(json_is_string(name) && !strcmp(types[i].name, json_string_value(name))))
        i++;
    return i;
}

/* ---- One entry of the header ----------------------------------------------------------------- */

static int read_shape(const struct json_object *object, bool is_float, struct weight_entry *entry,
                      size_t *count, struct acre_err *err)
{
    const json_t *shape = json_object_get(object->value, "shape");
    if (!json_is_array(shape))
        return json_fail(object, "shape", "an array of sizes", shape, err);
    size_t n_dims = json_array_size(shape);
    if (is_float && n_dims > TENSOR_MAX_DIMS)
        return json_fail(object, "shape", "at most 4 sizes", shape, err);
    *count = 1;
    for (size_t i = 0; i < n_dims; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_int_in(size, 0, INT64_MAX))
            return json_fail(object, "shape", "sizes of 0 or more", shape, err);
        size_t n = (size_t)json_integer_value(size);
        if (__builtin_mul_overflow(*count, n, count))
            return json_fail(object, "shape", "a product below 2^64", shape, err);
        if (i < TENSOR_MAX_DIMS)
            entry->tensor.shape[i] = n;
    }
    entry->tensor.n_dims = (int)n_dims;
    return 0;
}

static int read_offsets(const struct json_object *object, size_t section_bytes,
                        struct weight_entry *entry, struct acre_err *err)
{
    const json_t *offsets = json_object_get(object->value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_int_in(begin, 0, INT64_MAX) ||
        !json_int_in(end, 0, INT64_MAX))
        return json_fail(object, "data_offsets", "two offsets", offsets, err);
    entry->begin = (size_t)json_integer_value(begin);
    entry->end = (size_t)json_integer_value(end);
    if (entry->begin > entry->end || entry->end > section_bytes) {
        char expected[96];
        snprintf(expected, sizeof(expected), "begin <= end <= %zu, the bytes of data",
                 section_bytes);
        return json_fail(object, "data_offsets", expected, offsets, err);
    }
    return 0;
}

static int read_entry(const struct json_object *object, size_t section_bytes,
                      struct weight_entry *entry, struct acre_err *err)
{
    const json_t *dtype = json_object_get(object->value, "dtype");
    size_t type = find_type(dtype);
    if (type == N_TYPES)
        return json_fail(object, "dtype", "a type of safetensors", dtype, err);
    if (types[type].is_float)
        entry->tensor.dtype = types[type].dtype;
    else
        entry->other = types[type].name;
    size_t count = 0, bytes;
    int status = read_shape(object, types[type].is_float, entry, &count, err);
    if (!status)
        status = read_offsets(object, section_bytes, entry, err);
    if (status)
        return status;
    if (__builtin_mul_overflow(count, types[type].bytes, &bytes) ||
        bytes != entry->end - entry->begin) {
        char expected[128];
        snprintf(expected, sizeof(expected), "the bytes of %zu numbers of type %s", count,
                 types[type].name);
        return json_fail(object, "data_offsets", expected,
                         json_object_get(object->value, "data_offsets"), err);
    }
    return 0;
}

/* ---- The header ------------------------------------------------------------------------------ */

/* Reads bytes [first, first + n) of the file. */
static int read_part(const struct weight_file *file, size_t first, size_t n, void *out,
                     struct acre_err *err)
{
    if (file->descriptor >= 0)
        return file_read_part(file->descriptor, file->name, first, n, out, err);
    memcpy(out, file->data + first, n);
    return 0;
}

/* Where the header ends and the data begin. */
static int find_section(struct weight_file *file, struct acre_err *err)
{
    unsigned char length[LENGTH_BYTES];
    if (file->bytes < LENGTH_BYTES)
        return err_set(err, ACRE_EMODEL, "%s: expected at least 8 bytes, found %zu", file->name,
                       file->bytes);
    int status = read_part(file, 0, LENGTH_BYTES, length, err);
    if (status)
        return status;
    uint64_t header_bytes = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        header_bytes = header_bytes << 8 | length[i];
    size_t rest = file->bytes - LENGTH_BYTES;
    size_t most = rest < MAX_HEADER_BYTES ? rest : MAX_HEADER_BYTES;
    if (header_bytes > most)
        return err_set(err, ACRE_EMODEL, "%s: header: expected at most %zu bytes, found %llu",
                       file->name, most, (unsigned long long)header_bytes);
    file->section = LENGTH_BYTES + header_bytes;
    file->section_bytes = rest - header_bytes;
    return 0;
}

static int parse_header(struct weight_file *file, struct json_object *object, struct acre_err *err)
{
    int status = find_section(file, err);
    size_t bytes = status ? 0 : file->section - LENGTH_BYTES;
    if (!status)
        status = room_take(file->name, bytes, err);
    if (status)
        return status;
    char *header = mem_alloc(bytes);
    status = header ? read_part(file, LENGTH_BYTES, bytes, header, err)
                    : err_set(err, ACRE_ENOMEM, "%s: out of memory", file->name);
    room_filled(bytes);
    if (!status)
        status = json_parse(file->name, header, bytes, &file->header, object, err);
    mem_free(header);
    return status;
}

static int check_metadata(const struct json_object *header, const json_t *metadata,
                          struct acre_err *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return json_fail(header, "__metadata__", "an object", metadata, err);
    json_object_foreach((json_t *)metadata, key,
                        value) if (!json_is_string(value)) return json_fail(header, "__metadata__",
                                                                            "strings", value, err);
    return 0;
}

static int add_entry(const struct weight_file *file, size_t number,
                     const struct json_object *header, const char *name, const json_t *value,
                     struct weight_entries *entries, struct acre_err *err)
{
    if (!json_is_object(value))
        return json_fail(header, name, "an object", value, err);
    if (mem_reserve(&entries->items, &entries->capacity, entries->n + 1, sizeof(*entries->items)))
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", file->name);
    struct json_object object = {.value = value, .file = file->name};
    snprintf(object.path, sizeof(object.path), "%.100s: ", name);
    struct weight_entry *entry = &entries->items[entries->n];
    *entry = (struct weight_entry){.name = name, .file = number};
    int status = read_entry(&object, file->section_bytes, entry, err);
    if (!status)
        entries->n++;
    return status;
}

static int by_begin(const void *left, const void *right)
{
    const struct weight_entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Two names for the same bytes would let a file smaller than its tensors look whole. */
static int check_overlap(const struct weight_file *file, struct weight_entry *entries, size_t n,
                         struct acre_err *err)
{
    qsort(entries, n, sizeof(*entries), by_begin);
    for (size_t i = 1; i < n; i++)
        if (entries[i].begin < entries[i - 1].end)
            return err_set(err, ACRE_EMODEL,
                           "%s: %.100s: data_offsets: expected bytes of its own, found those of "
                           "%.100s",
                           file->name, entries[i].name, entries[i - 1].name);
    return 0;
}

int weight_file_list(struct weight_file *file, size_t number, struct weight_entries *entries,
                     struct acre_err *err)
{
    struct json_object header;
    int status = parse_header(file, &header, err);
    if (status)
        return status;
    size_t first = entries->n;
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value)
    {
        status = strcmp(name, "__metadata__")
                     ? add_entry(file, number, &header, name, value, entries, err)
                     : check_metadata(&header, value, err);
        if (status)
            return status;
    }
    if (entries->n == first)
        return 0;
    return check_overlap(file, entries->items + first, entries->n - first, err);
}

/* ---- The numbers ----------------------------------------------------------------------------- */

int weight_file_read(const struct weight_file *file, const struct weight_entry *entry,
                     void *numbers, struct acre_err *err)
{
    struct tensor tensor = entry->tensor;
    tensor.data = numbers;
    int status =
        read_part(file, file->section + entry->begin, entry->end - entry->begin, numbers, err);
    size_t place = status ? 0 : tensor_first_not_finite(&tensor);
    float found;
    if (status || place == tensor_count(&tensor))
        return status;
    tensor_read(&tensor, place, 1, &found);
    return err_set(err, ACRE_EMODEL, "%s: %s: expected finite numbers, found %g at index %zu",
                   file->name, entry->name, (double)found, place);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int weight_file_borrow(struct weight_file *file, const char *name, const void *data, size_t bytes,
                       struct acre_err *err)
{
    *file = (struct weight_file){
        .name = mem_copy_text(name, strlen(name)), .descriptor = -1, .data = data, .bytes = bytes};
    return file->name ? 0 : err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
}

int weight_file_open(struct weight_file *file, const char *directory, const char *name,
                     struct acre_err *err)
{
    int status = weight_file_borrow(file, name, NULL, 0, err);
    if (status)
        return status;
    char *path = file_path(directory, name);
    if (!path)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
    file->descriptor = file_open(path, name, &file->bytes, err);
    mem_free(path);
    return file->descriptor < 0 ? file->descriptor : 0;
}

void weight_file_close(struct weight_file *file)
{
    json_decref(file->header);
    if (file->descriptor >= 0)
        close(file->descriptor);
    mem_free(file->name);
}
