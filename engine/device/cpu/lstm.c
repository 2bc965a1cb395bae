#include "device/cpu/lstm.h"

#include <string.h>

/* A row's gates get their recurrent part and become its new state; `state` is where hidden and cell
 * state of the layer go, `before` where they were. */
struct cells {
    const struct weight *recurrent;
    size_t c, n;
    float *gates, *hidden; /* [n,4C], [n,C] */
};

static void add_recurrent(struct stream *stream, const struct cells *cells)
{
    cpu_linear(stream, cells->recurrent, cells->n, cells->hidden, ACTIVATION_NONE, cells->gates,
               cells->gates);
}

static void advance_row(const struct stream *stream, size_t c, const float *gates,
                        const float *before, float *state, float *hidden)
{
    stream->kernels->lstm_cell(c, gates, before + c, state + c, state);
    memcpy(hidden, state, c * sizeof(*hidden));
}

/* ---- One step -------------------------------------------------------------------------------- */

static void step(struct stream *stream, struct cells *cells, size_t offset, const struct rows *rows,
                 struct store *store)
{
    size_t c = cells->c;
    cells->n = rows->n_rows;
    cells->hidden = store->lstm_hidden;
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        for (size_t row = group->first; row < group->first + group->n; row++)
            memcpy(cells->hidden + row * c, cpu_states_before(store, rows, group, row) + offset,
                   c * sizeof(float));
    }
    add_recurrent(stream, cells);
}

static void step_rows(struct stream *stream, const struct cells *cells, size_t offset,
                      const struct rows *rows, struct store *store, float *hidden)
{
    size_t c = cells->c;
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        for (size_t row = group->first; row < group->first + group->n; row++)
            advance_row(stream, c, cells->gates + row * 4 * c,
                        cpu_states_before(store, rows, group, row) + offset,
                        cpu_states_after(store, rows, row) + offset, hidden + row * c);
    }
}

/* ---- Whole sentences ------------------------------------------------------------------------- */

static bool is_longer(const struct rows *rows, size_t g, size_t t)
{
    return t < rows->groups[g].n;
}

/* Token t of all sentences that have one. Their states are the slots', where the decoder begins. */
static void sentences_step(struct stream *stream, struct cells *cells, size_t offset, size_t t,
                           const struct rows *rows, struct store *store, const float *gates,
                           float *hidden)
{
    size_t c = cells->c, n = 0;
    for (size_t g = 0; g < rows->n_groups; g++) {
        if (!is_longer(rows, g, t))
            continue;
        const struct rows_group *group = &rows->groups[g];
        memcpy(cells->gates + n * 4 * c, gates + (group->first + t) * 4 * c, 4 * c * sizeof(float));
        memcpy(cells->hidden + n * c, store->slots[group->slot].states + offset, c * sizeof(float));
        n++;
    }
    cells->n = n;
    add_recurrent(stream, cells);
    n = 0;
    for (size_t g = 0; g < rows->n_groups; g++) {
        if (!is_longer(rows, g, t))
            continue;
        const struct rows_group *group = &rows->groups[g];
        float *state = store->slots[group->slot].states + offset;
        advance_row(stream, c, cells->gates + n++ * 4 * c, state, state,
                    hidden + (group->first + t) * c);
    }
}

static size_t longest(const struct rows *rows)
{
    size_t most = 0;
    for (size_t g = 0; g < rows->n_groups; g++)
        most = rows->groups[g].n > most ? rows->groups[g].n : most;
    return most;
}

void cpu_lstm_layer(struct stream *stream, const struct weight *recurrent, size_t layer,
                    const struct rows *rows, struct store *store, float *gates, float *hidden)
{
    size_t c = recurrent->packed.k, offset = 2 * layer * c;
    struct cells cells = {.recurrent = recurrent, .c = c};
    if (rows->kind == ROWS_STEP) {
        cells.gates = gates;
        step(stream, &cells, offset, rows, store);
        step_rows(stream, &cells, offset, rows, store, hidden);
        return;
    }
    cells.gates = store->lstm_gates;
    cells.hidden = store->lstm_hidden;
    for (size_t t = 0; t < longest(rows); t++)
        sentences_step(stream, &cells, offset, t, rows, store, gates, hidden);
}
