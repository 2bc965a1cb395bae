/* A file is 8 bytes of header length, a JSON header, and the data. The header stays parsed: names
 * and metadata are borrowed from it. Tensors of types that Acre does not compute with may stand in
 * a file; they are checked and remembered, so that asking for one says why it is refused.
 *
 * Opening reads the header of each file to `entries`, and sorts them all at the end; numbers are
 * read when they are asked for. Nothing is mapped: reading from a mapping of a file that has become
 * shorter since ends the process. Whatever fails, safetensors_close() frees the half-built object.
 */
#include "model/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/room.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"
#define BUFFER_NAME "buffer"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100000000, /* as the format says */
    MAX_INDEX_BYTES = 8 << 20,    /* that of 3.3 billion parameters has 0.2 MB */
    MAX_SHARDS = 1000,
};
enum { BLOCK_BYTES = 2 << 20, ALIGNMENT = 64 }; /* of what tensors are read to */

struct weight_file {
    char *name;       /* owned: what messages call it */
    int descriptor;   /* owned; negative: it is in memory */
    const char *data; /* borrowed: there */
    size_t bytes;
    size_t section, section_bytes; /* the data behind the header */
    json_t *header;
};

struct entry {
    const char *name;  /* borrowed from the header */
    const char *other; /* borrowed: the type's name if it is none of ours, else NULL */
    size_t file;
    size_t begin, end; /* in the file's section */
    struct tensor tensor;
    void *data; /* in a block: what has been read, or NULL */
};

/* Memory for numbers, used again after each release. */
struct block {
    char *memory; /* owned */
    size_t bytes, used;
};

struct safetensors {
    struct weight_file *files;
    size_t n_files, files_capacity;
    struct entry *entries; /* those of float types first, each part sorted by name */
    size_t n_entries, entries_capacity;
    size_t n_floats;
    uint64_t n_parameters;
    uint64_t read_bytes;
    safetensors_progress_fn *progress; /* NULL: nobody wants to know */
    void *user;
    struct block *blocks;
    size_t n_blocks, blocks_capacity;
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

static int read_shape(const struct json_object *object, bool is_float, struct entry *entry,
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

static int read_offsets(const struct json_object *object, size_t section_bytes, struct entry *entry,
                        struct acre_err *err)
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

static int read_entry(const struct json_object *object, size_t section_bytes, struct entry *entry,
                      struct acre_err *err)
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
    int code = read_shape(object, types[type].is_float, entry, &count, err);
    if (!code)
        code = read_offsets(object, section_bytes, entry, err);
    if (code)
        return code;
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

/* ---- One file -------------------------------------------------------------------------------- */

/* Reads bytes [first, first + n) of the file. */
static int read_part(const struct weight_file *file, size_t first, size_t n, void *out,
                     struct acre_err *err)
{
    if (file->descriptor >= 0)
        return file_read_part(file->descriptor, file->name, first, n, out, err);
    memcpy(out, file->data + first, n);
    return 0;
}

static int parse_header(struct weight_file *file, struct json_object *object, struct acre_err *err)
{
    unsigned char length[LENGTH_BYTES];
    if (file->bytes < LENGTH_BYTES)
        return err_set(err, ACRE_EMODEL, "%s: expected at least 8 bytes, found %zu", file->name,
                       file->bytes);
    int code = read_part(file, 0, LENGTH_BYTES, length, err);
    if (code)
        return code;
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
    char *header = mem_alloc(header_bytes);
    if (!header)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", file->name);
    code = read_part(file, LENGTH_BYTES, header_bytes, header, err);
    if (!code)
        code = json_parse(file->name, header, header_bytes, &file->header, object, err);
    mem_free(header);
    return code;
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

static int add_entry(struct safetensors *weights, size_t file_index,
                     const struct json_object *header, const char *name, const json_t *value,
                     struct acre_err *err)
{
    const struct weight_file *file = &weights->files[file_index];
    if (!json_is_object(value))
        return json_fail(header, name, "an object", value, err);
    if (mem_reserve(&weights->entries, &weights->entries_capacity, weights->n_entries + 1,
                    sizeof(*weights->entries)))
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", file->name);
    struct json_object object = {.value = value, .file = file->name};
    snprintf(object.path, sizeof(object.path), "%.100s: ", name);
    struct entry *entry = &weights->entries[weights->n_entries];
    *entry = (struct entry){.name = name, .file = file_index};
    int code = read_entry(&object, file->section_bytes, entry, err);
    if (!code)
        weights->n_entries++;
    return code;
}

static int by_begin(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Two names for the same bytes would let a file smaller than its tensors look whole. */
static int check_overlap(const struct weight_file *file, struct entry *entries, size_t n,
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

static int read_header(struct safetensors *weights, size_t file_index, struct acre_err *err)
{
    struct weight_file *file = &weights->files[file_index];
    struct json_object header;
    int code = parse_header(file, &header, err);
    if (code)
        return code;
    size_t first = weights->n_entries;
    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value)
    {
        code = strcmp(name, "__metadata__")
                   ? add_entry(weights, file_index, &header, name, value, err)
                   : check_metadata(&header, value, err);
        if (code)
            return code;
    }
    if (weights->n_entries == first)
        return 0;
    return check_overlap(file, weights->entries + first, weights->n_entries - first, err);
}

/* A new file at the end of weights->files; NULL if out of memory. */
static struct weight_file *new_file(struct safetensors *weights, const char *name,
                                    struct acre_err *err)
{
    struct weight_file *file = NULL;
    if (!mem_reserve(&weights->files, &weights->files_capacity, weights->n_files + 1,
                     sizeof(*weights->files))) {
        file = &weights->files[weights->n_files];
        *file = (struct weight_file){.name = mem_copy_text(name, strlen(name)), .descriptor = -1};
    }
    if (!file || !file->name) {
        err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
        return NULL;
    }
    weights->n_files++;
    return file;
}

/* Opens directory/name, or the path `name` if directory is NULL. */
static int add_file(struct safetensors *weights, const char *directory, const char *name,
                    struct acre_err *err)
{
    struct weight_file *file = new_file(weights, name, err);
    if (!file)
        return ACRE_ENOMEM;
    char *path = file_path(directory, name);
    if (!path)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
    file->descriptor = file_open(path, name, &file->bytes, err);
    mem_free(path);
    if (file->descriptor < 0)
        return file->descriptor;
    return read_header(weights, weights->n_files - 1, err);
}

/* ---- All files ------------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (!a->other != !b->other)
        return a->other ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Sorts the entries and counts what is ours. A name may stand in one file only. */
static int finish(struct safetensors *weights, struct acre_err *err)
{
    if (weights->n_entries == 0)
        return err_set(err, ACRE_EMODEL, "%s: expected tensors, found none",
                       weights->n_files ? weights->files[0].name : INDEX_FILE);
    qsort(weights->entries, weights->n_entries, sizeof(*weights->entries), by_name);
    for (size_t i = 0; i < weights->n_entries; i++) {
        const struct entry *entry = &weights->entries[i];
        if (i > 0 && !by_name(entry - 1, entry))
            return err_set(err, ACRE_EMODEL,
                           "%s: %.100s: expected one tensor of this name, found "
                           "another in %s",
                           weights->files[entry->file].name, entry->name,
                           weights->files[entry[-1].file].name);
        if (entry->other)
            continue;
        weights->n_floats++;
        weights->n_parameters += tensor_count(&entry->tensor);
    }
    return 0;
}

static struct entry *find_in(struct entry *entries, size_t n, const char *name)
{
    while (n > 0) {
        size_t half = n / 2;
        int order = strcmp(name, entries[half].name);
        if (order == 0)
            return &entries[half];
        if (order > 0) {
            entries += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return NULL;
}

static struct entry *find_entry(const struct safetensors *weights, const char *name)
{
    struct entry *entry = find_in(weights->entries, weights->n_floats, name);
    return entry ? entry
                 : find_in(weights->entries + weights->n_floats,
                           weights->n_entries - weights->n_floats, name);
}

/* Nothing that leads out of the directory, or that would begin a new line where it is told. */
static bool is_file_name(const json_t *value)
{
    const char *name = json_string_value(value);
    if (!name || !name[0] || name[0] == '.' || json_string_length(value) >= 256)
        return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || iscntrl((unsigned char)*c))
            return false;
    return true;
}

static size_t find_file(const struct safetensors *weights, const char *name)
{
    size_t i = 0;
    while (i < weights->n_files && strcmp(weights->files[i].name, name))
        i++;
    return i;
}

static int open_shards(struct safetensors *weights, const char *directory,
                       const struct json_object *map, struct acre_err *err)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach((json_t *)map->value, tensor, shard)
    {
        if (!is_file_name(shard))
            return json_fail(map, tensor, "the name of a file in the directory", shard, err);
        const char *name = json_string_value(shard);
        if (find_file(weights, name) < weights->n_files)
            continue;
        if (weights->n_files == MAX_SHARDS)
            return json_fail(map, tensor, "at most 1000 files", shard, err);
        int code = add_file(weights, directory, name, err);
        if (code)
            return code;
    }
    return finish(weights, err);
}

static int check_map(const struct safetensors *weights, const struct json_object *map,
                     struct acre_err *err)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach((json_t *)map->value, tensor, shard)
    {
        const struct entry *entry = find_entry(weights, tensor);
        const char *name = entry ? weights->files[entry->file].name : NULL;
        if (!name || strcmp(name, json_string_value(shard)))
            return err_set(err, ACRE_EMODEL, "%s: %.100s: expected in %s, found %s%s", INDEX_FILE,
                           tensor, json_string_value(shard), name ? "in " : "nowhere",
                           name ? name : "");
    }
    return 0;
}

static int open_index(struct safetensors *weights, const char *directory, struct acre_err *err)
{
    struct text text;
    json_t *root = NULL;
    struct json_object index, map;
    int code = file_read(directory, INDEX_FILE, MAX_INDEX_BYTES, &text, err);
    if (!code)
        code = json_parse(INDEX_FILE, text.bytes, text.n, &root, &index, err);
    if (!code)
        code = json_opt_object(&index, "weight_map", &map, err);
    if (!code && !map.value)
        code = json_fail(&index, "weight_map", "an object", NULL, err);
    if (!code)
        code = open_shards(weights, directory, &map, err);
    if (!code)
        code = check_map(weights, &map, err);
    json_decref(root);
    text_fini(&text);
    return code;
}

/* Hands the object over, or closes it after a failure. */
static int hand_out(struct safetensors *weights, int code, struct safetensors **out)
{
    if (code)
        safetensors_close(weights);
    else
        *out = weights;
    return code;
}

int safetensors_open(const char *directory, struct safetensors **weights, struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", SINGLE_FILE);
    int code;
    if (!file_exists(directory, SINGLE_FILE) && file_exists(directory, INDEX_FILE)) {
        code = open_index(object, directory, err);
    } else {
        code = add_file(object, directory, SINGLE_FILE, err);
        if (!code)
            code = finish(object, err);
    }
    return hand_out(object, code, weights);
}

int safetensors_open_file(const char *path, struct safetensors **weights, struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", path);
    int code = add_file(object, NULL, path, err);
    return hand_out(object, code ? code : finish(object, err), weights);
}

int safetensors_open_buffer(const void *data, size_t bytes, struct safetensors **weights,
                            struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", BUFFER_NAME);
    struct weight_file *file = new_file(object, BUFFER_NAME, err);
    if (!file)
        return hand_out(object, ACRE_ENOMEM, weights);
    file->data = data;
    file->bytes = bytes;
    int code = read_header(object, 0, err);
    return hand_out(object, code ? code : finish(object, err), weights);
}

void safetensors_release(struct safetensors *weights)
{
    for (size_t i = 0; i < weights->n_entries; i++)
        weights->entries[i].data = NULL;
    for (size_t i = 0; i < weights->n_blocks; i++)
        weights->blocks[i].used = 0;
}

void safetensors_close(struct safetensors *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->n_blocks; i++)
        mem_unmap(weights->blocks[i].memory, weights->blocks[i].bytes);
    mem_free(weights->blocks);
    for (size_t i = 0; i < weights->n_files; i++) {
        struct weight_file *file = &weights->files[i];
        json_decref(file->header);
        if (file->descriptor >= 0)
            close(file->descriptor);
        mem_free(file->name);
    }
    mem_free(weights->entries);
    mem_free(weights->files);
    mem_free(weights);
}

/* ---- Looking up ------------------------------------------------------------------------------ */

static void show_shape(int n_dims, const size_t *shape, char out[128])
{
    int used = snprintf(out, 128, "[");
    for (int i = 0; i < n_dims && used < 100; i++)
        used += snprintf(out + used, (size_t)(128 - used), "%s%zu", i ? ", " : "", shape[i]);
    snprintf(out + used, (size_t)(128 - used), "]");
}

/* Refuses a tensor with a number that is infinite or none. */
static int check_numbers(const struct weight_file *file, const struct entry *entry,
                         const struct tensor *tensor, struct acre_err *err)
{
    size_t place = tensor_first_not_finite(tensor);
    float found;
    if (place == tensor_count(tensor))
        return 0;
    tensor_read(tensor, place, 1, &found);
    return err_set(err, ACRE_EMODEL, "%s: %s: expected finite numbers, found %g at index %zu",
                   file->name, entry->name, (double)found, place);
}

/* Room for a tensor, until the next release; NULL if out of memory. */
static void *take_room(struct safetensors *weights, size_t bytes)
{
    size_t wanted = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, i = 0;
    while (i < weights->n_blocks && weights->blocks[i].bytes - weights->blocks[i].used < wanted)
        i++;
    if (i == weights->n_blocks) {
        struct block block = {.bytes = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES};
        if (mem_reserve(&weights->blocks, &weights->blocks_capacity, i + 1, sizeof(block)))
            return NULL;
        block.memory = mem_map(block.bytes);
        if (!block.memory)
            return NULL;
        mem_will_write(block.memory, wanted);
        weights->blocks[weights->n_blocks++] = block;
    }
    struct block *block = &weights->blocks[i];
    block->used += wanted;
    return block->memory + block->used - wanted;
}

static void tell_progress(struct safetensors *weights, size_t bytes)
{
    uint64_t all = 0;
    weights->read_bytes += bytes;
    if (!weights->progress)
        return;
    for (size_t i = 0; i < weights->n_files; i++)
        all += weights->files[i].section_bytes;
    weights->progress(weights->user, weights->read_bytes, all);
}

void safetensors_watch(struct safetensors *weights, safetensors_progress_fn *progress, void *user)
{
    weights->progress = progress;
    weights->user = user;
}

/* Before its block is taken. */
static int check_room(const struct safetensors *weights, const struct entry *entry,
                      struct acre_err *err)
{
    size_t bytes = entry->end - entry->begin;
    if (room_has(bytes))
        return 0;
    return err_set(err, ACRE_ENOMEM, "%s: %s: expected %zu MiB of free memory, found %zu MiB",
                   weights->files[entry->file].name, entry->name, (bytes + ROOM_SPARE_BYTES) >> 20,
                   room_bytes("") >> 20);
}

/* Reads the numbers of an entry. NULL as room: there is none. */
static int read_numbers(struct safetensors *weights, const struct entry *entry, void *room,
                        struct tensor *tensor, struct acre_err *err)
{
    const struct weight_file *file = &weights->files[entry->file];
    if (!room)
        return err_set(err, ACRE_ENOMEM, "%s: %s: out of memory", file->name, entry->name);
    *tensor = entry->tensor;
    tensor->data = room;
    int code = read_part(file, file->section + entry->begin, entry->end - entry->begin, room, err);
    if (!code)
        code = check_numbers(file, entry, tensor, err);
    if (!code)
        tell_progress(weights, entry->end - entry->begin);
    return code;
}

/* The entry called `name` if it has this shape and a float type. */
static int find_shaped(const struct safetensors *weights, const char *name, int n_dims,
                       const size_t *shape, struct entry **out, struct acre_err *err)
{
    struct entry *entry = find_entry(weights, name);
    char expected[128], found[128];
    show_shape(n_dims, shape, expected);
    if (!entry)
        return err_set(err, ACRE_EMODEL, "%s: %s: expected a tensor %s, found nothing",
                       weights->n_files == 1 ? weights->files[0].name : INDEX_FILE, name, expected);
    const char *file = weights->files[entry->file].name;
    if (entry->other)
        return err_set(err, ACRE_EMODEL, "%s: %s: expected type F32, F16 or BF16, found %s", file,
                       name, entry->other);
    const struct tensor *have = &entry->tensor;
    if (have->n_dims != n_dims || memcmp(have->shape, shape, (size_t)n_dims * sizeof(*shape))) {
        show_shape(have->n_dims, have->shape, found);
        return err_set(err, ACRE_EMODEL, "%s: %s: expected shape %s, found %s", file, name,
                       expected, found);
    }
    *out = entry;
    return 0;
}

int safetensors_get(struct safetensors *weights, const char *name, int n_dims, const size_t *shape,
                    struct tensor *tensor, struct acre_err *err)
{
    struct entry *entry;
    int code = find_shaped(weights, name, n_dims, shape, &entry, err);
    if (!code && !entry->data) {
        code = check_room(weights, entry, err);
        void *room = code ? NULL : take_room(weights, entry->end - entry->begin);
        if (!code)
            code = read_numbers(weights, entry, room, tensor, err);
        entry->data = code ? NULL : room;
    }
    if (code)
        return code;
    *tensor = entry->tensor;
    tensor->data = entry->data;
    return 0;
}

int safetensors_take(struct safetensors *weights, const char *name, int n_dims, const size_t *shape,
                     struct tensor *tensor, struct acre_err *err)
{
    struct entry *entry;
    int code = find_shaped(weights, name, n_dims, shape, &entry, err);
    if (!code)
        code = check_room(weights, entry, err);
    if (code)
        return code;
    void *room = mem_alloc(entry->end - entry->begin);
    code = read_numbers(weights, entry, room, tensor, err);
    if (code)
        mem_free(room);
    return code;
}

const struct tensor *safetensors_find(const struct safetensors *weights, const char *name)
{
    const struct entry *entry = find_in(weights->entries, weights->n_floats, name);
    return entry ? &entry->tensor : NULL;
}

const char *safetensors_metadata(const struct safetensors *weights, const char *key)
{
    const json_t *metadata = json_object_get(weights->files[0].header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}

size_t safetensors_count(const struct safetensors *weights)
{
    return weights->n_floats;
}

const char *safetensors_name(const struct safetensors *weights, size_t index)
{
    return weights->entries[index].name;
}

uint64_t safetensors_parameters(const struct safetensors *weights)
{
    return weights->n_parameters;
}
