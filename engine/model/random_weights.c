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

struct listing {
    json_t *header;
    size_t bytes; /* of data so far */
};

/* A tensor [n,k], or [n] where k is 0. */
static void add(struct listing *listing, size_t n, size_t k, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void add(struct listing *listing, size_t n, size_t k, const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    size_t begin = listing->bytes;
    json_t *shape =
        k > 0 ? json_pack("[I, I]", (json_int_t)n, (json_int_t)k) : json_pack("[I]", (json_int_t)n);
    listing->bytes += n * (k > 0 ? k : 1) * NUMBER_BYTES;
    json_object_set_new(listing->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", (json_int_t)begin, (json_int_t)listing->bytes));
}

/* What products and norms have: a weight [n,k], or [n], and a bias [n]. */
static void add_pair(struct listing *listing, size_t n, size_t k, const char *prefix,
                     const char *name)
{
    add(listing, n, k, "%s%s.weight", prefix, name);
    add(listing, n, 0, "%s%s.bias", prefix, name);
}

static void add_area_key(struct listing *listing, const struct area_config *area, size_t layer,
                         size_t d, const char *prefix)
{
    size_t height = (size_t)area->height[layer], width = (size_t)area->width[layer];
    size_t inputs = area_key_inputs(area->key, d);
    if (inputs == 0 || height * width == 1)
        return;
    add_pair(listing, d, inputs, prefix, "area.fc1");
    add_pair(listing, d, d, prefix, "area.fc2");
    add(listing, height, d / 2, "%sarea.height_embedding.weight", prefix);
    add(listing, width, d / 2, "%sarea.width_embedding.weight", prefix);
}

static void add_attention(struct listing *listing, const struct area_config *area, size_t layer,
                          size_t c, size_t n_heads, const char *prefix, const char *name)
{
    static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    char full[96];
    snprintf(full, sizeof(full), "%s%s.", prefix, name);
    for (size_t i = 0; i < sizeof(projections) / sizeof(projections[0]); i++)
        add_pair(listing, c, c, full, projections[i]);
    add_area_key(listing, area, layer, c / n_heads, full);
    snprintf(full, sizeof(full), "%s_layer_norm", name);
    add_pair(listing, c, 0, prefix, full);
}

static void add_feed_forward(struct listing *listing, size_t c, size_t f, const char *prefix)
{
    add_pair(listing, f, c, prefix, "fc1");
    add_pair(listing, c, f, prefix, "fc2");
    add_pair(listing, c, 0, prefix, "final_layer_norm");
}

static void list_transformer(struct listing *listing, const struct config *config)
{
    size_t c = (size_t)config->d_model;
    for (size_t i = 0; i < (size_t)config->encoder_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.encoder.layers.%zu.", i);
        add_attention(listing, &config->encoder_self, i, c, (size_t)config->encoder_heads, prefix,
                      "self_attn");
        add_feed_forward(listing, c, (size_t)config->encoder_ffn, prefix);
    }
    for (size_t i = 0; i < (size_t)config->decoder_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.decoder.layers.%zu.", i);
        add_attention(listing, &config->decoder_self, i, c, (size_t)config->decoder_heads, prefix,
                      "self_attn");
        add_attention(listing, &config->decoder_cross, i, c, (size_t)config->decoder_heads, prefix,
                      "encoder_attn");
        add_feed_forward(listing, c, (size_t)config->decoder_ffn, prefix);
    }
}

static void list_lstm(struct listing *listing, const struct config *config)
{
    size_t c = (size_t)config->d_model, heads = (size_t)config->decoder_heads;
    for (int side = 0; side < 2; side++) {
        const char *name = side == 0 ? "encoder" : "decoder";
        for (int i = 0; i < config->decoder_layers; i++) {
            size_t inputs = side == 1 && i == 0 ? (heads + 1) * c : c;
            add(listing, 4 * c, inputs, "model.%s.layers.%d.weight_ih", name, i);
            add(listing, 4 * c, c, "model.%s.layers.%d.weight_hh", name, i);
            add(listing, 4 * c, 0, "model.%s.layers.%d.bias", name, i);
        }
    }
    add(listing, heads * c, c, "model.decoder.attention.k_proj.weight");
    add(listing, heads * c, 2 * c, "model.decoder.attention.a_proj.weight");
    if (heads > 1)
        add_pair(listing, c, heads * c, "model.decoder.attention.", "out_proj");
    add_area_key(listing, &config->decoder_cross, 0, c, "model.decoder.attention.");
}

static struct listing list_tensors(const struct config *config)
{
    struct listing listing = {.header = json_object()};
    size_t v = (size_t)config->vocab_size;
    add(&listing, v, (size_t)config->d_model, "model.shared.weight");
    add(&listing, 1, v, "final_logits_bias");
    if (config_is_lstm(config))
        list_lstm(&listing, config);
    else
        list_transformer(&listing, config);
    return listing;
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

static bool is_gain(const char *name)
{
    static const char end[] = "norm.weight";
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
    bool is_one = is_gain(name);
    for (size_t i = 0; i < (end - begin) / NUMBER_BYTES; i++)
        numbers[i] = kernels_bf16(is_one ? 1.0f : spread * next_uniform(state));
}

/* ---- The file -------------------------------------------------------------------------------- */

static int write_file(struct random_weights *weights, const struct listing *listing,
                      const char *header, uint64_t seed)
{
    size_t header_bytes = strlen(header), padded = (header_bytes + 7) / 8 * 8;
    const char *name;
    json_t *entry;
    weights->file_bytes = LENGTH_BYTES + padded + listing->bytes;
    weights->file = mem_map(weights->file_bytes);
    if (!weights->file)
        return ACRE_ENOMEM;
    unsigned char *length = weights->file;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(padded >> 8 * i);
    char *text = (char *)weights->file + LENGTH_BYTES;
    memset(text, ' ', padded);
    memcpy(text, header, header_bytes);
    json_object_foreach(listing->header, name, entry)
    {
        fill_tensor(name, entry, &seed, text + padded);
    }
    return 0;
}

int random_weights_init(struct random_weights *weights, const struct config *config, uint64_t seed,
                        struct acre_err *err)
{
    *weights = (struct random_weights){.tensors = NULL};
    struct listing listing = list_tensors(config);
    char *header = json_dumps(listing.header, JSON_COMPACT);
    int status = header ? write_file(weights, &listing, header, seed) : ACRE_ENOMEM;
    free(header);
    json_decref(listing.header);
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
