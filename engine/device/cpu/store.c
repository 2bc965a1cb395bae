/* A slot's life: enter() fills the rows of the encoder's pass and starts a search; every step,
 * search_begin() puts the live hypotheses of all slots into the rows, the operations work, and
 * search_advance() takes each search on, extends the paths of its hypotheses or, where it is over,
 * writes its results. poll() tells of those; the slot is free then, as it is after drop().
 *
 * Nothing here can fail but opening.
 */
#include "device/cpu/store.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/attention.h"

enum {
    KEPT_FLOATS = 1024 * 1024 /* what a free slot may keep of the pages its sentence touched */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static size_t n_rows(const struct store *store)
{
    return store->shape.n_slots * store->cache_steps * store->shape.max_beam;
}

static size_t cache_floats(const struct store *store, size_t layer)
{
    return store->shape.self ? cpu_cache_row_floats(store->shape.self[layer]) : 0;
}

static size_t state_floats(const struct store *store)
{
    return store->shape.n_states * store->shape.state_width;
}

/* Of a source of `length`, with the states in front of it. */
static size_t memory_floats(const struct store *store, size_t length)
{
    size_t floats = state_floats(store);
    for (size_t i = 0; i < store->shape.n_layers; i++)
        floats += cpu_memory_floats(store->shape.cross[i], length);
    return floats;
}

static void place_slot(struct store *store, struct slot *slot)
{
    struct arena *arena = &store->arena;
    size_t positions = store->shape.positions, nodes = positions * store->shape.max_beam;
    slot->nodes = arena_take(arena, nodes, sizeof(*slot->nodes));
    slot->memory_places =
        arena_take(arena, store->shape.n_layers + 1, sizeof(*slot->memory_places));
    slot->paths[0] = arena_take(arena, nodes, sizeof(*slot->paths[0]));
    slot->paths[1] = arena_take(arena, nodes, sizeof(*slot->paths[1]));
    slot->alignment = arena_take(arena, nodes, sizeof(*slot->alignment));
    slot->penalties = arena_take(arena, positions + 1, sizeof(*slot->penalties));
    slot->hypotheses = arena_take(arena, store->shape.max_beam, sizeof(*slot->hypotheses));
}

static void place(struct store *store)
{
    const struct store_shape *shape = &store->shape;
    struct arena *arena = &store->arena;
    struct slot none, *slots;
    size_t n = shape->n_slots, step = n * shape->max_beam, c = shape->state_width;
    slots = store->slots = arena_take(arena, n, sizeof(*store->slots));
    store->ended = arena_take(arena, n, sizeof(*store->ended));
    store->caches = arena_take(arena, shape->n_layers, sizeof(*store->caches));
    store->item_weights = arena_take(arena, step * shape->positions, sizeof(float));
    store->lstm_gates = arena_take(arena, 4 * n * c, sizeof(float));
    store->lstm_hidden = arena_take(arena, step * c, sizeof(float));
    for (size_t i = 0; i < n; i++)
        place_slot(store, slots ? &slots[i] : &none);
}

static int map(struct store *store)
{
    size_t n = store->shape.n_slots;
    store->row_floats = state_floats(store);
    for (size_t i = 0; i < store->shape.n_layers; i++)
        store->row_floats += cache_floats(store, i);
    store->n_memories = n * memory_floats(store, store->shape.positions);
    store->n_cache = n_rows(store) * store->row_floats;
    store->memories = mem_map(store->n_memories * sizeof(float));
    store->cache = mem_map(store->n_cache * sizeof(float));
    return store->memories && store->cache ? 0 : ACRE_ENOMEM;
}

static void share_out(struct store *store)
{
    size_t memory = memory_floats(store, store->shape.positions);
    float *cache = store->cache;
    for (size_t i = 0; i < store->shape.n_layers; i++) {
        store->caches[i] = cache;
        cache += n_rows(store) * cache_floats(store, i);
    }
    store->states = cache;
    for (size_t i = 0; i < store->shape.n_slots; i++) {
        store->slots[i].states = store->memories + i * memory;
        store->slots[i].memory = store->slots[i].states + state_floats(store);
    }
}

int cpu_store_open(struct device *device, const struct store_shape *shape, struct store **out)
{
    (void)device;
    struct store *store = mem_calloc(1, sizeof(*store));
    if (!store)
        return ACRE_ENOMEM;
    store->shape = *shape;
    store->cache_steps = shape->self ? shape->positions : 2;
    place(store);
    if (arena_open(&store->arena) != 0 || map(store) != 0) {
        cpu_store_close(store);
        return ACRE_ENOMEM;
    }
    place(store);
    share_out(store);
    *out = store;
    return 0;
}

/* A translation is about as long as its source; its caches grow, and are half full in the mean. */
size_t cpu_store_token_bytes(const struct store *store, size_t beam)
{
    size_t positions = store->shape.positions, floats = memory_floats(store, positions) / positions;
    for (size_t i = 0; i < store->shape.n_layers; i++)
        floats += beam * cache_floats(store, i) / 2;
    return floats * sizeof(float);
}

void cpu_store_close(struct store *store)
{
    if (!store)
        return;
    mem_unmap(store->memories, store->n_memories * sizeof(float));
    mem_unmap(store->cache, store->n_cache * sizeof(float));
    arena_close(&store->arena);
    mem_free(store);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* The cache row of node (t, b). */
static int32_t cache_row(const struct store *store, const struct slot *slot, int t, int b)
{
    size_t first = (size_t)(slot - store->slots) * store->cache_steps * store->shape.max_beam;
    size_t step = (size_t)t % store->cache_steps;
    return (int32_t)(first + step * (size_t)slot->search.decoding.beam_size + (size_t)b);
}

static int32_t *path_of(const struct store *store, const struct slot *slot, int which, int b)
{
    return slot->paths[which] + (size_t)b * store->shape.positions;
}

/* They are kept from sentence to sentence: most have the same penalty. */
static void fill_penalties(struct slot *slot, const struct acre_decoding *decoding)
{
    size_t n = search_penalties(decoding);
    if (slot->penalty != decoding->length_penalty)
        slot->n_penalties = 0;
    slot->penalty = decoding->length_penalty;
    search_fill_penalties(slot->penalty, slot->n_penalties, n, slot->penalties);
    slot->n_penalties = n > slot->n_penalties ? n : slot->n_penalties;
}

static void begin(struct store *store, const struct entry *entry)
{
    struct slot *slot = &store->slots[entry->slot];
    size_t place = 0;
    slot->state = SLOT_RUNNING;
    slot->is_aligned = entry->is_aligned;
    slot->first_item = entry->first_item;
    slot->end_item = entry->end_item;
    slot->source_length = entry->n_source + 1;
    for (size_t i = 0; i < store->shape.n_layers; i++) {
        slot->memory_places[i] = place;
        place += cpu_memory_floats(store->shape.cross[i], slot->source_length);
    }
    slot->memory_places[store->shape.n_layers] = place;
    memset(slot->states, 0, state_floats(store) * sizeof(float));
    fill_penalties(slot, &entry->decoding);
    search_init(&slot->search, &store->shape.search, &entry->decoding, slot->nodes,
                slot->penalties);
    search_set_prefix(&slot->search, &entry->prefix, entry->translation);
    path_of(store, slot, 0, 0)[0] = cache_row(store, slot, 0, 0);
}

static void discard(float *part, size_t n_floats)
{
    mem_discard(part, n_floats * sizeof(float));
}

/* A long sentence's pages go back at once: kept in every slot they would add up to gigabytes. */
static void discard_pages(const struct store *store, const struct slot *slot)
{
    size_t steps = (size_t)(slot->search.t + 1), layers = store->shape.n_layers;
    steps = steps < store->cache_steps ? steps : store->cache_steps;
    size_t rows = steps * (size_t)slot->search.decoding.beam_size;
    size_t memory = state_floats(store) + slot->memory_places[layers];
    size_t first = (size_t)cache_row(store, slot, 0, 0);
    if (rows * store->row_floats + memory <= KEPT_FLOATS)
        return;
    for (size_t i = 0; i < layers; i++)
        discard(store->caches[i] + first * cache_floats(store, i), rows * cache_floats(store, i));
    discard(store->states + first * state_floats(store), rows * state_floats(store));
    discard(slot->states, memory);
}

/* ---- What the host says ---------------------------------------------------------------------- */

static void add_group(struct rows *rows, size_t slot, size_t n)
{
    rows->groups[rows->n_groups++] =
        (struct rows_group){.slot = slot, .first = rows->n_rows, .n = n};
    rows->n_rows += n;
    rows->first[rows->n_groups] = rows->n_rows;
}

static void clear(struct rows *rows, enum rows_kind kind)
{
    rows->kind = kind;
    rows->n_rows = rows->n_groups = rows->first[0] = 0;
}

static void put_token(struct rows *rows, size_t row, size_t position, int32_t id)
{
    rows->ids[row] = id;
    rows->positions[row] = (int32_t)position;
}

void cpu_enter(struct stream *stream, struct rows *rows, struct store *store, size_t n,
               const struct entry *entries)
{
    (void)stream;
    clear(rows, ROWS_SOURCE);
    for (size_t i = 0; i < n; i++) {
        const struct entry *entry = &entries[i];
        size_t row = rows->n_rows;
        begin(store, entry);
        add_group(rows, entry->slot, entry->n_source + 1);
        for (size_t s = 0; s < entry->n_source; s++)
            put_token(rows, row + s, s, entry->source[s]);
        put_token(rows, row + entry->n_source, entry->n_source,
                  entry->last ? entry->last : store->shape.search.end_token);
    }
}

void cpu_force(struct stream *stream, struct rows *rows, struct store *store, size_t n,
               const struct forced *forced)
{
    (void)stream, (void)store;
    clear(rows, ROWS_TARGET);
    for (size_t i = 0; i < n; i++) {
        size_t row = rows->n_rows;
        add_group(rows, forced[i].slot, forced[i].n);
        for (size_t t = 0; t < forced[i].n; t++)
            put_token(rows, row + t, t, forced[i].tokens[t]);
    }
}

void cpu_drop(struct stream *stream, struct store *store, size_t slot)
{
    (void)stream;
    size_t n = 0;
    if (store->slots[slot].state == SLOT_RUNNING)
        discard_pages(store, &store->slots[slot]);
    for (size_t i = 0; i < store->progress.n_ended; i++)
        if (store->ended[i].slot != slot)
            store->ended[n++] = store->ended[i];
    store->progress.n_ended = n;
    store->slots[slot].state = SLOT_FREE;
}

int cpu_poll(struct stream *stream, struct store *store, int most_behind, struct progress *progress,
             struct acre_err *err)
{
    (void)stream, (void)most_behind, (void)err; /* every step is finished when it returns */
    for (size_t i = 0; i < store->progress.n_ended; i++)
        store->slots[store->ended[i].slot].state = SLOT_FREE;
    *progress = store->progress;
    progress->ended = store->ended;
    store->progress = (struct progress){.n_steps = 0};
    return 0;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void put_slot(struct rows *rows, const struct store *store, struct slot *slot)
{
    const struct search *search = &slot->search;
    size_t row = rows->n_rows, k = 2 * store->shape.max_beam;
    add_group(rows, (size_t)(slot - store->slots), (size_t)search->n_live);
    for (int b = 0; b < search->n_live; b++, row++) {
        put_token(rows, row, (size_t)search->t, search_node(search, search->t, b)->token);
        rows->lengths[row] = search->t + 1;
        rows->paths[row] = path_of(store, slot, 0, b);
        search_scan(search, b, rows->best + row * k, &rows->scans[row]);
    }
}

static float *item_weights_of(const struct store *store, const struct rows_group *group)
{
    return store->item_weights + group->first * store->shape.positions;
}

void cpu_search_begin(struct stream *stream, struct rows *rows, struct store *store)
{
    (void)stream;
    clear(rows, ROWS_STEP);
    for (size_t i = 0; i < store->shape.n_slots; i++)
        if (store->slots[i].state == SLOT_RUNNING)
            put_slot(rows, store, &store->slots[i]);
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct slot *slot = &store->slots[rows->groups[g].slot];
        if (slot->is_aligned)
            memset(item_weights_of(store, &rows->groups[g]), 0,
                   rows->groups[g].n * slot->source_length * sizeof(float));
    }
}

/* The paths of the new live hypotheses: their parents', and their own row. */
static void extend_paths(const struct store *store, struct slot *slot)
{
    const struct search *search = &slot->search;
    size_t length = (size_t)search->t;
    for (int b = 0; b < search->n_live; b++) {
        int32_t *path = path_of(store, slot, 1, b);
        int parent = search_node(search, search->t, b)->parent;
        memcpy(path, path_of(store, slot, 0, parent), length * sizeof(*path));
        path[length] = cache_row(store, slot, search->t, b);
    }
    int32_t *swap = slot->paths[0];
    slot->paths[0] = slot->paths[1];
    slot->paths[1] = swap;
}

/* The source token of the slot's text that a row of a step looks at most. End and language tokens
 * are no part of any text, and where a model looks if it has nothing to look at. */
static int32_t most_looked_at(const struct slot *slot, const float *item_weights)
{
    size_t first = slot->first_item, most = first;
    size_t end = slot->end_item > first ? slot->end_item : slot->source_length;
    for (size_t i = first + 1; i < end; i++)
        if (item_weights[i] > item_weights[most])
            most = i;
    return (int32_t)most;
}

static void keep_alignment(const struct store *store, struct slot *slot,
                           const struct rows_group *group)
{
    const float *item_weights = item_weights_of(store, group);
    int32_t *out = slot->alignment + (size_t)slot->search.t * store->shape.max_beam;
    for (size_t b = 0; b < group->n; b++)
        out[b] = most_looked_at(slot, item_weights + b * slot->source_length);
}

/* A token was chosen by the step that its parent node was read in. */
static void align(const struct store *store, const struct slot *slot,
                  const struct search_result *result, int32_t *alignment)
{
    int b = result->b;
    for (int t = result->n_tokens; t > 0; t--) {
        b = search_node(&slot->search, t, b)->parent;
        alignment[t - 1] = slot->alignment[(size_t)(t - 1) * store->shape.max_beam + (size_t)b];
    }
}

/* Into the room of the paths, which nobody follows any more. */
static void write_results(struct store *store, struct slot *slot)
{
    const struct search *search = &slot->search;
    size_t n = (size_t)search->decoding.num_hypotheses;
    if (n > (size_t)search->n_results)
        n = (size_t)search->n_results;
    for (size_t i = 0; i < n; i++) {
        const struct search_result *result = &search->results[i];
        int32_t *tokens = path_of(store, slot, 0, (int)i);
        int32_t *alignment = slot->is_aligned ? path_of(store, slot, 1, (int)i) : NULL;
        search_tokens(search, result, tokens);
        if (alignment)
            align(store, slot, result, alignment);
        slot->hypotheses[i] = (struct ended_hypothesis){
            .tokens = tokens,
            .n_tokens = (size_t)result->n_tokens,
            .score = result->score,
            .alignment = alignment,
        };
    }
    store->ended[store->progress.n_ended++] = (struct ended){
        .slot = (size_t)(slot - store->slots), .n_hypotheses = n, .hypotheses = slot->hypotheses};
}

void cpu_search_advance(struct stream *stream, struct rows *rows, struct store *store)
{
    (void)stream;
    store->progress.n_steps++;
    store->progress.n_rows += rows->n_rows;
    for (size_t g = 0; g < rows->n_groups; g++) {
        const struct rows_group *group = &rows->groups[g];
        struct slot *slot = &store->slots[group->slot];
        if (slot->is_aligned)
            keep_alignment(store, slot, group);
        if (search_advance(&slot->search, rows->scans + group->first)) {
            extend_paths(store, slot);
            continue;
        }
        slot->state = SLOT_ENDED;
        write_results(store, slot);
        discard_pages(store, slot);
    }
}

void cpu_search_force(struct stream *stream, struct store *store, size_t slot, int32_t token)
{
    (void)stream;
    search_force(&store->slots[slot].search, token);
    extend_paths(store, &store->slots[slot]);
}
