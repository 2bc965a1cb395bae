/* LSTM sequence-to-sequence models ("acre-lstm").
 *
 * Encoder and decoder are stacks of LSTM layers of C cells; the decoder's begin with the encoder's
 * last states. After each step every head h of Luong attention (multiplicative, not scaled) over
 * areas of the encoder's outputs m gives a vector, which is fed to the first layer of the next
 * step; the heads' vectors are joined to the output:
 *
 *   context_h = attention of q = hidden of the last layer over areas of keys K_h·m and values m
 *   a_h       = A_h·[hidden; context_h]
 *   output    = a_1, or with several heads O·[a_1; ...; a_H] + o
 *
 * Where the keys of areas combine features (Eq. 9), the features are those of K_h·m, and the heads
 * share the dense layers and the embeddings of sizes, as in the authors' code. Two things of that
 * code the paper does not have, and neither has Acre: it reads the source from its end, which
 * served models without attention, and its heads share K_h, so that they attend to the same places.
 *
 * A hypothesis carries hidden and cell state of every layer and a_1 ... a_H from step to step.
 *
 * Binding takes joined matrices of the file apart, one part for each vector that they take or give;
 * a pass then is a list of device operations. What a hypothesis carries is numbered: states 2l and
 * 2l + 1 are hidden and cell state of layer l, then a_h of every head.
 *
 * Binding fails with the name of the tensor that is missing or has another shape, or without
 * memory; passes cannot fail. */
#include "nn/architecture.h"

#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/random_weights.h" /* tensor_list_add() */
#include "nn/layer.h"

/* gates[4C] = input·x + recurrent·hidden + bias, in PyTorch's order: input, forget, cell, output.
 */
struct lstm_layer {
    struct weight *input; /* [4C,C], with the bias */
    struct weight *recurrent;
};

/* Matrices that take or give several vectors are kept in parts, one for each vector. */
struct lstm_head {
    struct weight *key;              /* K_h, [C,C] */
    struct weight *hidden, *context; /* A_h, [C,C] each */
    struct weight *feed;             /* a_h's part of the first decoder layer's gates, [4C,C] */
    struct weight *output;           /* O's part for a_h, [C,C]; NULL: there is one head */
};

struct lstm {
    struct network network; /* first: what others see */
    size_t c, n_layers, n_heads;
    struct attention attention;           /* of one head */
    struct area_key *key;                 /* of its areas, for all heads; NULL: mean keys */
    struct lstm_layer *encoder, *decoder; /* owned, [n_layers] */
    struct lstm_head *heads;              /* owned, [n_heads] */
    const struct attention **cross;       /* owned, [n_heads]: all are `attention` */
};

static const struct lstm *of(const struct network *network)
{
    return (const struct lstm *)network;
}

/* ---- Configuration --------------------------------------------------------------------------- */

/* The decoder's layers begin with the encoder's states. */
static int read_config(const struct json_object *object, struct config *config,
                       struct acre_err *err)
{
    char expected[64];
    if (config->decoder_layers == config->encoder_layers)
        return 0;
    snprintf(expected, sizeof(expected), "encoder_layers, which is %d", config->encoder_layers);
    return json_fail(object, "decoder_layers", expected, json_find(object, "decoder_layers"), err);
}

/* Its one attention is from the decoder's last layer; heads are as wide as the model. */
static size_t list_attentions(struct config *config, struct config_attention *attentions)
{
    attentions[0] = (struct config_attention){"decoder_cross", &config->decoder_cross,
                                              .n_layers = 1, .head_width = config->d_model, 1};
    return 1;
}

static void list_tensors(const struct config *config, struct tensor_list *list)
{
    size_t c = (size_t)config->d_model, heads = (size_t)config->decoder_heads;
    for (int side = 0; side < 2; side++) {
        const char *name = side == 0 ? "encoder" : "decoder";
        for (int i = 0; i < config->decoder_layers; i++) {
            size_t inputs = side == 1 && i == 0 ? (heads + 1) * c : c;
            tensor_list_add(list, 4 * c, inputs, "model.%s.layers.%d.weight_ih", name, i);
            tensor_list_add(list, 4 * c, c, "model.%s.layers.%d.weight_hh", name, i);
            tensor_list_add(list, 4 * c, 0, "model.%s.layers.%d.bias", name, i);
        }
    }
    tensor_list_add(list, heads * c, c, "model.decoder.attention.k_proj.weight");
    tensor_list_add(list, heads * c, 2 * c, "model.decoder.attention.a_proj.weight");
    if (heads > 1)
        tensor_list_add_pair(list, c, heads * c, "model.decoder.attention.", "out_proj");
    tensor_list_add_area_key(list, &config->decoder_cross, 0, c, "model.decoder.attention.");
}

/* ---- Binding --------------------------------------------------------------------------------- */

struct binding {
    struct lstm *model;
    const struct config *config;
    struct safetensors *weights;
    struct acre_err *err;
};

/* Columns first ... first + k - 1 and rows row ... row + n - 1 of a tensor [rows, columns]. */
struct slice {
    size_t rows, columns;
    size_t row, n, first, k;
    float scale; /* 0: 1 */
};

static int bind_slice(const struct binding *binding, const char *name, const char *bias,
                      const struct slice *slice, struct weight **weight)
{
    struct weight_part part = {.scale = slice->scale > 0.0f ? slice->scale : 1.0f};
    size_t shape[2] = {slice->rows, slice->columns};
    int status = safetensors_get(binding->weights, name, 2, shape, &part.weight, binding->err);
    if (status == 0 && bias)
        status = safetensors_get(binding->weights, bias, 1, &slice->n, &part.bias, binding->err);
    if (status != 0)
        return status;
    part.weight = tensor_rows(&part.weight, slice->row, slice->n);
    part.first_column = slice->first;
    part.n_columns = slice->k;
    return device_bind_weight(binding->model->network.device, binding->config->compute_type, &part,
                              1, name, weight, binding->err);
}

static int bind_layer(const struct binding *binding, const char *side, size_t number, size_t inputs,
                      struct lstm_layer *layer)
{
    size_t c = binding->model->c;
    char name[96], bias[96];
    snprintf(name, sizeof(name), "model.%s.layers.%zu.weight_ih", side, number);
    snprintf(bias, sizeof(bias), "model.%s.layers.%zu.bias", side, number);
    int status = bind_slice(binding, name, bias, &(struct slice){4 * c, inputs, 0, 4 * c, 0, c, 0},
                            &layer->input);
    if (status != 0)
        return status;
    snprintf(name, sizeof(name), "model.%s.layers.%zu.weight_hh", side, number);
    return bind_slice(binding, name, NULL, &(struct slice){4 * c, c, 0, 4 * c, 0, c, 0},
                      &layer->recurrent);
}

/* The temperature is in the keys, as the query goes to A_h too: in the last product that makes
 * them, which is K_h unless the keys of areas have dense layers. */
static float key_scale(const struct area_config *area)
{
    return 1.0f / layer_temperature(area, 0);
}

static float item_key_scale(const struct area_config *area, size_t c)
{
    return area_key_inputs(layer_key_mode(area, 0), c) > 0 ? 1.0f : key_scale(area);
}

static int bind_head(const struct binding *binding, size_t h, struct lstm_head *head)
{
    size_t c = binding->model->c, n = binding->model->n_heads;
    float scale = item_key_scale(&binding->config->decoder_cross, c);
    int status = bind_slice(binding, "model.decoder.attention.k_proj.weight", NULL,
                            &(struct slice){n * c, c, h * c, c, 0, c, scale}, &head->key);
    if (status == 0)
        status = bind_slice(binding, "model.decoder.attention.a_proj.weight", NULL,
                            &(struct slice){n * c, 2 * c, h * c, c, 0, c, 0}, &head->hidden);
    if (status == 0)
        status = bind_slice(binding, "model.decoder.attention.a_proj.weight", NULL,
                            &(struct slice){n * c, 2 * c, h * c, c, c, c, 0}, &head->context);
    if (status == 0)
        status = bind_slice(binding, "model.decoder.layers.0.weight_ih", NULL,
                            &(struct slice){4 * c, (n + 1) * c, 0, 4 * c, (h + 1) * c, c, 0},
                            &head->feed);
    if (status == 0 && n > 1)
        status = bind_slice(binding, "model.decoder.attention.out_proj.weight",
                            h == 0 ? "model.decoder.attention.out_proj.bias" : NULL,
                            &(struct slice){c, n * c, 0, c, h * c, c, 0}, &head->output);
    return status;
}

static int bind_all(const struct binding *binding)
{
    struct lstm *model = binding->model;
    int status = embeddings_bind(&model->network.embeddings, model->network.device, binding->config,
                                 binding->weights, binding->err);
    for (size_t i = 0; i < model->n_layers && status == 0; i++)
        status = bind_layer(binding, "encoder", i, model->c, &model->encoder[i]);
    for (size_t i = 0; i < model->n_layers && status == 0; i++)
        status =
            bind_layer(binding, "decoder", i, i == 0 ? (model->n_heads + 1) * model->c : model->c,
                       &model->decoder[i]);
    for (size_t h = 0; h < model->n_heads && status == 0; h++)
        status = bind_head(binding, h, &model->heads[h]);
    return status;
}

static int bind_attention(struct lstm *model, const struct config *config,
                          struct safetensors *weights, struct acre_err *err)
{
    const struct layer_source source = {.device = model->network.device,
                                        .weights = weights,
                                        .prefix = "model.decoder.",
                                        .type = config->compute_type};
    const struct area_config *area = &config->decoder_cross;
    model->attention = layer_attention(config, 1, area, 0);
    return layer_bind_area_key(&source, "attention", layer_key_mode(area, 0), key_scale(area),
                               &model->attention, &model->key, err);
}

static void close_layers(const struct device_ops *ops, size_t n, struct lstm_layer *layers)
{
    for (size_t i = 0; layers && i < n; i++) {
        ops->weight_close(layers[i].input);
        ops->weight_close(layers[i].recurrent);
    }
    mem_free(layers);
}

static void lstm_close(struct network *network)
{
    struct lstm *model = (struct lstm *)network;
    const struct device_ops *ops = network->device->ops;
    close_layers(ops, model->n_layers, model->encoder);
    close_layers(ops, model->n_layers, model->decoder);
    for (size_t h = 0; model->heads && h < model->n_heads; h++) {
        ops->weight_close(model->heads[h].key);
        ops->weight_close(model->heads[h].hidden);
        ops->weight_close(model->heads[h].context);
        ops->weight_close(model->heads[h].feed);
        ops->weight_close(model->heads[h].output);
    }
    mem_free(model->heads);
    mem_free(model->cross);
    ops->area_key_close(model->key);
    embeddings_fini(&network->embeddings, network->device);
    mem_free(model);
}

static int lstm_open(struct device *device, const struct config *config,
                     struct safetensors *weights, struct network **out, struct acre_err *err)
{
    struct lstm *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "no memory for the model");
    model->network = (struct network){.architecture = architecture_of(config),
                                      .device = device,
                                      .positions = (size_t)config->max_positions};
    model->c = (size_t)config->d_model;
    model->n_layers = (size_t)config->decoder_layers;
    model->n_heads = (size_t)config->decoder_heads;
    model->encoder = mem_calloc(model->n_layers, sizeof(*model->encoder));
    model->decoder = mem_calloc(model->n_layers, sizeof(*model->decoder));
    model->heads = mem_calloc(model->n_heads, sizeof(*model->heads));
    model->cross = mem_calloc(model->n_heads, sizeof(*model->cross));
    int status = model->encoder && model->decoder && model->heads && model->cross
                     ? bind_attention(model, config, weights, err)
                     : err_set(err, ACRE_ENOMEM, "no memory for the model");
    for (size_t h = 0; h < model->n_heads && status == 0; h++)
        model->cross[h] = &model->attention;
    if (status == 0)
        status = bind_all(&(struct binding){model, config, weights, err});
    if (status != 0) {
        lstm_close(&model->network);
        return status;
    }
    *out = &model->network;
    return 0;
}

/* ---- Needs ----------------------------------------------------------------------------------- */

/* [R,C], [R,C], [R,C], [R,4C], [R,C]; with one head `a` is the output. */
enum buffers { HIDDEN, CONTEXT, A, GATES, OUTPUT };

/* Hidden and cell state of every layer, then a_h of every head. */
static size_t state_of_head(const struct lstm *model, size_t h)
{
    return 2 * model->n_layers + h;
}

static void lstm_needs(const struct network *network, struct network_needs *needs)
{
    const struct lstm *model = of(network);
    size_t c = model->c;
    *needs = (struct network_needs){
        .widths = {[HIDDEN] = c, [CONTEXT] = c, [A] = c, [GATES] = 4 * c, [OUTPUT] = c},
        .stream = {.max_memory = network->positions,
                   .max_head_width = c,
                   .max_width = c,
                   .max_planes = area_planes(&model->attention.area),
                   .has_areas = !attention_is_plain(&model->attention),
                   .has_area_keys = model->attention.key != NULL},
        .n_layers = model->n_heads,
        .cross = model->cross,
        .n_states = state_of_head(model, model->n_heads),
        .state_width = c,
        .first_aligned = 0,
        .n_aligned = model->n_heads,
    };
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void multiply(const struct pass *pass, const struct weight *weight, const struct buffer *x,
                     struct buffer *y)
{
    pass->ops->linear(pass->stream, weight, pass->rows, x, ACTIVATION_NONE, y);
}

static void multiply_add(const struct pass *pass, const struct weight *weight,
                         const struct buffer *x, struct buffer *y)
{
    pass->ops->linear_add(pass->stream, weight, pass->rows, x, y);
}

static void advance(const struct pass *pass, const struct lstm_layer *layer, size_t number)
{
    pass->ops->lstm_layer(pass->stream, layer->recurrent, number, pass->rows, pass->store,
                          pass->buffers[GATES], pass->buffers[HIDDEN]);
}

static struct buffer *lstm_encode(const struct network *network, const struct pass *pass)
{
    const struct lstm *model = of(network);
    struct buffer *hidden = pass->buffers[HIDDEN], *keys = pass->buffers[A];
    pass->ops->embed(pass->stream, network->embeddings.source, NULL, pass->rows, hidden);
    for (size_t i = 0; i < model->n_layers; i++) {
        multiply(pass, model->encoder[i].input, hidden, pass->buffers[GATES]);
        advance(pass, &model->encoder[i], i);
    }
    for (size_t h = 0; h < model->n_heads; h++) {
        multiply(pass, model->heads[h].key, hidden, keys);
        pass->ops->store_memory(pass->stream, &model->attention, h, pass->rows, pass->store, keys,
                                hidden);
    }
    return hidden;
}

/* a_h of every row, kept for the next step and joined to the output. */
static void attend(const struct lstm *model, const struct pass *pass, size_t h)
{
    const struct lstm_head *head = &model->heads[h];
    const struct buffer *hidden = pass->buffers[HIDDEN];
    struct buffer *a = pass->buffers[A], *context = pass->buffers[CONTEXT];
    pass_tell(pass, &model->attention, h, 0, h, hidden);
    pass->ops->attend_memory(pass->stream, &model->attention, h, pass->rows, pass->store, hidden,
                             context);
    multiply(pass, head->hidden, hidden, a);
    multiply_add(pass, head->context, context, a);
    pass->ops->state_write(pass->stream, state_of_head(model, h), pass->rows, pass->store, a);
    if (head->output && h == 0)
        multiply(pass, head->output, a, pass->buffers[OUTPUT]);
    else if (head->output)
        multiply_add(pass, head->output, a, pass->buffers[OUTPUT]);
}

static struct buffer *lstm_step(const struct network *network, const struct pass *pass)
{
    const struct lstm *model = of(network);
    struct buffer *gates = pass->buffers[GATES], *before = pass->buffers[CONTEXT];
    pass->ops->embed(pass->stream, network->embeddings.target, NULL, pass->rows,
                     pass->buffers[HIDDEN]);
    for (size_t i = 0; i < model->n_layers; i++) {
        multiply(pass, model->decoder[i].input, pass->buffers[HIDDEN], gates);
        for (size_t h = 0; h < model->n_heads && i == 0; h++) {
            pass->ops->state_read(pass->stream, state_of_head(model, h), pass->rows, pass->store,
                                  before);
            multiply_add(pass, model->heads[h].feed, before, gates);
        }
        advance(pass, &model->decoder[i], i);
    }
    for (size_t h = 0; h < model->n_heads; h++)
        attend(model, pass, h);
    return pass->buffers[model->n_heads > 1 ? OUTPUT : A];
}

const struct architecture lstm_architecture = {
    .config = {.model_type = "acre-lstm",
               .forbids_pad = true,
               .read = read_config,
               .attentions = list_attentions,
               .list = list_tensors},
    .open = lstm_open,
    .close = lstm_close,
    .needs = lstm_needs,
    .encode = lstm_encode,
    .step = lstm_step,
};
