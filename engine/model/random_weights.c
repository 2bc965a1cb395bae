/* First the header of a safetensors file is written, which lists all tensors; then the file, whose
 * numbers follow from what the header says. */
#include "model/random_weights.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "kernels/kernels.h" /* kernels_bf16 */
#include "tensor/area.h"     /* area_key_inputs() */

enum { LENGTH_BYTES = 8, NUMBER_BYTES = 2 };

static const float VECTOR_SPREAD = 0.02f; /* of biases */

/* ---- Names and shapes ------------------------------------------------------------------------ */

struct tensor_list {
    json_t *header;
    size_t bytes; /* of data so far */
};

void tensor_list_add(struct tensor_list *list, size_t n, size_t k, const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    size_t begin = list->bytes;
    json_t *shape =
        k > 0 ? json_pack("[I, I]", (json_int_t)n, (json_int_t)k) : json_pack("[I]", (json_int_t)n);
    list->bytes += n * (k > 0 ? k : 1) * NUMBER_BYTES;
    json_object_set_new(list->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", (json_int_t)begin, (json_int_t)list->bytes));
}

void tensor_list_add_pair(struct tensor_list *list, size_t n, size_t k, const char *prefix,
                          const char *name)
{
    tensor_list_add(list, n, k, "%s%s.weight", prefix, name);
    tensor_list_add(list, n, 0, "%s%s.bias", prefix, name);
}

void tensor_list_add_area_key(struct tensor_list *list, const struct area_config *area,
                              size_t layer, size_t d, const char *prefix)
{
    size_t height = (size_t)area->height[layer], width = (size_t)area->width[layer];
    size_t inputs = area_key_inputs(area->key, d);
    if (inputs == 0 || height * width == 1)
        return;
    tensor_list_add_pair(list, d, inputs, prefix, "area.fc1");
    tensor_list_add_pair(list, d, d, prefix, "area.fc2");
    tensor_list_add(list, height, d / 2, "%sarea.height_embedding.weight", prefix);
    tensor_list_add(list, width, d / 2, "%sarea.width_embedding.weight", prefix);
}

static struct tensor_list list_tensors(const struct config *config)
{
    struct tensor_list list = {.header = json_object()};
    size_t v = (size_t)config->vocab_size;
    tensor_list_add(&list, v, (size_t)config->d_model, "model.shared.weight");
    tensor_list_add(&list, 1, v, "final_logits_bias");
    config->kind->list(config, &list);
    return list;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* SplitMix64; uniform in -1 ... 1. */
static float next_uniform(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (float)(z >> 40) / (float)(1 << 23) - 1.0f;
}

/* The weight of a norm is a vector. */
static bool is_gain(const char *name)
{
    static const char end[] = ".weight";
    size_t n = strlen(name);
    return n >= strlen(end) && !strcmp(name + n - strlen(end), end);
}

/* A row of a matrix [n,k] has the length 1 or so, whatever k is. */
static void fill_tensor(const char *name, const json_t *entry, uint64_t *state, char *section)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *k = json_array_get(json_object_get(entry, "shape"), 1);
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    uint16_t *numbers = (uint16_t *)(void *)(section + begin);
    float spread = k ? sqrtf(3.0f / (float)json_integer_value(k)) : VECTOR_SPREAD;
    bool is_one = !k && is_gain(name);
    for (size_t i = 0; i < (end - begin) / NUMBER_BYTES; i++)
        numbers[i] = kernels_bf16(is_one ? 1.0f : spread * next_uniform(state));
}

/* ---- The file -------------------------------------------------------------------------------- */

static int write_file(struct random_weights *weights, const struct tensor_list *list,
                      const char *header, uint64_t seed)
{
    size_t header_bytes = strlen(header), padded = (header_bytes + 7) / 8 * 8;
    const char *name;
    json_t *entry;
    weights->file_bytes = LENGTH_BYTES + padded + list->bytes;
    weights->file = mem_map(weights->file_bytes);
    if (!weights->file)
        return ACRE_ENOMEM;
    unsigned char *length = weights->file;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(padded >> 8 * i);
    char *text = (char *)weights->file + LENGTH_BYTES;
    memset(text, ' ', padded);
    memcpy(text, header, header_bytes);
    json_object_foreach(list->header, name, entry)
    {
        fill_tensor(name, entry, &seed, text + padded);
    }
    return 0;
}

int random_weights_init(struct random_weights *weights, const struct config *config, uint64_t seed,
                        struct acre_err *err)
{
    *weights = (struct random_weights){.tensors = NULL};
    struct tensor_list list = list_tensors(config);
    char *header = json_dumps(list.header, JSON_COMPACT);
    int status = header ? write_file(weights, &list, header, seed) : ACRE_ENOMEM;
    free(header);
    json_decref(list.header);
    if (status != 0)
        return err_set(err, status, "no memory for random weights");
    return safetensors_open_buffer(weights->file, weights->file_bytes, &weights->tensors, err);
}

void random_weights_fini(struct random_weights *weights)
{
    safetensors_close(weights->tensors);
    mem_unmap(weights->file, weights->file_bytes);
    *weights = (struct random_weights){.tensors = NULL};
}
