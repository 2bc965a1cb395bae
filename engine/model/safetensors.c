/* Opening reads the header of each file to `entries`, and sorts them all at the end; numbers are
 * read when they are asked for. Whatever fails, safetensors_close() frees the half-built object. */
#include "model/safetensors.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/room.h"
#include "model/weight_file.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"
#define TORCH_FILE "pytorch_model.bin" /* of PyTorch: models.convert reads it */
#define BUFFER_NAME "buffer"

enum {
    MAX_INDEX_BYTES = 8 << 20, /* that of 3.3 billion parameters has 0.2 MB */
    MAX_SHARDS = 1000,
};
enum { BLOCK_BYTES = 2 << 20, ALIGNMENT = 64 }; /* of what tensors are read to */

/* Memory for numbers, used again after each release. */
struct block {
    char *memory; /* owned */
    size_t bytes, used;
};

struct safetensors {
    struct weight_file *files;
    size_t n_files, files_capacity;
    struct weight_entries entries; /* those of float types first, each part sorted by name */
    size_t n_floats;
    uint64_t n_parameters;
    uint64_t read_bytes;
    safetensors_progress_fn *progress; /* NULL: nobody wants to know */
    void *user;
    struct block *blocks;
    size_t n_blocks, blocks_capacity;
};

/* ---- Files ----------------------------------------------------------------------------------- */

/* Room for one more at the end; NULL: there is none. */
static struct weight_file *new_file(struct safetensors *weights, const char *name,
                                    struct acre_err *err)
{
    if (!mem_reserve(&weights->files, &weights->files_capacity, weights->n_files + 1,
                     sizeof(*weights->files)))
        return &weights->files[weights->n_files++];
    err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
    return NULL;
}

/* Opens directory/name, or the path `name` if directory is NULL. */
static int add_file(struct safetensors *weights, const char *directory, const char *name,
                    struct acre_err *err)
{
    struct weight_file *file = new_file(weights, name, err);
    if (!file)
        return ACRE_ENOMEM;
    int status = weight_file_open(file, directory, name, err);
    return status ? status : weight_file_list(file, weights->n_files - 1, &weights->entries, err);
}

/* ---- All files ------------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    const struct weight_entry *a = left, *b = right;
    if (!a->other != !b->other)
        return a->other ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Sorts the entries and counts what is ours. A name may stand in one file only. */
static int finish(struct safetensors *weights, struct acre_err *err)
{
    if (weights->entries.n == 0)
        return err_set(err, ACRE_EMODEL, "%s: expected tensors, found none",
                       weights->n_files ? weights->files[0].name : INDEX_FILE);
    qsort(weights->entries.items, weights->entries.n, sizeof(*weights->entries.items), by_name);
    for (size_t i = 0; i < weights->entries.n; i++) {
        const struct weight_entry *entry = &weights->entries.items[i];
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

static struct weight_entry *find_in(struct weight_entry *entries, size_t n, const char *name)
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

static struct weight_entry *find_entry(const struct safetensors *weights, const char *name)
{
    struct weight_entry *entry = find_in(weights->entries.items, weights->n_floats, name);
    return entry ? entry
                 : find_in(weights->entries.items + weights->n_floats,
                           weights->entries.n - weights->n_floats, name);
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
        int status = add_file(weights, directory, name, err);
        if (status)
            return status;
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
        const struct weight_entry *entry = find_entry(weights, tensor);
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
    int status = file_read(directory, INDEX_FILE, MAX_INDEX_BYTES, &text, err);
    if (!status)
        status = json_parse(INDEX_FILE, text.bytes, text.n, &root, &index, err);
    if (!status)
        status = json_opt_object(&index, "weight_map", &map, err);
    if (!status && !map.value)
        status = json_fail(&index, "weight_map", "an object", NULL, err);
    if (!status)
        status = open_shards(weights, directory, &map, err);
    if (!status)
        status = check_map(weights, &map, err);
    json_decref(root);
    text_fini(&text);
    return status;
}

/* Hands the object over, or closes it after a failure. */
static int hand_out(struct safetensors *weights, int status, struct safetensors **out)
{
    if (status)
        safetensors_close(weights);
    else
        *out = weights;
    return status;
}

static int open_directory(struct safetensors *weights, const char *directory, struct acre_err *err)
{
    const bool has_single = file_exists(directory, SINGLE_FILE);
    if (!has_single && file_exists(directory, INDEX_FILE))
        return open_index(weights, directory, err);
    if (!has_single &&
        (file_exists(directory, TORCH_FILE) || file_exists(directory, TORCH_FILE ".index.json")))
        return err_set(err, ACRE_EMODEL,
                       SINGLE_FILE ": expected it, found only " TORCH_FILE
                                   ", which python3 -m models.convert SOURCE DIR converts");
    const int status = add_file(weights, directory, SINGLE_FILE, err);
    return status ? status : finish(weights, err);
}

int safetensors_open(const char *directory, struct safetensors **weights, struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", SINGLE_FILE);
    return hand_out(object, open_directory(object, directory, err), weights);
}

int safetensors_open_file(const char *path, struct safetensors **weights, struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", path);
    int status = add_file(object, NULL, path, err);
    return hand_out(object, status ? status : finish(object, err), weights);
}

int safetensors_open_buffer(const void *data, size_t bytes, struct safetensors **weights,
                            struct acre_err *err)
{
    struct safetensors *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", BUFFER_NAME);
    struct weight_file *file = new_file(object, BUFFER_NAME, err);
    int status = file ? weight_file_borrow(file, BUFFER_NAME, data, bytes, err) : ACRE_ENOMEM;
    if (!status)
        status = weight_file_list(file, 0, &object->entries, err);
    return hand_out(object, status ? status : finish(object, err), weights);
}

void safetensors_release(struct safetensors *weights)
{
    for (size_t i = 0; i < weights->entries.n; i++)
        weights->entries.items[i].data = NULL;
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
    for (size_t i = 0; i < weights->n_files; i++)
        weight_file_close(&weights->files[i]);
    mem_free(weights->entries.items);
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

/* Memory for a tensor, until the next release; NULL if there is none. */
static void *take_block(struct safetensors *weights, size_t bytes)
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

/* Before its block is taken; read_numbers() fills it. */
static int ask_room(const struct safetensors *weights, const struct weight_entry *entry,
                    struct acre_err *err)
{
    int status = room_take(entry->name, entry->end - entry->begin, err);
    if (status)
        err_prefix(err, "%s: ", weights->files[entry->file].name);
    return status;
}

/* Reads the numbers of an entry. NULL as block: there is no memory for one. */
static int read_numbers(struct safetensors *weights, const struct weight_entry *entry, void *block,
                        struct tensor *tensor, struct acre_err *err)
{
    const struct weight_file *file = &weights->files[entry->file];
    *tensor = entry->tensor;
    tensor->data = block;
    int status = block
                     ? weight_file_read(file, entry, block, err)
                     : err_set(err, ACRE_ENOMEM, "%s: %s: out of memory", file->name, entry->name);
    room_filled(entry->end - entry->begin);
    if (!status)
        tell_progress(weights, entry->end - entry->begin);
    return status;
}

/* The entry called `name` if it has this shape and a float type. */
static int find_shaped(const struct safetensors *weights, const char *name, int n_dims,
                       const size_t *shape, struct weight_entry **out, struct acre_err *err)
{
    struct weight_entry *entry = find_entry(weights, name);
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
    struct weight_entry *entry;
    int status = find_shaped(weights, name, n_dims, shape, &entry, err);
    if (!status && !entry->data) {
        status = ask_room(weights, entry, err);
        void *block = status ? NULL : take_block(weights, entry->end - entry->begin);
        if (!status)
            status = read_numbers(weights, entry, block, tensor, err);
        entry->data = status ? NULL : block;
    }
    if (status)
        return status;
    *tensor = entry->tensor;
    tensor->data = entry->data;
    return 0;
}

int safetensors_take(struct safetensors *weights, const char *name, int n_dims, const size_t *shape,
                     struct tensor *tensor, struct acre_err *err)
{
    struct weight_entry *entry;
    int status = find_shaped(weights, name, n_dims, shape, &entry, err);
    if (!status)
        status = ask_room(weights, entry, err);
    if (status)
        return status;
    void *block = mem_alloc(entry->end - entry->begin);
    status = read_numbers(weights, entry, block, tensor, err);
    if (status)
        mem_free(block);
    return status;
}

const struct tensor *safetensors_find(const struct safetensors *weights, const char *name)
{
    const struct weight_entry *entry = find_in(weights->entries.items, weights->n_floats, name);
    return entry ? &entry->tensor : NULL;
}

bool safetensors_has(const struct safetensors *weights, const char *name)
{
    return find_entry(weights, name) != NULL;
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
    return weights->entries.items[index].name;
}

uint64_t safetensors_parameters(const struct safetensors *weights)
{
    return weights->n_parameters;
}