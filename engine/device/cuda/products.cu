#include "device/cuda/products.h"

#include "device/cuda/linear.h"

/* ---- Operands -------------------------------------------------------------------------------- */

static struct operand quantise(struct stream *stream, const struct weight *weight, const void *x,
                               enum number_type type, int stride, const int32_t *n_rows,
                               int most_rows)
{
    quantise_task task = {x,         stream->quantised, stream->scales, n_rows,
                          weight->k, weight->kp,        stride};
    quantise_launch(stream->cuda, type, task, most_rows);
    return {stream->quantised, weight->kp, stream->scales};
}

struct operand cuda_operand(struct stream *stream, const struct weight *weight,
                            const float *numbers, const void *narrow, int stride,
                            const int32_t *n_rows, int most_rows)
{
    if (weight->type == NUMBER_INT8)
        return quantise(stream, weight, numbers, NUMBER_F32, stride, n_rows, most_rows);
    return {weight->type == NUMBER_F32 ? numbers : narrow, stride, NULL};
}

static struct operand operand_of(struct stream *stream, const struct weight *weight,
                                 const struct rows *rows, const struct buffer *x)
{
    if (weight->type != NUMBER_INT8)
        return {buffer_as(stream, x, rows, weight->type), x->stride, NULL};
    enum number_type type = x->forms->has_numbers ? NUMBER_F32 : x->forms->narrow;
    return quantise(stream, weight, buffer_as(stream, x, rows, type), type, x->stride,
                    rows->table.n_rows, rows->most_rows);
}

static linear_task task_of(const struct weight *weight, const struct operand &operand,
                           const int32_t *n_rows)
{
    linear_task task = {};
    task.x = operand.x;
    task.x_stride = operand.x_stride;
    task.x_scales = operand.scales;
    task.w = weight->numbers;
    task.bias = weight->bias;
    task.w_scales = weight->scales;
    task.n_rows = n_rows;
    task.n = weight->np;
    task.k = weight->kp;
    task.y_type = NUMBER_F32;
    task.activation = ACTIVATION_NONE;
    return task;
}

static void launch(struct stream *stream, const struct weight *weight, const linear_task &task,
                   int most_rows)
{
    linear_launch(stream->cuda, weight->type, task, most_rows, 0, stream->device->shared_bytes);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void multiply(struct stream *stream, const struct weight *weight, const struct rows *rows,
                     const struct buffer *x, enum activation activation, bool is_added,
                     struct buffer *y)
{
    linear_task task = task_of(weight, operand_of(stream, weight, rows, x), rows->table.n_rows);
    if (is_added)
        task.residual = (const float *)buffer_as(stream, y, rows, NUMBER_F32);
    struct hidden_rows out = buffer_put(stream, y, weight->n, weight->half);
    task.activation = activation;
    task.y = out.numbers;
    task.y_stride = out.stride;
    task.narrow = out.narrow;
    task.narrow_type = out.narrow_type;
    launch(stream, weight, task, rows->most_rows);
}

void cuda_linear(struct stream *stream, const struct weight *weight, const struct rows *rows,
                 const struct buffer *x, enum activation activation, struct buffer *y)
{
    multiply(stream, weight, rows, x, activation, false, y);
}

void cuda_linear_add(struct stream *stream, const struct weight *weight, const struct rows *rows,
                     const struct buffer *x, struct buffer *y)
{
    multiply(stream, weight, rows, x, ACTIVATION_NONE, true, y);
}

void cuda_product(struct stream *stream, const struct weight *weight,
                  const struct row_product *product)
{
    linear_task task = task_of(weight, product->operand, product->n_rows);
    size_t number = weight->type == NUMBER_F32 ? 4 : weight->type == NUMBER_INT8 ? 1 : 2;
    size_t first = (size_t)product->first;
    task.w = (const char *)weight->numbers + first * (size_t)weight->kp * number;
    task.bias = weight->bias + first;
    task.w_scales = weight->scales ? weight->scales + first : NULL;
    task.n = product->n;
    task.y = product->sums;
    task.y_stride = product->stride;
    launch(stream, weight, task, product->most_rows);
}

void cuda_layer_norm(struct stream *stream, const struct norm *norm, const struct rows *rows,
                     const struct buffer *x, struct buffer *y)
{
    const float *numbers = (const float *)buffer_as(stream, x, rows, NUMBER_F32);
    close_task task = {numbers,
                       x->stride,
                       norm->gain,
                       norm->bias,
                       rows->table.n_rows,
                       buffer_put(stream, y, norm->c, NUMBER_F32),
                       norm->epsilon,
                       true};
    close_launch(stream->cuda, task, rows->most_rows);
}

void cuda_linear_add_norm(struct stream *stream, const struct weight *weight,
                          const struct norm *norm, const struct rows *rows, const struct buffer *x,
                          struct buffer *hidden)
{
    struct row_product product = {operand_of(stream, weight, rows, x),
                                  rows->table.n_rows,
                                  rows->most_rows,
                                  0,
                                  weight->np,
                                  stream->sums,
                                  stream->sums_stride};
    cuda_product(stream, weight, &product);
    buffer_as(stream, hidden, rows, NUMBER_F32);
    close_task task = {stream->sums,       stream->sums_stride,
                       norm->gain,         norm->bias,
                       rows->table.n_rows, buffer_put(stream, hidden, weight->n, weight->half),
                       norm->epsilon,      false};
    close_launch(stream->cuda, task, rows->most_rows);
}

void cuda_embed(struct stream *stream, const struct embedding *embedding,
                const struct position_embedding *positional, const struct rows *rows,
                struct buffer *out)
{
    embed_task task = {embedding->table,   embedding->type,
                       embedding->scale,   positional ? positional->numbers : NULL,
                       rows->table.ids,    rows->table.places,
                       rows->table.n_rows, buffer_put(stream, out, embedding->c, NUMBER_F32)};
    embed_launch(stream->cuda, task, rows->most_rows);
}

/* ---- Output layer ---------------------------------------------------------------------------- */

static void scan(struct stream *stream, const struct rows *rows, const struct store *store,
                 int first, int n)
{
    scan_task task = {};
    task.logits = rows->logits;
    task.stride = rows->logits_stride;
    task.first_id = first;
    task.n_ids = n;
    task.searches = store->searches;
    task.n_rows = rows->table.n_rows;
    task.slots = rows->table.slots;
    task.beams = rows->beams;
    task.n_slices = rows->n_slices;
    task.scans = rows->scans;
    task.best = rows->best;
    task.beam = rows->shape.beam;
    scan_launch(stream->cuda, task, rows->most_rows);
}

void cuda_search_output(struct stream *stream, const struct weight *output, struct rows *rows,
                        struct store *store, const struct buffer *x)
{
    struct row_product product = {};
    product.operand = operand_of(stream, output, rows, x);
    product.n_rows = rows->table.n_rows;
    product.most_rows = rows->most_rows;
    product.sums = rows->logits;
    product.stride = rows->logits_stride;
    for (int first = 0; first < output->n; first += rows->logits_stride) {
        int left = output->n - first, padded = output->np - first;
        product.first = first;
        product.n = padded < rows->logits_stride ? padded : rows->logits_stride;
        cuda_product(stream, output, &product);
        if (rows->kind == ROWS_STEP)
            scan(stream, rows, store, first,
                 left < rows->logits_stride ? left : rows->logits_stride);
    }
}
