#include "nn/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "nn/layer.h"

struct transformer {
    struct device *device;
    size_t c, f;
    size_t n_positions;
    enum kernel_activation activation;
    struct embedding *source, *target; /* the same pointer if shared */
    struct weight *output;             /* [V,C] with final_logits_bias */
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

static struct attention attention_of(const struct config *config, int n_heads,
                                     const struct area_config *area, size_t layer)
{
    return (struct attention){
        .n_heads = (size_t)n_heads,
        .head_width = (size_t)(config->d_model / n_heads),
        .area = {.width = area->width[layer],
                 .mean_value = area->value == AREA_VALUE_MEAN,
                 .top_k = area->width[layer] > 1 ? area->top_k : 0},
    };
}

/* D^-0.5, and the temperature: an area's logit is linear in the query. */
static float query_scale(const struct attention *attention, const struct area_config *area)
{
    float temperature = attention->area.width > 1 ? area->temperature : 1.0f;
    return 1.0f / (sqrtf((float)attention->head_width) * temperature);
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
            attention_of(config, config->encoder_heads, &config->encoder_self, i);
        layer->self_scale = query_scale(&layer->self_attention, &config->encoder_self);
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
            attention_of(config, config->decoder_heads, &config->decoder_self, i);
        layer->self_scale = query_scale(&layer->self_attention, &config->decoder_self);
        layer->cross_attention =
            attention_of(config, config->decoder_heads, &config->decoder_cross, i);
        layer->cross_scale = query_scale(&layer->cross_attention, &config->decoder_cross);
        int status = layer_bind_decoder(layer, source, err);
        if (status != 0)
            return status;
    }
    return 0;
}

/* The embedding of one side: its own tensor, or the shared one. */
static int find_table(const struct safetensors *weights, const struct config *config,
                      const char *own_name, int vocab_size, struct tensor *table,
                      struct acre_err *err)
{
    const char *name = config->share_embeddings ? "model.shared.weight" : own_name;
    if (config->share_embeddings && !safetensors_find(weights, name))
        name = own_name; /* older files hold copies instead */
    size_t shape[2] = {(size_t)vocab_size, (size_t)config->d_model};
    return safetensors_get(weights, name, 2, shape, table, err);
}

static int open_table(struct transformer *model, const struct config *config,
                      const struct tensor *table, struct embedding **embedding,
                      struct acre_err *err)
{
    float scale = config->scale_embedding ? sqrtf((float)config->d_model) : 1.0f;
    if (model->device->ops->embedding_open(model->device, table, scale, model->n_positions,
                                           embedding) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the position table");
    return 0;
}

static int bind_output(struct transformer *model, const struct config *config,
                       const struct safetensors *weights, const struct tensor *table,
                       struct acre_err *err)
{
    struct weight_part part = {.weight = *table, .scale = 1.0f};
    size_t shape[2] = {1, (size_t)config->decoder_vocab_size};
    if (safetensors_find(weights, "final_logits_bias")) {
        int status = safetensors_get(weights, "final_logits_bias", 2, shape, &part.bias, err);
        if (status != 0)
            return status;
    }
    const struct device_ops *ops = model->device->ops;
    if (ops->weight_open(model->device, config->compute_type, &part, 1, &model->output) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the output layer");
    return 0;
}

static int bind_tables(struct transformer *model, const struct config *config,
                       const struct safetensors *weights, struct acre_err *err)
{
    struct tensor source, target;
    int status = find_table(weights, config, "model.encoder.embed_tokens.weight",
                            config->vocab_size, &source, err);
    if (status != 0)
        return status;
    status = find_table(weights, config, "model.decoder.embed_tokens.weight",
                        config->decoder_vocab_size, &target, err);
    if (status != 0)
        return status;
    status = open_table(model, config, &source, &model->source, err);
    if (status == 0 && source.data == target.data)
        model->target = model->source;
    else if (status == 0)
        status = open_table(model, config, &target, &model->target, err);
    return status != 0 ? status : bind_output(model, config, weights, &target, err);
}

int transformer_open(struct device *device, const struct config *config,
                     const struct safetensors *weights, struct transformer **out,
                     struct acre_err *err)
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
        status = bind_tables(model, config, weights, err);
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
    *out = model;
    return 0;
}

void transformer_close(struct transformer *model)
{
    if (!model)
        return;
    const struct device_ops *ops = model->device->ops;
    for (size_t i = 0; model->encoder && i < model->n_encoder; i++)
        layer_fini(&model->encoder[i], model->device);
    for (size_t i = 0; model->decoder && i < model->n_decoder; i++)
        layer_fini(&model->decoder[i], model->device);
    ops->weight_close(model->output);
    if (model->target != model->source)
        ops->embedding_close(model->target);
    ops->embedding_close(model->source);
    mem_free(model->encoder);
    mem_free(model->decoder);
    mem_free(model);
}

size_t transformer_decoder_layers(const struct transformer *model)
{
    return model->n_decoder;
}

size_t transformer_max_width(const struct transformer *model)
{
    return model->c > model->f ? model->c : model->f;
}

size_t transformer_positions(const struct transformer *model)
{
    return model->n_positions;
}

/* ---- Workspace ------------------------------------------------------------------------------- */

int workspace_init(struct workspace *workspace, const struct transformer *model, size_t max_rows)
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

void workspace_fini(struct workspace *workspace, const struct transformer *model)
{
    model->device->ops->free(model->device, workspace->memory, workspace->n_floats);
    workspace->memory = NULL;
}

/* ---- Sublayers: hidden = norm(hidden + sublayer(hidden)) --------------------------------- */

struct pass {
    const struct transformer *model;
    const struct device_ops *ops;
    struct stream *stream;
    struct workspace *work;
    size_t n_rows;
};

static struct pass pass_of(const struct transformer *model, struct stream *stream,
                           struct workspace *workspace, size_t n_rows)
{
    return (struct pass){model, model->device->ops, stream, workspace, n_rows};
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

/* Advances the groups to the next layer's memory. */
static void cross_attention(const struct pass *pass, const struct layer *layer, size_t n_sentences,
                            struct memory_rows *groups)
{
    float *query = pass->work->joined;
    pass->ops->linear(pass->stream, layer->cross_query, pass->n_rows, pass->work->hidden,
                      KERNEL_NONE, NULL, query);
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
    pass.ops->embed(stream, model->source, pass.n_rows, ids, positions, workspace->hidden);
    for (size_t i = 0; i < model->n_encoder; i++) {
        self_attention(&pass, &model->encoder[i], false, n_sentences, first);
        feed_forward(&pass, &model->encoder[i]);
    }
}

size_t transformer_memory_floats(const struct transformer *model, size_t length)
{
    const struct device_ops *ops = model->device->ops;
    return model->n_decoder * ops->memory_floats(&model->decoder[0].cross_attention, length);
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
            size_t layer_floats = ops->memory_floats(&layer->cross_attention, length);
            ops->store_memory(stream, &layer->cross_attention, length,
                              workspace->joined + first[b] * 2 * model->c,
                              memories[b] + i * layer_floats);
        }
    }
}

size_t transformer_cache_floats(const struct transformer *model)
{
    const struct device_ops *ops = model->device->ops;
    return model->n_decoder * ops->cache_row_floats(&model->decoder[0].self_attention);
}

void transformer_step(const struct transformer *model, struct stream *stream,
                      struct workspace *workspace, struct decoder_step *step)
{
    struct pass pass = pass_of(model, stream, workspace, step->rows.n_rows);
    size_t layer_cache = step->cache_rows * transformer_cache_floats(model) / model->n_decoder;
    pass.ops->embed(stream, model->target, pass.n_rows, step->ids, step->positions,
                    workspace->hidden);
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        project_qkv(&pass, layer);
        pass.ops->attend_step(stream, &layer->self_attention, &step->rows,
                              step->cache + i * layer_cache, workspace->joined, workspace->context);
        close_sublayer(&pass, layer->self_out, layer->self_norm, workspace->context);
        cross_attention(&pass, layer, step->n_sentences, step->groups);
        feed_forward(&pass, layer);
    }
}

void transformer_decode(const struct transformer *model, struct stream *stream,
                        struct workspace *workspace, size_t n_sentences, const size_t *first,
                        const int32_t *ids, const int32_t *positions, struct memory_rows *groups)
{
    struct pass pass = pass_of(model, stream, workspace, first[n_sentences]);
    pass.ops->embed(stream, model->target, pass.n_rows, ids, positions, workspace->hidden);
    for (size_t i = 0; i < model->n_decoder; i++) {
        self_attention(&pass, &model->decoder[i], true, n_sentences, first);
        cross_attention(&pass, &model->decoder[i], n_sentences, groups);
        feed_forward(&pass, &model->decoder[i]);
    }
}

void transformer_search_output(const struct transformer *model, struct stream *stream,
                               struct workspace *workspace, size_t n_rows, struct logit_scan *scans)
{
    model->device->ops->search_output(stream, model->output, n_rows, workspace->hidden, scans);
}
