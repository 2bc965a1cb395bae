/* A layer's tensors are found by the names that transformers gives them; matrices that are
 * multiplied with the same rows are joined. Where one is missing or has another shape,
 * safetensors.c says which, what was expected and what was found. What is bound by then is freed by
 * layer_fini(). */
#include "nn/layer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

enum { MAX_PARTS = 3 };

static bool has_areas(const struct area_config *area, size_t layer)
{
    return area->width[layer] > 1 || area->height[layer] > 1;
}

/* Rounded scores would choose other areas. */
static enum compute_type memory_type(const struct config *config, const struct area_config *area)
{
    if (config->compute_type == COMPUTE_F32 || area->top_k > 0)
        return COMPUTE_F32;
    return config->compute_type == COMPUTE_F16 ? COMPUTE_F16 : COMPUTE_BF16;
}

struct attention layer_attention(const struct config *config, int n_heads,
                                 const struct area_config *area, size_t layer)
{
    struct attention attention = {
        .n_heads = (size_t)n_heads,
        .head_width = (size_t)(config->d_model / n_heads),
        .type = memory_type(config, area),
        .area = {.width = area->width[layer], .sigmoid = area->sigmoid},
    };
    if (has_areas(area, layer)) {
        attention.area.height = area->height[layer];
        attention.area.memory_height = area->memory_height;
        attention.area.value = area->value;
        attention.area.top_k = area->top_k;
    }
    return attention;
}

enum area_key_mode layer_key_mode(const struct area_config *area, size_t layer)
{
    return has_areas(area, layer) ? area->key : AREA_KEY_MEAN;
}

float layer_temperature(const struct area_config *area, size_t layer)
{
    return has_areas(area, layer) ? area->temperature : 1.0f;
}

static int find_tensor(const struct layer_source *source, const char *name, int n_dims, size_t n,
                       size_t k, struct tensor *tensor, struct acre_err *err)
{
    char full[192];
    size_t shape[2] = {n, k};
    snprintf(full, sizeof(full), "%s%s", source->prefix, name);
    return safetensors_get(source->weights, full, n_dims, shape, tensor, err);
}

static int find_part(const struct layer_source *source, const char *name, size_t n, size_t k,
                     float scale, struct weight_part *part, struct acre_err *err)
{
    char full[128];
    *part = (struct weight_part){.scale = scale};
    snprintf(full, sizeof(full), "%s.weight", name);
    int status = find_tensor(source, full, 2, n, k, &part->weight, err);
    if (status != 0)
        return status;
    snprintf(full, sizeof(full), "%s.bias", name);
    return find_tensor(source, full, 1, n, 0, &part->bias, err);
}

static int open_parts(const struct layer_source *source, const struct weight_part *parts,
                      size_t n_parts, const char *name, struct weight **weight,
                      struct acre_err *err)
{
    char full[192];
    snprintf(full, sizeof(full), "%s%s", source->prefix, name);
    return device_bind_weight(source->device, source->type, parts, n_parts, full, weight, err);
}

static int bind_weight(const struct layer_source *source, const char *name, size_t n, size_t k,
                       struct weight **weight, struct acre_err *err)
{
    struct weight_part part;
    int status = find_part(source, name, n, k, 1.0f, &part, err);
    return status != 0 ? status : open_parts(source, &part, 1, name, weight, err);
}

int layer_bind_norm(const struct layer_source *source, const char *name, struct norm **norm,
                    struct acre_err *err)
{
    char full[128];
    struct tensor gain, bias;
    snprintf(full, sizeof(full), "%s.weight", name);
    int status = find_tensor(source, full, 1, source->c, 0, &gain, err);
    if (status != 0)
        return status;
    snprintf(full, sizeof(full), "%s.bias", name);
    status = find_tensor(source, full, 1, source->c, 0, &bias, err);
    if (status != 0)
        return status;
    status =
        source->device->ops->norm_open(source->device, &gain, &bias, source->norm_epsilon, norm);
    if (status == ACRE_EUNSUPPORTED)
        return err_set(err, status, "%s: layer norms of %zu numbers are too wide for the device",
                       source->prefix, source->c);
    return status == 0
               ? 0
               : device_explain(source->device, status, source->prefix, "a layer norm", err);
}

/* Joins the projections of `attention` named by the letters of `which`, e.g. "qkv". */
static int bind_projections(const struct layer_source *source, const char *attention,
                            const char *which, float query_scale, struct weight **weight,
                            struct acre_err *err)
{
    struct weight_part parts[MAX_PARTS];
    size_t n = 0;
    for (; which[n]; n++) {
        char name[64];
        float scale = which[n] == 'q' ? query_scale : 1.0f;
        snprintf(name, sizeof(name), "%s.%c_proj", attention, which[n]);
        int status = find_part(source, name, source->c, source->c, scale, &parts[n], err);
        if (status != 0)
            return status;
    }
    return open_parts(source, parts, n, attention, weight, err);
}

static int find_area_tensor(const struct layer_source *source, const char *attention,
                            const char *name, int n_dims, size_t n, size_t k, struct tensor *tensor,
                            struct acre_err *err)
{
    char full[96];
    snprintf(full, sizeof(full), "%s.area.%s", attention, name);
    return find_tensor(source, full, n_dims, n, k, tensor, err);
}

/* The parameters of keys with dense layers. */
static int find_area_parts(const struct layer_source *source, const char *name,
                           const struct attention *attention, struct area_key_parts *parts,
                           struct acre_err *err)
{
    size_t d = attention->head_width, inputs = area_key_inputs(parts->mode, d);
    size_t height = attention->area.height > 1 ? (size_t)attention->area.height : 1;
    size_t width = (size_t)attention->area.width;
    if (inputs == 0)
        return 0;
    int status =
        find_area_tensor(source, name, "fc1.weight", 2, d, inputs, &parts->fc1_weight, err);
    if (status == 0)
        status = find_area_tensor(source, name, "fc1.bias", 1, d, 0, &parts->fc1_bias, err);
    if (status == 0)
        status = find_area_tensor(source, name, "fc2.weight", 2, d, d, &parts->fc2_weight, err);
    if (status == 0)
        status = find_area_tensor(source, name, "fc2.bias", 1, d, 0, &parts->fc2_bias, err);
    if (status == 0)
        status = find_area_tensor(source, name, "height_embedding.weight", 2, height, d / 2,
                                  &parts->height_embedding, err);
    if (status == 0)
        status = find_area_tensor(source, name, "width_embedding.weight", 2, width, d / 2,
                                  &parts->width_embedding, err);
    return status;
}

int layer_bind_area_key(const struct layer_source *source, const char *name,
                        enum area_key_mode mode, float scale, struct attention *attention,
                        struct area_key **key, struct acre_err *err)
{
    struct area_key_parts parts = {.mode = mode, .scale = scale};
    if (mode == AREA_KEY_MEAN)
        return 0;
    int status = find_area_parts(source, name, attention, &parts, err);
    if (status != 0)
        return status;
    status = source->device->ops->area_key_open(source->device, &parts, attention, key);
    if (status != 0)
        return device_explain(source->device, status, source->prefix, "the keys of areas", err);
    attention->key = *key;
    return 0;
}

static int bind_self_attention(struct layer *layer, const struct layer_source *source,
                               struct acre_err *err)
{
    int status =
        bind_projections(source, "self_attn", "qkv", layer->self_scale, &layer->self_qkv, err);
    if (status == 0)
        status =
            bind_weight(source, "self_attn.out_proj", source->c, source->c, &layer->self_out, err);
    if (status == 0)
        status = layer_bind_norm(source, "self_attn_layer_norm", &layer->self_norm, err);
    if (status == 0)
        status = layer_bind_area_key(source, "self_attn", layer->self_key_mode, 1.0f,
                                     &layer->self_attention, &layer->self_key, err);
    return status;
}

static int bind_cross_attention(struct layer *layer, const struct layer_source *source,
                                struct acre_err *err)
{
    int status =
        bind_projections(source, "encoder_attn", "q", layer->cross_scale, &layer->cross_query, err);
    if (status == 0)
        status = bind_projections(source, "encoder_attn", "kv", layer->cross_scale,
                                  &layer->cross_memory, err);
    if (status == 0)
        status = bind_weight(source, "encoder_attn.out_proj", source->c, source->c,
                             &layer->cross_out, err);
    if (status == 0)
        status = layer_bind_norm(source, "encoder_attn_layer_norm", &layer->cross_norm, err);
    if (status == 0)
        status = layer_bind_area_key(source, "encoder_attn", layer->cross_key_mode, 1.0f,
                                     &layer->cross_attention, &layer->cross_key, err);
    return status;
}

static int bind_feed_forward(struct layer *layer, const struct layer_source *source,
                             struct acre_err *err)
{
    int status = bind_weight(source, "fc1", source->f, source->c, &layer->inner, err);
    if (status == 0)
        status = bind_weight(source, "fc2", source->c, source->f, &layer->outer, err);
    if (status == 0)
        status = layer_bind_norm(source, "final_layer_norm", &layer->final_norm, err);
    return status;
}

int layer_bind_encoder(struct layer *layer, const struct layer_source *source, struct acre_err *err)
{
    int status = bind_self_attention(layer, source, err);
    if (status == 0)
        status = bind_feed_forward(layer, source, err);
    safetensors_release(source->weights);
    return status;
}

int layer_bind_decoder(struct layer *layer, const struct layer_source *source, struct acre_err *err)
{
    int status = bind_self_attention(layer, source, err);
    if (status == 0)
        status = bind_cross_attention(layer, source, err);
    if (status == 0)
        status = bind_feed_forward(layer, source, err);
    safetensors_release(source->weights);
    return status;
}

void layer_fini(struct layer *layer, struct device *device)
{
    const struct device_ops *ops = device->ops;
    ops->weight_close(layer->self_qkv);
    ops->weight_close(layer->self_out);
    ops->weight_close(layer->cross_query);
    ops->weight_close(layer->cross_memory);
    ops->weight_close(layer->cross_out);
    ops->weight_close(layer->inner);
    ops->weight_close(layer->outer);
    ops->norm_close(layer->self_norm);
    ops->norm_close(layer->cross_norm);
    ops->norm_close(layer->final_norm);
    ops->area_key_close(layer->self_key);
    ops->area_key_close(layer->cross_key);
}
