/* A slot's life: enter() begins a search on the device, steps take it on, and the step in which it
 * ends says so. The host reads that in poll() (progress.cu), as many steps late as it is told to
 * allow; until then the slot is a sentence without rows. drop() empties a slot at once: what was
 * under way for it is known by the number of the step it was entered in, and not told.
 *
 * Nothing here waits, and nothing can fail: errors are the poll's to tell. */
#include "device/cuda/graphs.h"
#include "device/cuda/store.h"

extern "C" {
#include "search/search.h"
}

/* ---- What the host says ---------------------------------------------------------------------- */

/* Tables are kept from sentence to sentence: most have the same penalty. A whole one is filled at
 * once, in two places by turns: what was told the time before last has long gone, for a step has
 * been waited for since. */
static void send_penalties(struct stream *stream, struct store *store, size_t slot, float penalty)
{
    struct slot *of = &store->slots[slot];
    size_t n = store->shape.positions + 1;
    if (of->n_penalties == n && of->penalty == penalty)
        return;
    double *told = store->told_penalties + (2 * slot + of->next_told) * n;
    of->next_told ^= 1;
    search_fill_penalties(penalty, 0, n, told);
    cudaMemcpyAsync(store->penalties + slot * n, told, n * sizeof(double), cudaMemcpyHostToDevice,
                    stream->cuda);
    of->penalty = penalty;
    of->n_penalties = n;
}

/* A translation that is known as a whole, whose beam size is 1: its nodes stand together. */
static void send_nodes(struct stream *stream, struct store *store, const struct entry *entry)
{
    struct slot *of = &store->slots[entry->slot];
    size_t n = (size_t)entry->prefix.n, positions = store->shape.positions;
    if (n <= 1)
        return;
    struct search_node *told = store->told_nodes + (2 * entry->slot + of->next_nodes) * positions;
    of->next_nodes ^= 1;
    for (size_t t = 0; t < n; t++)
        told[t] = {entry->translation[t], 0};
    cudaMemcpyAsync(store->nodes + entry->slot * positions * store->shape.max_beam + 1, told,
                    n * sizeof(*told), cudaMemcpyHostToDevice, stream->cuda);
}

static void note_entry(struct store *store, const struct entry *entry)
{
    struct slot *slot = &store->slots[entry->slot];
    slot->is_running = true;
    slot->first_step = store->n_steps;
    slot->source_length = (int)entry->n_source + 1;
    slot->beam_size = entry->decoding.beam_size;
    slot->n_hypotheses = entry->decoding.num_hypotheses;
    slot->max_length = entry->decoding.max_length;
    slot->is_aligned = entry->is_aligned;
}

static void begin_searches(struct stream *stream, const struct rows *rows, struct store *store)
{
    const struct search_model *model = &store->shape.search;
    enter_task task = {};
    task.shape = store->slots_shape;
    task.entrants = rows->table.entrants;
    task.n_entrants = rows->table.n_groups;
    task.searches = store->searches;
    task.constraint = store->constraint;
    task.start_token = model->start_token;
    task.end_token = model->end_token;
    task.renormalize = model->renormalize;
    task.nodes = store->nodes;
    task.penalties = store->penalties;
    task.paths = store->paths;
    task.lengths = store->lengths;
    task.is_aligned = store->is_aligned;
    task.first_items = store->first_items;
    task.end_items = store->end_items;
    task.states = store->states;
    task.state_numbers = store->shape.n_states * store->shape.state_width;
    enter_launch(stream->cuda, task, rows->most_groups);
}

static void put_tokens(const struct row_page *page, const int32_t *tokens, size_t n, int first)
{
    for (size_t i = 0; i < n; i++) {
        page->table.ids[(size_t)first + i] = tokens[i];
        page->table.places[(size_t)first + i] = (int32_t)i;
    }
}

void cuda_enter(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                const struct entry *entries)
{
    cuda_use(stream->device);
    struct row_page *page = rows_page(rows);
    rows_clear(rows, page, ROWS_SOURCE);
    for (size_t i = 0; i < n; i++) {
        const struct entry *entry = &entries[i];
        int first = rows->most_rows;
        rows_add(rows, page, entry->slot, entry->n_source + 1);
        put_tokens(page, entry->source, entry->n_source, first);
        put_tokens(page, entry->last ? &entry->last : &store->shape.search.end_token, 1,
                   first + (int)entry->n_source);
        page->table.places[first + (int)entry->n_source] = (int32_t)entry->n_source;
        page->table.entrants[i] = {(int32_t)entry->slot,
                                   (int32_t)entry->n_source + 1,
                                   entry->is_aligned,
                                   (int32_t)entry->first_item,
                                   (int32_t)entry->end_item,
                                   entry->decoding,
                                   entry->prefix,
                                   entry->prefix.n > 0 ? entry->translation[0] : -1};
        send_penalties(stream, store, entry->slot, entry->decoding.length_penalty);
        send_nodes(stream, store, entry);
        note_entry(store, entry);
    }
    rows->longest_source = rows->longest;
    rows_send(rows, page, stream->cuda);
    begin_searches(stream, rows, store);
}

void cuda_force(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                const struct forced *forced)
{
    cuda_use(stream->device);
    struct row_page *page = rows_page(rows);
    rows_clear(rows, page, ROWS_TARGET);
    for (size_t i = 0; i < n; i++) {
        int first = rows->most_rows;
        rows_add(rows, page, forced[i].slot, forced[i].n);
        put_tokens(page, forced[i].tokens, forced[i].n, first);
        const struct slot *slot = &store->slots[forced[i].slot];
        if (slot->source_length > rows->longest_source)
            rows->longest_source = slot->source_length;
    }
    rows_send(rows, page, stream->cuda);
}

void cuda_drop(struct stream *stream, struct store *store, size_t slot)
{
    drop_task task = {store->searches, (int32_t)slot};
    cuda_use(stream->device);
    store->slots[slot].is_running = false;
    drop_launch(stream->cuda, task);
}

/* A step is done when all that was launched with it is. */
void cuda_run(struct stream *stream, struct rows *rows, struct store *store, void (*body)(void *),
              void *user)
{
    cuda_use(stream->device);
    rows->has_advanced = false;
    graphs_run(stream->graphs, stream, rows, store, body, user);
    if (rows->has_advanced)
        cudaEventRecord(store->done[store->n_steps++ % SEARCH_PAGES], stream->cuda);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void cuda_search_begin(struct stream *stream, struct rows *rows, struct store *store)
{
    const struct row_table *table = &rows->table;
    cuda_use(stream->device);
    store_bound_step(store, rows);
    place_task task = {store->slots_shape, store->searches,
                       table->n_rows,      table->n_groups,
                       table->slots,       rows->beams,
                       table->ids,         table->places,
                       rows->lengths,      rows->path_rows,
                       rows->state_before, rows->state_after,
                       table->groups,      {store->pages, store->step}};
    place_launch(stream->cuda, task);
}

static size_t look_head_stride(const struct store *store)
{
    return store->shape.n_slots * store->shape.max_beam * store->shape.positions;
}

struct looks store_looks(const struct store *store, const struct rows *rows, size_t layer,
                         size_t n_heads)
{
    const struct store_shape *shape = &store->shape;
    struct looks looks = {};
    bool is_told = rows->kind == ROWS_STEP && layer >= shape->first_aligned &&
                   layer < shape->first_aligned + shape->n_aligned && rows->is_aligned;
    if (!is_told)
        return looks;
    looks.head_stride = look_head_stride(store);
    looks.stride = (int)shape->positions;
    looks.is_wanted = store->is_aligned;
    looks.weights = store->looks + (layer - shape->first_aligned) * n_heads * looks.head_stride;
    return looks;
}

static void align(struct stream *stream, const struct rows *rows, const struct store *store)
{
    align_task task = {};
    task.shape = store->slots_shape;
    task.looks = store->looks;
    task.n_heads = (int)store->look_heads;
    task.stride = (int)store->shape.positions;
    task.head_stride = look_head_stride(store);
    task.n_rows = rows->table.n_rows;
    task.slots = rows->table.slots;
    task.beams = rows->beams;
    task.places = rows->table.places;
    task.lengths = store->lengths;
    task.is_aligned = store->is_aligned;
    task.first_items = store->first_items;
    task.end_items = store->end_items;
    task.alignment = store->alignment;
    align_launch(stream->cuda, task, rows->most_rows);
}

static advance_task advance_of(const struct rows *rows, const struct store *store)
{
    advance_task task = {};
    task.shape = store->slots_shape;
    task.searches = store->searches;
    task.paths = store->paths;
    task.ends = store->ends;
    task.tokens = store->tokens;
    task.pages = {store->pages, store->step};
    task.alignment = store->alignment;
    task.alignments = store->alignments;
    task.is_aligned = store->is_aligned;
    if (!rows)
        return task;
    task.groups = rows->table.groups;
    task.n_groups = rows->table.n_groups;
    task.n_slices = rows->n_slices;
    task.scans = rows->scans;
    task.best = rows->best;
    task.merged = rows->merged;
    task.merged_counts = rows->merged_counts;
    return task;
}

void cuda_search_advance(struct stream *stream, struct rows *rows, struct store *store)
{
    rows->has_advanced = true;
    if (rows->is_aligned)
        align(stream, rows, store);
    advance_launch(stream->cuda, advance_of(rows, store));
}

void cuda_search_force(struct stream *stream, struct store *store, size_t slot, int32_t token)
{
    force_task task = {advance_of(NULL, store), (int32_t)slot, token};
    cuda_use(stream->device);
    force_launch(stream->cuda, task);
    store->n_steps++; /* hypotheses are one longer */
    store->n_polled++;
}
