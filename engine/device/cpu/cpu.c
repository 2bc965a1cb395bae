/* The CPU backend: the table of its operations. Each takes buffers, rows and store apart and hands
 * plain memory to the file that computes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/room.h"
#include "device/cpu/area_keys.h"
#include "device/cpu/areas.h"
#include "device/cpu/attention.h"
#include "device/cpu/lstm.h"
#include "device/cpu/products.h"
#include "device/cpu/store.h"

/* Rows stand one behind the other, as wide as the operation that wrote them says. */
struct buffer {
    float *numbers; /* mapped */
    size_t n_floats;
};

static void buffer_close(struct buffer *buffer)
{
    if (buffer)
        mem_unmap(buffer->numbers, buffer->n_floats * sizeof(float));
    mem_free(buffer);
}

static int buffer_open(struct device *device, size_t max_rows, size_t max_width,
                       struct buffer **out)
{
    (void)device;
    struct buffer *buffer = mem_calloc(1, sizeof(*buffer));
    if (!buffer)
        return ACRE_ENOMEM;
    buffer->n_floats = max_rows * max_width;
    buffer->numbers = mem_map(buffer->n_floats * sizeof(float));
    if (!buffer->numbers) {
        mem_free(buffer);
        return ACRE_ENOMEM;
    }
    *out = buffer;
    return 0;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void run(struct stream *stream, struct rows *rows, struct store *store, void (*body)(void *),
                void *user)
{
    (void)stream, (void)rows, (void)store;
    body(user);
}

static void embed(struct stream *stream, const struct embedding *embedding,
                  const struct position_embedding *positions, const struct rows *rows,
                  struct buffer *to)
{
    (void)stream;
    float *out = to->numbers;
    size_t c = embedding->table.shape[1];
    for (size_t row = 0; row < rows->n_rows; row++, out += c) {
        tensor_read(&embedding->table, (size_t)rows->ids[row] * c, c, out);
        for (size_t i = 0; i < c; i++)
            out[i] *= embedding->scale;
        if (!positions)
            continue;
        const float *place = positions->numbers + (size_t)rows->positions[row] * c;
        for (size_t i = 0; i < c; i++)
            out[i] += place[i];
    }
}

static void linear(struct stream *stream, const struct weight *weight, const struct rows *rows,
                   const struct buffer *x, enum activation activation, struct buffer *y)
{
    cpu_linear(stream, weight, rows->n_rows, x->numbers, activation, NULL, y->numbers);
}

static void linear_add(struct stream *stream, const struct weight *weight, const struct rows *rows,
                       const struct buffer *x, struct buffer *y)
{
    cpu_linear(stream, weight, rows->n_rows, x->numbers, ACTIVATION_NONE, y->numbers, y->numbers);
}

static void layer_norm(struct stream *stream, const struct norm *norm, const struct rows *rows,
                       const struct buffer *x, struct buffer *y)
{
    stream->kernels->layer_norm(rows->n_rows, norm->c, x->numbers, norm->gain, norm->bias,
                                norm->epsilon, y->numbers);
}

static void linear_add_norm(struct stream *stream, const struct weight *weight,
                            const struct norm *norm, const struct rows *rows,
                            const struct buffer *x, struct buffer *hidden)
{
    linear_add(stream, weight, rows, x, hidden);
    layer_norm(stream, norm, rows, hidden, hidden);
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void attend(struct stream *stream, const struct attention *attention, bool causal,
                   const struct rows *rows, const struct buffer *qkv, struct buffer *context)
{
    cpu_attend(stream, attention, causal, rows->n_groups, rows->first, qkv->numbers,
               context->numbers);
}

static void attend_step(struct stream *stream, const struct attention *attention, size_t layer,
                        const struct rows *rows, struct store *store, const struct buffer *qkv,
                        struct buffer *context)
{
    struct step_rows step = {
        .n_rows = rows->n_rows, .paths = rows->paths, .lengths = rows->lengths};
    cpu_attend_step(stream, attention, &step, store->caches[layer], qkv->numbers, context->numbers);
}

static void store_memory(struct stream *stream, const struct attention *attention, size_t layer,
                         const struct rows *rows, struct store *store, const struct buffer *keys,
                         const struct buffer *values)
{
    size_t c = attention->n_heads * attention->head_width, stride = values ? c : 2 * c;
    const float *first_value = values ? values->numbers : keys->numbers + c;
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        cpu_store_memory(stream, attention, group->n, keys->numbers + group->first * stride, stride,
                         first_value + group->first * stride, stride,
                         cpu_memory_of(&store->slots[group->slot], layer));
    }
}

/* Where a group's weights of items are added up; NULL: nobody wants to know them. */
static float *item_weights(const struct store *store, const struct rows *rows, size_t layer,
                           const struct rows_group *group)
{
    const struct store_shape *shape = &store->shape;
    bool is_told = rows->kind == ROWS_STEP && store->slots[group->slot].is_aligned &&
                   layer >= shape->first_aligned && layer < shape->first_aligned + shape->n_aligned;
    return is_told ? store->item_weights + group->first * shape->positions : NULL;
}

static void attend_memory(struct stream *stream, const struct attention *attention, size_t layer,
                          const struct rows *rows, struct store *store, const struct buffer *query,
                          struct buffer *context)
{
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        const struct slot *slot = &store->slots[group->slot];
        rows->memory[g] = (struct memory_rows){
            .memory = cpu_memory_of(slot, layer),
            .length = slot->source_length,
            .first_row = group->first,
            .n_rows = group->n,
            .item_weights = item_weights(store, rows, layer, group),
        };
    }
    cpu_attend_memory(stream, attention, rows->n_groups, rows->memory, query->numbers,
                      context->numbers);
}

static const struct rows_group *group_of(const struct rows *rows, size_t row)
{
    const struct rows_group *group = rows->groups;
    while (row >= group->first + group->n)
        group++;
    return group;
}

static void memory_weights(struct stream *stream, const struct attention *attention, size_t layer,
                           size_t head, const struct rows *rows, const struct store *store,
                           size_t row, const struct buffer *query, float *weights)
{
    const struct slot *slot = &store->slots[group_of(rows, row)->slot];
    size_t d = attention->head_width, l = slot->source_length,
           planes = area_planes(&attention->area);
    float *padded = stream->scores; /* [planes][Lp] */
    cpu_memory_weights(stream, attention, head, l, cpu_memory_of(slot, layer),
                       query->numbers + (row * attention->n_heads + head) * d, padded);
    for (size_t plane = 0; plane < planes; plane++)
        memcpy(weights + plane * l, padded + plane * kernel_padded(l), l * sizeof(*weights));
}

/* ---- LSTMs ----------------------------------------------------------------------------------- */

static void lstm_layer(struct stream *stream, const struct weight *recurrent, size_t layer,
                       const struct rows *rows, struct store *store, struct buffer *gates,
                       struct buffer *hidden)
{
    cpu_lstm_layer(stream, recurrent, layer, rows, store, gates->numbers, hidden->numbers);
}

static void state_read(struct stream *stream, size_t state, const struct rows *rows,
                       const struct store *store, struct buffer *x)
{
    (void)stream;
    size_t width = store->shape.state_width;
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        for (size_t row = group->first; row < group->first + group->n; row++)
            memcpy(x->numbers + row * width,
                   cpu_states_before(store, rows, group, row) + state * width,
                   width * sizeof(float));
    }
}

static void state_write(struct stream *stream, size_t state, const struct rows *rows,
                        struct store *store, const struct buffer *x)
{
    (void)stream;
    size_t width = store->shape.state_width;
    for (size_t row = 0; row < rows->n_rows; row++)
        memcpy(cpu_states_after(store, rows, row) + state * width, x->numbers + row * width,
               width * sizeof(float));
}

/* ---- Search ---------------------------------------------------------------------------------- */

/* One candidate of each row, of all ids. */
static void begin_forced_scans(struct rows *rows)
{
    for (size_t row = 0; row < rows->n_rows; row++)
        rows->scans[row] =
            (struct logit_scan){.best = rows->best + row, .k = 1, .maximum = -INFINITY};
}

static void search_output(struct stream *stream, const struct weight *output, struct rows *rows,
                          struct store *store, const struct buffer *x)
{
    (void)store;
    if (rows->kind != ROWS_STEP)
        begin_forced_scans(rows);
    cpu_scan_output(stream, output, rows->n_rows, x->numbers, rows->scans);
}

/* ---- Looking in ------------------------------------------------------------------------------ */

static void buffer_read(struct stream *stream, const struct buffer *buffer, size_t n_rows,
                        size_t width, float *out)
{
    (void)stream;
    memcpy(out, buffer->numbers, n_rows * width * sizeof(*out));
}

static void buffer_write(struct stream *stream, struct buffer *buffer, size_t n_rows, size_t width,
                         const float *in)
{
    (void)stream;
    memcpy(buffer->numbers, in, n_rows * width * sizeof(*in));
}

/* ---- The table ------------------------------------------------------------------------------- */

static void cpu_close(struct device *device)
{
    mem_free(device);
}

static size_t cpu_free_bytes(const struct device *device)
{
    (void)device;
    return room_bytes("");
}

int device_cpu_open(enum cpu_level level, struct device **out, struct acre_err *err)
{
    static const struct device_ops ops = {
        .close = cpu_close,
        .free_bytes = cpu_free_bytes,
        .weight_open = cpu_weight_open,
        .weights_order = cpu_weights_order,
        .norm_open = cpu_norm_open,
        .embedding_open = cpu_embedding_open,
        .position_embedding_open = cpu_position_embedding_open,
        .area_key_open = cpu_area_key_open,
        .weight_close = cpu_weight_close,
        .norm_close = cpu_norm_close,
        .embedding_close = cpu_embedding_close,
        .position_embedding_close = cpu_position_embedding_close,
        .area_key_close = cpu_area_key_close,
        .stream_open = cpu_stream_open,
        .buffer_open = buffer_open,
        .rows_open = cpu_rows_open,
        .store_open = cpu_store_open,
        .store_token_bytes = cpu_store_token_bytes,
        .stream_close = cpu_stream_close,
        .buffer_close = buffer_close,
        .rows_close = cpu_rows_close,
        .store_close = cpu_store_close,
        .enter = cpu_enter,
        .force = cpu_force,
        .drop = cpu_drop,
        .run = run,
        .poll = cpu_poll,
        .embed = embed,
        .linear = linear,
        .linear_add = linear_add,
        .layer_norm = layer_norm,
        .linear_add_norm = linear_add_norm,
        .attend = attend,
        .attend_step = attend_step,
        .store_memory = store_memory,
        .attend_memory = attend_memory,
        .lstm_layer = lstm_layer,
        .state_read = state_read,
        .state_write = state_write,
        .search_begin = cpu_search_begin,
        .search_output = search_output,
        .search_advance = cpu_search_advance,
        .search_force = cpu_search_force,
        .memory_weights = memory_weights,
        .read = buffer_read,
        .write = buffer_write,
    };
    struct cpu_device *cpu = mem_calloc(1, sizeof(*cpu));
    if (!cpu)
        return err_set(err, ACRE_ENOMEM, "no memory for the CPU device");
    cpu->kernels = kernels_find(level);
    snprintf(cpu->name, sizeof(cpu->name), "cpu %s", cpu->kernels->name);
    cpu->device.ops = &ops;
    cpu->device.name = cpu->name;
    *out = &cpu->device;
    return 0;
}
