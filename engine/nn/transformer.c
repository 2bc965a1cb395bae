#include "nn/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "nn/layer.h"
#include "nn/tables.h"

struct transformer {
    struct device *device;
    size_t c, f;
    size_t n_positions;
    enum kernel_activation activation;
    struct tables tables;
    size_t n_encoder, n_decoder;
    struct layer *encoder, *decoder; /* owned */
};

/* ---- Binding --------------------------------------------------------------------------------- */

static enum kernel_activation kernel_activation(enum activation activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return KERNEL_RELU;
    case ACTIVATION_SWISH:
        return KERNEL_SWISH;
    case ACTIVATION_GELU:
        return KERNEL_GELU;
    case ACTIVATION_NONE:
        break;
    }
    return KERNEL_NONE;
}

/* D^-0.5, and the temperature: an area's logit is linear in the query. */
static float query_scale(const struct attention *attention, const struct area_config *area,
                         size_t layer)
{
    return 1.0f / (sqrtf((float)attention->head_width) * layer_temperature(area, layer));
}

static int bind_encoder(struct transformer *model, const struct config *config,
                        struct layer_source *source, struct acre_err *err)
{
    source->f = (size_t)config->encoder_ffn;
    for (size_t i = 0; i < model->n_encoder; i++) {
        struct layer *layer = &model->encoder[i];
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.encoder.layers.%zu.", i);
        source->prefix = prefix;
        layer->self_attention =
            layer_attention(config, config->encoder_heads, &config->encoder_self, i);
        layer->self_scale = query_scale(&layer->self_attention, &config->encoder_self, i);
        layer->self_key_mode = layer_key_mode(&config->encoder_self, i);
        int status = layer_bind_encoder(layer, source, err);
        if (status != 0)
            return status;
    }
    return 0;
}

static int bind_decoder(struct transformer *model, const struct config *config,
                        struct layer_source *source, struct acre_err *err)
{
    source->f = (size_t)config->decoder_ffn;
    for (size_t i = 0; i < model->n_decoder; i++) {
        struct layer *layer = &model->decoder[i];
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.decoder.layers.%zu.", i);
        source->prefix = prefix;
        layer->self_attention =
            layer_attention(config, config->decoder_heads, &config->decoder_self, i);
        layer->self_scale = query_scale(&layer->self_attention, &config->decoder_self, i);
        layer->self_key_mode = layer_key_mode(&config->decoder_self, i);
        layer->cross_attention =
            layer_attention(config, config->decoder_heads, &config->decoder_cross, i);
        layer->cross_scale = query_scale(&layer->cross_attention, &config->decoder_cross, i);
        layer->cross_key_mode = layer_key_mode(&config->decoder_cross, i);
        int status = layer_bind_decoder(layer, source, err);
        if (status != 0)
            return status;
    }
    return 0;
}

/* The order of a step's products; the next step begins where this one ends. */
static void chain_weights(const struct transformer *model)
{
    struct weight *last = model->tables.output;
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        struct weight *const chain[] = {layer->self_qkv,  layer->self_out, layer->cross_query,
                                        layer->cross_out, layer->inner,    layer->outer};
        for (size_t j = 0; j < sizeof(chain) / sizeof(chain[0]); j++) {
            model->device->ops->weight_follow(last, chain[j]);
            last = chain[j];
        }
    }
    model->device->ops->weight_follow(last, model->tables.output);
}

int transformer_open(struct device *device, const struct config *config,
                     struct safetensors *weights, struct transformer **out, struct acre_err *err)
{
    struct transformer *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "no memory for the model");
    model->device = device;
    model->c = (size_t)config->d_model;
    model->f = (size_t)(config->encoder_ffn > config->decoder_ffn ? config->encoder_ffn
                                                                  : config->decoder_ffn);
    model->n_positions = (size_t)config->max_positions;
    model->activation = kernel_activation(config->activation);
    model->n_encoder = (size_t)config->encoder_layers;
    model->n_decoder = (size_t)config->decoder_layers;
    model->encoder = mem_calloc(model->n_encoder, sizeof(*model->encoder));
    model->decoder = mem_calloc(model->n_decoder, sizeof(*model->decoder));
    int status = ACRE_ENOMEM;
    if (model->encoder && model->decoder) {
        struct layer_source source = {
            .device = device, .weights = weights, .c = model->c, .type = config->compute_type};
        status = tables_bind(&model->tables, device, config, weights, model->n_positions, err);
        if (status == 0)
            status = bind_encoder(model, config, &source, err);
        if (status == 0)
            status = bind_decoder(model, config, &source, err);
    } else {
        err_set(err, ACRE_ENOMEM, "no memory for the model");
    }
    if (status != 0) {
        transformer_close(model);
        return status;
    }
    chain_weights(model);
    *out = model;
    return 0;
}

void transformer_close(struct transformer *model)
{
    if (!model)
        return;
    for (size_t i = 0; model->encoder && i < model->n_encoder; i++)
        layer_fini(&model->encoder[i], model->device);
    for (size_t i = 0; model->decoder && i < model->n_decoder; i++)
        layer_fini(&model->decoder[i], model->device);
    tables_fini(&model->tables, model->device);
    mem_free(model->encoder);
    mem_free(model->decoder);
    mem_free(model);
}

static void widen_limits(const struct attention *attention, struct stream_limits *limits)
{
    size_t planes = layer_planes(attention);
    if (attention->head_width > limits->max_head_width)
        limits->max_head_width = attention->head_width;
    if (planes > limits->max_planes)
        limits->max_planes = planes;
}

struct stream_limits transformer_stream_limits(const struct transformer *model)
{
    struct stream_limits limits = {
        .max_memory = model->n_positions,
        .max_width = model->c > model->f ? model->c : model->f,
    };
    for (size_t i = 0; i < model->n_encoder; i++)
        widen_limits(&model->encoder[i].self_attention, &limits);
    for (size_t i = 0; i < model->n_decoder; i++) {
        widen_limits(&model->decoder[i].self_attention, &limits);
        widen_limits(&model->decoder[i].cross_attention, &limits);
    }
    return limits;
}

size_t transformer_positions(const struct transformer *model)
{
    return model->n_positions;
}

/* ---- Workspace ------------------------------------------------------------------------------- */

int transformer_workspace_init(struct workspace *workspace, const struct transformer *model,
                               size_t max_rows)
{
    size_t c = model->c;
    *workspace = (struct workspace){.max_rows = max_rows};
    workspace->n_floats = max_rows * (5 * c + model->f);
    workspace->memory = model->device->ops->alloc(model->device, workspace->n_floats);
    if (!workspace->memory)
        return ACRE_ENOMEM;
    workspace->hidden = workspace->memory;
    workspace->joined = workspace->hidden + max_rows * c;
    workspace->context = workspace->joined + max_rows * 3 * c;
    workspace->inner = workspace->context + max_rows * c;
    return 0;
}

/* ---- Sublayers: hidden = norm(hidden + sublayer(hidden)) --------------------------------- */

struct pass {
    const struct transformer *model;
    const struct device_ops *ops;
    struct stream *stream;
    struct workspace *work;
    size_t n_rows;
    const struct attention_listener *listener; /* NULL: nobody */
};

static struct pass pass_of(const struct transformer *model, struct stream *stream,
                           struct workspace *workspace, size_t n_rows)
{
    return (struct pass){model, model->device->ops, stream, workspace, n_rows, NULL};
}

/* What every sublayer ends with: project `x`, add the residual, normalise. */
static void close_sublayer(const struct pass *pass, const struct weight *out,
                           const struct norm *norm, const float *x)
{
    float *hidden = pass->work->hidden;
    pass->ops->linear(pass->stream, out, pass->n_rows, x, KERNEL_NONE, hidden, hidden);
    pass->ops->layer_norm(pass->stream, norm, pass->n_rows, hidden, hidden);
}

static void project_qkv(const struct pass *pass, const struct layer *layer)
{
    pass->ops->linear(pass->stream, layer->self_qkv, pass->n_rows, pass->work->hidden, KERNEL_NONE,
                      NULL, pass->work->joined);
}

static void feed_forward(const struct pass *pass, const struct layer *layer)
{
    pass->ops->linear(pass->stream, layer->inner, pass->n_rows, pass->work->hidden,
                      pass->model->activation, NULL, pass->work->inner);
    close_sublayer(pass, layer->outer, layer->final_norm, pass->work->inner);
}

static void self_attention(const struct pass *pass, const struct layer *layer, bool causal,
                           size_t n_sentences, const size_t *first)
{
    project_qkv(pass, layer);
    pass->ops->attend(pass->stream, &layer->self_attention, causal, n_sentences, first,
                      pass->work->joined, pass->work->context);
    close_sublayer(pass, layer->self_out, layer->self_norm, pass->work->context);
}

/* What every head of every row of a group weighs; query[R,C]. */
static void tell_weights(const struct pass *pass, size_t layer, const struct memory_rows *group,
                         const float *query)
{
    const struct attention *attention = &pass->model->decoder[layer].cross_attention;
    const struct attention_listener *listener = pass->listener;
    for (size_t row = group->first_row; row < group->first_row + group->n_rows; row++) {
        for (size_t head = 0; head < attention->n_heads; head++) {
            const float *of_head = query + row * pass->model->c + head * attention->head_width;
            pass->ops->memory_weights(pass->stream, attention, head, group->length, group->memory,
                                      of_head, listener->weights);
            listener->tell(listener->user, attention, layer, head, row, listener->weights);
        }
    }
}

/* Advances the groups to the next layer's memory. */
static void cross_attention(const struct pass *pass, size_t layer_number, size_t n_sentences,
                            struct memory_rows *groups)
{
    const struct layer *layer = &pass->model->decoder[layer_number];
    float *query = pass->work->joined;
    pass->ops->linear(pass->stream, layer->cross_query, pass->n_rows, pass->work->hidden,
                      KERNEL_NONE, NULL, query);
    for (size_t b = 0; b < n_sentences && pass->listener; b++)
        tell_weights(pass, layer_number, &groups[b], query);
    pass->ops->attend_memory(pass->stream, &layer->cross_attention, n_sentences, groups, query,
                             pass->work->context);
    close_sublayer(pass, layer->cross_out, layer->cross_norm, pass->work->context);
    for (size_t b = 0; b < n_sentences; b++)
        groups[b].memory += pass->ops->memory_floats(&layer->cross_attention, groups[b].length);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

void transformer_encode(const struct transformer *model, struct stream *stream,
                        struct workspace *workspace, size_t n_sentences, const size_t *first,
                        const int32_t *ids, const int32_t *positions)
{
    struct pass pass = pass_of(model, stream, workspace, first[n_sentences]);
    pass.ops->embed(stream, model->tables.source, pass.n_rows, ids, positions, workspace->hidden);
    for (size_t i = 0; i < model->n_encoder; i++) {
        self_attention(&pass, &model->encoder[i], false, n_sentences, first);
        feed_forward(&pass, &model->encoder[i]);
    }
}

/* Floats of a sentence's memory for the first n decoder layers. */
static size_t memory_before(const struct transformer *model, size_t n, size_t length)
{
    size_t floats = 0;
    for (size_t i = 0; i < n; i++)
        floats += model->device->ops->memory_floats(&model->decoder[i].cross_attention, length);
    return floats;
}

size_t transformer_memory_floats(const struct transformer *model, size_t length)
{
    return memory_before(model, model->n_decoder, length);
}

void transformer_store_memory(const struct transformer *model, struct stream *stream,
                              struct workspace *workspace, size_t n_sentences, const size_t *first,
                              float *const *memories)
{
    const struct device_ops *ops = model->device->ops;
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        ops->linear(stream, layer->cross_memory, first[n_sentences], workspace->hidden, KERNEL_NONE,
                    NULL, workspace->joined);
        for (size_t b = 0; b < n_sentences; b++) {
            size_t length = first[b + 1] - first[b];
            const float *keys = workspace->joined + first[b] * 2 * model->c;
            ops->store_memory(stream, &layer->cross_attention, length, keys, keys + model->c,
                              2 * model->c, memories[b] + memory_before(model, i, length));
        }
    }
}

size_t transformer_cache_floats(const struct transformer *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_decoder; i++)
        n += model->device->ops->cache_row_floats(&model->decoder[i].self_attention);
    return n;
}

void transformer_forget_rows(const struct transformer *model, float *cache, size_t cache_rows,
                             size_t first_row, size_t n_rows)
{
    const struct device_ops *ops = model->device->ops;
    for (size_t i = 0; i < model->n_decoder; i++) {
        size_t row_floats = ops->cache_row_floats(&model->decoder[i].self_attention);
        ops->forget(model->device, cache + first_row * row_floats, n_rows * row_floats);
        cache += cache_rows * row_floats;
    }
}

void transformer_step(const struct transformer *model, struct stream *stream,
                      struct workspace *workspace, struct decoder_step *step)
{
    struct pass pass = pass_of(model, stream, workspace, step->rows.n_rows);
    float *cache = step->cache;
    pass.listener = step->listener;
    pass.ops->embed(stream, model->tables.target, pass.n_rows, step->ids, step->positions,
                    workspace->hidden);
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        project_qkv(&pass, layer);
        pass.ops->attend_step(stream, &layer->self_attention, &step->rows, cache, workspace->joined,
                              workspace->context);
        cache += step->cache_rows * pass.ops->cache_row_floats(&layer->self_attention);
        close_sublayer(&pass, layer->self_out, layer->self_norm, workspace->context);
        cross_attention(&pass, i, step->n_sentences, step->groups);
        feed_forward(&pass, layer);
    }
}

void transformer_decode(const struct transformer *model, struct stream *stream,
                        struct workspace *workspace, size_t n_sentences, const size_t *first,
                        const int32_t *ids, const int32_t *positions, struct memory_rows *groups)
{
    struct pass pass = pass_of(model, stream, workspace, first[n_sentences]);
    pass.ops->embed(stream, model->tables.target, pass.n_rows, ids, positions, workspace->hidden);
    for (size_t i = 0; i < model->n_decoder; i++) {
        self_attention(&pass, &model->decoder[i], true, n_sentences, first);
        cross_attention(&pass, i, n_sentences, groups);
        feed_forward(&pass, &model->decoder[i]);
    }
}

void transformer_search_output(const struct transformer *model, struct stream *stream,
                               struct workspace *workspace, size_t n_rows, struct logit_scan *scans)
{
    model->device->ops->search_output(stream, model->tables.output, n_rows, workspace->hidden,
                                      scans);
}
