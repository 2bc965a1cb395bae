#include "device/cuda/recurrent.h"

#include "device/cuda/convert.h"
#include "device/cuda/lstm.h"
#include "device/cuda/products.h"

/* ---- States ---------------------------------------------------------------------------------- */

/* State number `state` of the rows `of`. */
static struct states_task states_of(const struct store *store, size_t state, const int32_t *of,
                                    const int32_t *n_rows)
{
    struct states_task task = {};
    task.states = store->states + state * store->shape.state_width;
    task.state_stride = store->shape.n_states * store->shape.state_width;
    task.of = of;
    task.n_rows = n_rows;
    task.width = (int)store->shape.state_width;
    task.type = NUMBER_F32;
    return task;
}

void cuda_state_read(struct stream *stream, size_t state, const struct rows *rows,
                     const struct store *store, struct buffer *x)
{
    struct states_task task = states_of(store, state, rows->state_before, rows->table.n_rows);
    task.x = buffer_put_as(stream, x, NUMBER_F32);
    task.x_stride = x->stride;
    states_read_launch(stream->cuda, task, rows->most_rows);
}

void cuda_state_write(struct stream *stream, size_t state, const struct rows *rows,
                      struct store *store, const struct buffer *x)
{
    struct states_task task = states_of(store, state, rows->state_after, rows->table.n_rows);
    task.x = (void *)(uintptr_t)buffer_as(stream, x, rows, NUMBER_F32);
    task.x_stride = x->stride;
    states_write_launch(stream->cuda, task, rows->most_rows);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Hypotheses of a step, or sentences that take one item each. */
struct cells {
    size_t layer;
    const struct weight *recurrent;
    const int32_t *n_rows, *before, *after; /* where their states are */
    int most_rows;
    int c, stride; /* of carried rows */
};

static struct hidden_rows carried_rows(const struct cells *cells, const struct store *store)
{
    enum number_type type = cells->recurrent->half;
    return {store->carried, type == NUMBER_F32 ? NULL : store->carried_narrow, type, cells->c,
            cells->stride};
}

/* The hidden states before, as rows to multiply. */
static void read_hidden(struct stream *stream, const struct cells *cells, const struct store *store)
{
    struct states_task task = states_of(store, 2 * cells->layer, cells->before, cells->n_rows);
    struct hidden_rows rows = carried_rows(cells, store);
    task.x = rows.numbers;
    task.x_stride = rows.stride;
    states_read_launch(stream->cuda, task, cells->most_rows);
    if (rows.narrow_type == NUMBER_F32)
        return;
    convert_task narrow = {rows.numbers, rows.narrow, NUMBER_F32, rows.narrow_type,
                           rows.stride,  rows.stride, rows.width, cells->n_rows};
    convert_launch(stream->cuda, narrow, cells->most_rows);
}

static void multiply(struct stream *stream, const struct cells *cells, const struct store *store)
{
    struct hidden_rows rows = carried_rows(cells, store);
    struct row_product product = {cuda_operand(stream, cells->recurrent, rows.numbers, rows.narrow,
                                               rows.stride, cells->n_rows, cells->most_rows),
                                  cells->n_rows,
                                  cells->most_rows,
                                  0,
                                  cells->recurrent->np,
                                  store->recurrent,
                                  4 * cells->stride};
    cuda_product(stream, cells->recurrent, &product);
}

static struct cell_task cell_task_of(const struct cells *cells, const struct store *store,
                                     const struct buffer *gates, struct hidden_rows hidden)
{
    struct states_task cell = states_of(store, 2 * cells->layer + 1, NULL, NULL);
    struct cell_task task = {};
    task.gates = gates->numbers;
    task.gates_stride = gates->stride;
    task.recurrent = store->recurrent;
    task.recurrent_stride = 4 * cells->stride;
    task.c = cells->c;
    task.n_rows = cells->n_rows;
    task.cells = cell.states;
    task.before = cells->before;
    task.after = cells->after;
    task.cell_stride = cell.state_stride;
    task.hidden = hidden;
    return task;
}

static void step(struct stream *stream, const struct cells *cells, struct store *store,
                 const struct rows *rows, struct buffer *gates, struct buffer *hidden)
{
    struct hidden_rows out = buffer_put(stream, hidden, cells->c, cells->recurrent->half);
    read_hidden(stream, cells, store);
    multiply(stream, cells, store);
    cell_launch(stream->cuda, cell_task_of(cells, store, gates, out), cells->most_rows);
    cuda_state_write(stream, 2 * cells->layer, rows, store, hidden);
}

/* A sentence that has no item left keeps its last state. */
static void sentences(struct stream *stream, const struct cells *cells, struct store *store,
                      const struct rows *rows, struct buffer *gates, struct buffer *hidden)
{
    struct hidden_rows out = buffer_put(stream, hidden, cells->c, cells->recurrent->half);
    struct cell_task task = cell_task_of(cells, store, gates, out);
    task.first = rows->table.first;
    task.carried = carried_rows(cells, store);
    read_hidden(stream, cells, store);
    for (task.t = 0; task.t < rows->longest; task.t++) {
        multiply(stream, cells, store);
        cell_launch(stream->cuda, task, cells->most_rows);
    }
    struct states_task last = states_of(store, 2 * cells->layer, cells->after, cells->n_rows);
    last.x = task.carried.numbers;
    last.x_stride = task.carried.stride;
    states_write_launch(stream->cuda, last, cells->most_rows);
}

void cuda_lstm_layer(struct stream *stream, const struct weight *recurrent, size_t layer,
                     const struct rows *rows, struct store *store, struct buffer *gates,
                     struct buffer *hidden)
{
    bool is_step = rows->kind == ROWS_STEP;
    struct cells cells = {};
    cells.layer = layer;
    cells.recurrent = recurrent;
    cells.c = recurrent->k;
    cells.stride = cuda_padded(store->shape.state_width, ROW_NUMBERS);
    cells.n_rows = is_step ? rows->table.n_rows : rows->table.n_groups;
    cells.before = is_step ? rows->state_before : rows->table.states;
    cells.after = is_step ? rows->state_after : rows->table.states;
    cells.most_rows = is_step ? rows->most_rows : rows->most_groups;
    buffer_as(stream, gates, rows, NUMBER_F32);
    if (is_step)
        step(stream, &cells, store, rows, gates, hidden);
    else
        sentences(stream, &cells, store, rows, gates, hidden);
}
