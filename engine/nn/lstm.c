#include "nn/lstm.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "nn/layer.h"
#include "nn/tables.h"

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
    struct device *device;
    size_t c, n_layers, n_heads, n_positions;
    struct tables tables;
    struct attention attention;           /* of one head */
    struct area_key *key;                 /* of its areas, for all heads; NULL: mean keys */
    struct lstm_layer *encoder, *decoder; /* owned, [n_layers] */
    struct lstm_head *heads;              /* owned, [n_heads] */
};

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
    return device_bind_weight(binding->model->device, binding->config->compute_type, &part, 1, name,
                              weight, binding->err);
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
    int status = tables_bind(&model->tables, model->device, binding->config, binding->weights, 0,
                             binding->err);
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
    const struct layer_source source = {.device = model->device,
                                        .weights = weights,
                                        .prefix = "model.decoder.",
                                        .type = config->compute_type};
    const struct area_config *area = &config->decoder_cross;
    model->attention = layer_attention(config, 1, area, 0);
    return layer_bind_area_key(&source, "attention", layer_key_mode(area, 0), key_scale(area),
                               &model->attention, &model->key, err);
}

int lstm_open(struct device *device, const struct config *config, struct safetensors *weights,
              struct lstm **out, struct acre_err *err)
{
    struct lstm *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "no memory for the model");
    model->device = device;
    model->c = (size_t)config->d_model;
    model->n_layers = (size_t)config->decoder_layers;
    model->n_heads = (size_t)config->decoder_heads;
    model->n_positions = (size_t)config->max_positions;
    model->encoder = mem_calloc(model->n_layers, sizeof(*model->encoder));
    model->decoder = mem_calloc(model->n_layers, sizeof(*model->decoder));
    model->heads = mem_calloc(model->n_heads, sizeof(*model->heads));
    int status = model->encoder && model->decoder && model->heads
                     ? bind_attention(model, config, weights, err)
                     : err_set(err, ACRE_ENOMEM, "no memory for the model");
    if (status == 0)
        status = bind_all(&(struct binding){model, config, weights, err});
    if (status != 0) {
        lstm_close(model);
        return status;
    }
    *out = model;
    return 0;
}

static void close_layers(const struct device_ops *ops, size_t n, struct lstm_layer *layers)
{
    for (size_t i = 0; layers && i < n; i++) {
        ops->weight_close(layers[i].input);
        ops->weight_close(layers[i].recurrent);
    }
    mem_free(layers);
}

void lstm_close(struct lstm *model)
{
    if (!model)
        return;
    const struct device_ops *ops = model->device->ops;
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
    ops->area_key_close(model->key);
    tables_fini(&model->tables, model->device);
    mem_free(model);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Places in a row of the cache: hidden state of layer i and behind it its cell state; a_h. */
static size_t state_of_layer(const struct lstm *model, size_t i)
{
    return 2 * i * model->c;
}

static size_t state_of_head(const struct lstm *model, size_t h)
{
    return (2 * model->n_layers + h) * model->c;
}

size_t lstm_cache_floats(const struct lstm *model)
{
    return state_of_head(model, model->n_heads);
}

size_t lstm_memory_floats(const struct lstm *model, size_t length)
{
    return lstm_cache_floats(model) +
           model->n_heads * model->device->ops->memory_floats(&model->attention, length);
}

size_t lstm_positions(const struct lstm *model)
{
    return model->n_positions;
}

struct stream_limits lstm_stream_limits(const struct lstm *model)
{
    return (struct stream_limits){.max_memory = model->n_positions,
                                  .max_head_width = model->c,
                                  .max_width = model->c,
                                  .max_planes = layer_planes(&model->attention)};
}

/* The last row of `states` is never written: it is zero, as states begin. */
int lstm_workspace_init(struct workspace *work, const struct lstm *model, size_t max_rows)
{
    size_t c = model->c;
    *work = (struct workspace){.max_rows = max_rows};
    work->n_floats = max_rows * 10 * c + (max_rows + 1) * lstm_cache_floats(model);
    work->memory = model->device->ops->alloc(model->device, work->n_floats);
    work->before = mem_alloc(max_rows * sizeof(*work->before));
    work->after = mem_alloc(max_rows * sizeof(*work->after));
    if (!work->memory || !work->before || !work->after)
        return ACRE_ENOMEM;
    work->hidden = work->memory;
    work->joined = work->hidden + max_rows * c;
    work->context = work->joined + max_rows * 4 * c;
    work->inner = work->context + max_rows * c;
    work->states = work->inner + max_rows * 4 * c;
    return 0;
}

/* ---- One layer, one step --------------------------------------------------------------------- */

struct lstm_pass {
    const struct lstm *model;
    const struct device_ops *ops;
    struct stream *stream;
    struct workspace *work;
    size_t n_rows; /* with the states work->before and work->after */
};

static void multiply(const struct lstm_pass *pass, const struct weight *weight, const float *x,
                     const float *residual, float *y)
{
    pass->ops->linear(pass->stream, weight, pass->n_rows, x, KERNEL_NONE, residual, y);
}

/* The gates so far, gates[R,4C], get their recurrent part and become the layer's new state;
 * hidden[R,C]. scratch [R,C]. */
static void advance(const struct lstm_pass *pass, const struct lstm_layer *layer, size_t number,
                    float *gates, float *scratch, float *hidden)
{
    size_t place = state_of_layer(pass->model, number), c = pass->model->c;
    pass->ops->gather(pass->stream, pass->n_rows, c, pass->work->before, place, scratch);
    multiply(pass, layer->recurrent, scratch, gates, gates);
    pass->ops->lstm_cell(pass->stream, pass->n_rows, c, gates, pass->work->before,
                         pass->work->after, place, hidden);
}

/* ---- Encoder --------------------------------------------------------------------------------- */

/* For all sentences that are longer than t: their gates into gates[n,4C], and where their states
 * are. Returns how many. */
static size_t begin_step(const struct lstm_pass *pass, size_t t, size_t n_sentences,
                         const size_t *first, float *gates)
{
    struct workspace *work = pass->work;
    size_t n = 0, c = pass->model->c, row_floats = lstm_cache_floats(pass->model);
    for (size_t b = 0; b < n_sentences; b++)
        if (first[b] + t < first[b + 1])
            work->before[n++] = work->joined + (first[b] + t) * 4 * c;
    pass->ops->gather(pass->stream, n, 4 * c, work->before, 0, gates);
    n = 0;
    for (size_t b = 0; b < n_sentences; b++) {
        if (first[b] + t >= first[b + 1])
            continue;
        work->after[n] = work->states + b * row_floats;
        work->before[n] = t > 0 ? work->after[n] : work->states + work->max_rows * row_floats;
        n++;
    }
    return n;
}

/* The step's outputs go to the rows of hidden. */
static void end_step(const struct lstm_pass *pass, size_t t, size_t n_sentences,
                     const size_t *first, const float *outputs)
{
    struct workspace *work = pass->work;
    size_t n = 0, c = pass->model->c;
    for (size_t b = 0; b < n_sentences; b++)
        if (first[b] + t < first[b + 1])
            work->after[n++] = work->hidden + (first[b] + t) * c;
    pass->ops->scatter(pass->stream, n, c, outputs, work->after, 0);
}

void lstm_encode(const struct lstm *model, struct stream *stream, struct workspace *work,
                 size_t n_sentences, const size_t *first, const int32_t *ids)
{
    struct lstm_pass pass = {model, model->device->ops, stream, work, first[n_sentences]};
    float *gates = work->inner, *scratch = work->context;
    size_t longest = 0;
    for (size_t b = 0; b < n_sentences; b++)
        if (first[b + 1] - first[b] > longest)
            longest = first[b + 1] - first[b];
    pass.ops->embed(stream, model->tables.source, pass.n_rows, ids, NULL, work->hidden);
    for (size_t i = 0; i < model->n_layers; i++) {
        pass.n_rows = first[n_sentences];
        multiply(&pass, model->encoder[i].input, work->hidden, NULL, work->joined);
        for (size_t t = 0; t < longest; t++) {
            pass.n_rows = begin_step(&pass, t, n_sentences, first, gates);
            advance(&pass, &model->encoder[i], i, gates, scratch, scratch);
            end_step(&pass, t, n_sentences, first, scratch);
        }
    }
}

void lstm_store_memory(const struct lstm *model, struct stream *stream, struct workspace *work,
                       size_t n_sentences, const size_t *first, float *const *memories)
{
    struct lstm_pass pass = {model, model->device->ops, stream, work, first[n_sentences]};
    size_t offset = lstm_cache_floats(model), c = model->c;
    pass.ops->scatter(stream, n_sentences, offset, work->states, memories, 0);
    for (size_t h = 0; h < model->n_heads; h++) {
        multiply(&pass, model->heads[h].key, work->hidden, NULL, work->joined);
        for (size_t b = 0; b < n_sentences; b++) {
            size_t length = first[b + 1] - first[b];
            size_t head_floats = pass.ops->memory_floats(&model->attention, length);
            pass.ops->store_memory(stream, &model->attention, length, work->joined + first[b] * c,
                                   work->hidden + first[b] * c, c,
                                   memories[b] + offset + h * head_floats);
        }
    }
}

/* ---- Decoder --------------------------------------------------------------------------------- */

/* Every row reads the state of the node before it on its path, the first one the sentence's. */
static void find_states(const struct lstm_pass *pass, struct decoder_step *step)
{
    size_t row_floats = lstm_cache_floats(pass->model);
    for (size_t b = 0; b < step->n_sentences; b++) {
        struct memory_rows *group = &step->groups[b];
        for (size_t r = group->first_row; r < group->first_row + group->n_rows; r++) {
            const int32_t *last = step->rows.paths[r] + step->rows.lengths[r] - 1;
            pass->work->after[r] = step->cache + (size_t)last[0] * row_floats;
            pass->work->before[r] = step->rows.lengths[r] > 1
                                        ? step->cache + (size_t)last[-1] * row_floats
                                        : group->memory;
        }
        group->memory += row_floats;
    }
}

static void tell(const struct lstm_pass *pass, const struct decoder_step *step, size_t head)
{
    const struct attention_listener *listener = step->listener;
    const struct attention *attention = &pass->model->attention;
    for (size_t b = 0; b < step->n_sentences && listener; b++) {
        const struct memory_rows *group = &step->groups[b];
        for (size_t r = group->first_row; r < group->first_row + group->n_rows; r++) {
            pass->ops->memory_weights(pass->stream, attention, 0, group->length, group->memory,
                                      pass->work->hidden + r * pass->model->c, listener->weights);
            listener->tell(listener->user, attention, 0, head, r, listener->weights);
        }
    }
}

/* a_h of every row, kept in its state and joined to the output. */
static void attend(const struct lstm_pass *pass, const struct decoder_step *step, size_t h)
{
    const struct lstm_head *head = &pass->model->heads[h];
    struct workspace *work = pass->work;
    float *a = pass->model->n_heads > 1 ? work->inner : work->joined;
    tell(pass, step, h);
    pass->ops->attend_memory(pass->stream, &pass->model->attention, step->n_sentences, step->groups,
                             work->hidden, work->context);
    multiply(pass, head->hidden, work->hidden, NULL, a);
    multiply(pass, head->context, work->context, a, a);
    pass->ops->scatter(pass->stream, pass->n_rows, pass->model->c, a, work->after,
                       state_of_head(pass->model, h));
    if (head->output)
        multiply(pass, head->output, a, h > 0 ? work->joined : NULL, work->joined);
    for (size_t b = 0; b < step->n_sentences; b++)
        step->groups[b].memory +=
            pass->ops->memory_floats(&pass->model->attention, step->groups[b].length);
}

void lstm_step(const struct lstm *model, struct stream *stream, struct workspace *work,
               struct decoder_step *step)
{
    struct lstm_pass pass = {model, model->device->ops, stream, work, step->rows.n_rows};
    float *gates = work->inner, *scratch = work->context;
    find_states(&pass, step);
    pass.ops->embed(stream, model->tables.target, pass.n_rows, step->ids, NULL, work->hidden);
    for (size_t i = 0; i < model->n_layers; i++) {
        multiply(&pass, model->decoder[i].input, work->hidden, NULL, gates);
        for (size_t h = 0; h < model->n_heads && i == 0; h++) {
            pass.ops->gather(stream, pass.n_rows, model->c, work->before, state_of_head(model, h),
                             scratch);
            multiply(&pass, model->heads[h].feed, scratch, gates, gates);
        }
        advance(&pass, &model->decoder[i], i, gates, scratch, work->hidden);
    }
    for (size_t h = 0; h < model->n_heads; h++)
        attend(&pass, step, h);
}

void lstm_search_output(const struct lstm *model, struct stream *stream, struct workspace *work,
                        size_t n_rows, struct logit_scan *scans)
{
    model->device->ops->search_output(stream, model->tables.output, n_rows, work->joined, scans);
}
