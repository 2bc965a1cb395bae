/* Binding goes layer by layer (layer.c). A pass is a list of device operations: sublayers, each of
 * which begins with begin_sublayer() and ends with end_sublayer(). There are three: the encoder
 * with what the decoder's layers keep of it, one step, and the decoder over known tokens.
 *
 * Binding fails with the name of the tensor that is missing or has another shape, or without
 * memory; passes cannot fail. */
#include "nn/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "nn/layer.h"

struct transformer {
    struct network network; /* first: what others see */
    size_t c, f;
    enum activation activation;
    size_t n_encoder, n_decoder;
    struct layer *encoder, *decoder;          /* owned */
    struct norm *encoder_norm, *decoder_norm; /* of the last layers' rows; NULL: post-norm */
    struct norm *source_norm, *target_norm;   /* of embeddings; NULL: they are not normalised */
    const struct attention **self, **cross;   /* owned, [n_decoder]: of the decoder's layers */
};

static const struct transformer *of(const struct network *network)
{
    return (const struct transformer *)network;
}

/* ---- Binding --------------------------------------------------------------------------------- */

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

/* Pre-norm, the rows that the last layers give are not normalised yet. */
static int bind_last_norms(struct transformer *model, struct layer_source *source,
                           struct acre_err *err)
{
    source->prefix = "model.encoder.";
    int status = layer_bind_norm(source, "layer_norm", &model->encoder_norm, err);
    source->prefix = "model.decoder.";
    return status ? status : layer_bind_norm(source, "layer_norm", &model->decoder_norm, err);
}

static int bind_first_norms(struct transformer *model, struct layer_source *source,
                            struct acre_err *err)
{
    source->prefix = "model.encoder.";
    int status = layer_bind_norm(source, "layernorm_embedding", &model->source_norm, err);
    source->prefix = "model.decoder.";
    return status ? status
                  : layer_bind_norm(source, "layernorm_embedding", &model->target_norm, err);
}

/* The order of a step's products. */
static int order_weights(const struct transformer *model)
{
    enum { PER_LAYER = 6 };
    size_t n = 0;
    struct weight **order = mem_alloc((PER_LAYER * model->n_decoder + 1) * sizeof(struct weight *));
    if (!order)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        struct weight *const weights[PER_LAYER] = {layer->self_qkv,    layer->self_out,
                                                   layer->cross_query, layer->cross_out,
                                                   layer->inner,       layer->outer};
        memcpy(order + n, weights, sizeof(weights));
        n += PER_LAYER;
    }
    order[n++] = model->network.embeddings.output;
    model->network.device->ops->weights_order(model->network.device, order, n);
    mem_free(order);
    return 0;
}

static int bind_all(struct transformer *model, const struct config *config,
                    struct safetensors *weights, struct acre_err *err)
{
    struct device *device = model->network.device;
    struct layer_source source = {.device = device,
                                  .weights = weights,
                                  .c = model->c,
                                  .type = config->compute_type,
                                  .norm_epsilon = config->norm_epsilon};
    struct embeddings *embeddings = &model->network.embeddings;
    int status = embeddings_bind(embeddings, device, config, weights, err);
    if (status == 0)
        status = embeddings_bind_positions(embeddings, device, config, weights, err);
    if (status == 0 && config->normalize_embedding)
        status = bind_first_norms(model, &source, err);
    if (status == 0)
        status = bind_encoder(model, config, &source, err);
    if (status == 0)
        status = bind_decoder(model, config, &source, err);
    if (status == 0 && config->normalize_before)
        status = bind_last_norms(model, &source, err);
    for (size_t i = 0; i < model->n_decoder && status == 0; i++) {
        model->self[i] = &model->decoder[i].self_attention;
        model->cross[i] = &model->decoder[i].cross_attention;
    }
    if (status == 0 && order_weights(model) != 0)
        status = err_set(err, ACRE_ENOMEM, "no memory for the model");
    return status;
}

void transformer_close(struct network *network)
{
    struct transformer *model = (struct transformer *)network;
    struct device *device = network->device;
    for (size_t i = 0; model->encoder && i < model->n_encoder; i++)
        layer_fini(&model->encoder[i], device);
    for (size_t i = 0; model->decoder && i < model->n_decoder; i++)
        layer_fini(&model->decoder[i], device);
    device->ops->norm_close(model->encoder_norm);
    device->ops->norm_close(model->decoder_norm);
    device->ops->norm_close(model->source_norm);
    device->ops->norm_close(model->target_norm);
    embeddings_fini(&network->embeddings, device);
    mem_free(model->encoder);
    mem_free(model->decoder);
    mem_free(model->self);
    mem_free(model->cross);
    mem_free(model);
}

int transformer_open(struct device *device, const struct config *config,
                     struct safetensors *weights, struct network **out, struct acre_err *err)
{
    struct transformer *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "no memory for the model");
    model->network = (struct network){.architecture = architecture_of(config),
                                      .device = device,
                                      .positions = (size_t)config->max_positions};
    model->c = (size_t)config->d_model;
    model->f = (size_t)(config->encoder_ffn > config->decoder_ffn ? config->encoder_ffn
                                                                  : config->decoder_ffn);
    model->activation = config->activation;
    model->n_encoder = (size_t)config->encoder_layers;
    model->n_decoder = (size_t)config->decoder_layers;
    model->encoder = mem_calloc(model->n_encoder, sizeof(*model->encoder));
    model->decoder = mem_calloc(model->n_decoder, sizeof(*model->decoder));
    model->self = mem_calloc(model->n_decoder, sizeof(*model->self));
    model->cross = mem_calloc(model->n_decoder, sizeof(*model->cross));
    int status = model->encoder && model->decoder && model->self && model->cross
                     ? bind_all(model, config, weights, err)
                     : err_set(err, ACRE_ENOMEM, "no memory for the model");
    if (status != 0) {
        transformer_close(&model->network);
        return status;
    }
    *out = &model->network;
    return 0;
}

static void widen_limits(const struct attention *attention, struct stream_limits *limits)
{
    size_t planes = area_planes(&attention->area);
    if (attention->head_width > limits->max_head_width)
        limits->max_head_width = attention->head_width;
    if (planes > limits->max_planes)
        limits->max_planes = planes;
    limits->has_areas |= !attention_is_plain(attention);
    limits->has_area_keys |= attention->key != NULL;
}

/* [R,C], [R,3C], [R,C], [R,F], and [R,C] where norms stand before sublayers */
enum buffers { HIDDEN, JOINED, CONTEXT, INNER, NORMED };

static bool is_pre_norm(const struct transformer *model)
{
    return model->encoder_norm != NULL;
}

/* The layer before the last one aligns best (Garg et al., EMNLP 2019), but the first of two looks
 * where the token before came from. */
static size_t aligned_layer(size_t n_decoder)
{
    return n_decoder > 2 ? n_decoder - 2 : n_decoder - 1;
}

void transformer_needs(const struct network *network, struct network_needs *needs)
{
    const struct transformer *model = of(network);
    size_t c = model->c, n = model->n_decoder;
    *needs = (struct network_needs){
        .widths = {[HIDDEN] = c,
                   [JOINED] = 3 * c,
                   [CONTEXT] = c,
                   [INNER] = model->f,
                   [NORMED] = is_pre_norm(model) ? c : 0},
        .stream = {.max_memory = network->positions, .max_width = c > model->f ? c : model->f},
        .n_layers = n,
        .self = model->self,
        .cross = model->cross,
        .first_aligned = aligned_layer(n),
        .n_aligned = 1,
    };
    for (size_t i = 0; i < model->n_encoder; i++)
        widen_limits(&model->encoder[i].self_attention, &needs->stream);
    for (size_t i = 0; i < n; i++) {
        widen_limits(model->self[i], &needs->stream);
        widen_limits(model->cross[i], &needs->stream);
    }
}

/* ---- Sublayers ------------------------------------------------------------------------------- */

/* A pass of one model. */
struct run {
    const struct transformer *model;
    const struct pass *pass;
};

/* The first layer's hidden rows. */
static void embed(const struct run *run, const struct embedding *embedding,
                  const struct position_embedding *positions, const struct norm *norm)
{
    const struct pass *pass = run->pass;
    struct buffer *rows = pass->buffers[norm ? CONTEXT : HIDDEN];
    pass->ops->embed(pass->stream, embedding, positions, pass->rows, rows);
    if (norm)
        pass->ops->layer_norm(pass->stream, norm, pass->rows, rows, pass->buffers[HIDDEN]);
}

static void embed_source(const struct run *run)
{
    const struct embeddings *embeddings = &run->model->network.embeddings;
    embed(run, embeddings->source, embeddings->source_positions, run->model->source_norm);
}

static void embed_target(const struct run *run)
{
    const struct embeddings *embeddings = &run->model->network.embeddings;
    embed(run, embeddings->target, embeddings->target_positions, run->model->target_norm);
}

static void project(const struct pass *pass, const struct weight *weight, const struct buffer *x,
                    struct buffer *to)
{
    pass->ops->linear(pass->stream, weight, pass->rows, x, ACTIVATION_NONE, to);
}

/* Pre-norm: hidden + sublayer(norm(hidden)); post-norm: norm(hidden + sublayer(hidden)). Returns
 * what the sublayer reads; what follows the last layer reads the same. */
static struct buffer *begin_sublayer(const struct run *run, const struct norm *norm)
{
    const struct pass *pass = run->pass;
    if (!is_pre_norm(run->model))
        return pass->buffers[HIDDEN];
    pass->ops->layer_norm(pass->stream, norm, pass->rows, pass->buffers[HIDDEN],
                          pass->buffers[NORMED]);
    return pass->buffers[NORMED];
}

static void end_sublayer(const struct run *run, const struct weight *out, const struct norm *norm,
                         const struct buffer *x)
{
    const struct pass *pass = run->pass;
    if (is_pre_norm(run->model))
        pass->ops->linear_add(pass->stream, out, pass->rows, x, pass->buffers[HIDDEN]);
    else
        pass->ops->linear_add_norm(pass->stream, out, norm, pass->rows, x, pass->buffers[HIDDEN]);
}

static void feed_forward(const struct run *run, const struct layer *layer)
{
    const struct pass *pass = run->pass;
    const struct buffer *x = begin_sublayer(run, layer->final_norm);
    pass->ops->linear(pass->stream, layer->inner, pass->rows, x, run->model->activation,
                      pass->buffers[INNER]);
    end_sublayer(run, layer->outer, layer->final_norm, pass->buffers[INNER]);
}

/* Of whole sentences. */
static void self_attention(const struct run *run, const struct layer *layer, bool causal)
{
    const struct pass *pass = run->pass;
    project(pass, layer->self_qkv, begin_sublayer(run, layer->self_norm), pass->buffers[JOINED]);
    pass->ops->attend(pass->stream, &layer->self_attention, causal, pass->rows,
                      pass->buffers[JOINED], pass->buffers[CONTEXT]);
    end_sublayer(run, layer->self_out, layer->self_norm, pass->buffers[CONTEXT]);
}

static void self_attention_step(const struct run *run, const struct layer *layer, size_t number)
{
    const struct pass *pass = run->pass;
    project(pass, layer->self_qkv, begin_sublayer(run, layer->self_norm), pass->buffers[JOINED]);
    pass->ops->attend_step(pass->stream, &layer->self_attention, number, pass->rows, pass->store,
                           pass->buffers[JOINED], pass->buffers[CONTEXT]);
    end_sublayer(run, layer->self_out, layer->self_norm, pass->buffers[CONTEXT]);
}

static void cross_attention(const struct run *run, const struct layer *layer, size_t number)
{
    const struct pass *pass = run->pass;
    struct buffer *query = pass->buffers[JOINED];
    project(pass, layer->cross_query, begin_sublayer(run, layer->cross_norm), query);
    pass_tell(pass, &layer->cross_attention, number, number, 0, query);
    pass->ops->attend_memory(pass->stream, &layer->cross_attention, number, pass->rows, pass->store,
                             query, pass->buffers[CONTEXT]);
    end_sublayer(run, layer->cross_out, layer->cross_norm, pass->buffers[CONTEXT]);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

struct buffer *transformer_encode(const struct network *network, const struct pass *pass)
{
    const struct transformer *model = of(network);
    const struct run run = {model, pass};
    embed_source(&run);
    for (size_t i = 0; i < model->n_encoder; i++) {
        self_attention(&run, &model->encoder[i], false);
        feed_forward(&run, &model->encoder[i]);
    }
    struct buffer *memory = begin_sublayer(&run, model->encoder_norm);
    for (size_t i = 0; i < model->n_decoder; i++) {
        project(pass, model->decoder[i].cross_memory, memory, pass->buffers[JOINED]);
        pass->ops->store_memory(pass->stream, model->cross[i], i, pass->rows, pass->store,
                                pass->buffers[JOINED], NULL);
    }
    return memory;
}

struct buffer *transformer_step(const struct network *network, const struct pass *pass)
{
    const struct transformer *model = of(network);
    const struct run run = {model, pass};
    embed_target(&run);
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        self_attention_step(&run, layer, i);
        cross_attention(&run, layer, i);
        feed_forward(&run, layer);
    }
    return begin_sublayer(&run, model->decoder_norm);
}

struct buffer *transformer_decode(const struct network *network, const struct pass *pass)
{
    const struct transformer *model = of(network);
    const struct run run = {model, pass};
    embed_target(&run);
    for (size_t i = 0; i < model->n_decoder; i++) {
        const struct layer *layer = &model->decoder[i];
        self_attention(&run, layer, true);
        cross_attention(&run, layer, i);
        feed_forward(&run, layer);
    }
    return begin_sublayer(&run, model->decoder_norm);
}
