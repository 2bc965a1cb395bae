/* A slot's life: enter() begins a search on the device, steps take it on, and the step in which it
 * ends says so. The host reads that in poll(), as many steps late as it is told to allow; until
 * then the slot is a sentence without rows. drop() empties a slot at once: what was under way for
 * it is known by the number of the step it was entered in, and not told.
 *
 * What can go wrong: a call or a kernel fails, or a step does not end within LOST_S. All of this
 * the next poll tells, and every one after it. */
#include "device/cuda/store.h"

#include <time.h>

extern "C" {
#include "search/search.h"
}

enum {
    LOST_S = 10,  /* a step that takes longer is never waited for again */
    SPIN_US = 50, /* that long it is asked for without sleeping */
    NAP_NS = 20 * 1000,
};

/* ---- Opening --------------------------------------------------------------------------------- */

static void take_searches(struct store *store)
{
    struct gpu_memory *memory = &store->memory;
    size_t n = store->shape.n_slots, beam = store->shape.max_beam, t = store->shape.positions;
    gpu_take(memory, &store->searches, n, GPU_ZEROED);
    gpu_take(memory, &store->nodes, n * t * beam);
    gpu_take(memory, &store->penalties, n * (t + 1));
    gpu_take(memory, &store->paths, 2 * n * beam * t);
    gpu_take(memory, &store->lengths, n, GPU_ZEROED);
    gpu_take(memory, &store->is_aligned, n, GPU_ZEROED);
    gpu_take(memory, &store->alignment, n * t * beam);
    gpu_take(memory, &store->step, 1, GPU_ZEROED);
    gpu_take(memory, &store->told_penalties, n * (t + 1), GPU_PINNED);
    gpu_take(memory, &store->pages, SEARCH_PAGES * (1 + n), GPU_PINNED);
    gpu_take(memory, &store->ends, n, GPU_PINNED);
    gpu_take(memory, &store->tokens, n * beam * t, GPU_PINNED);
    gpu_take(memory, &store->alignments, n * beam * t, GPU_PINNED);
}

static void take_layers(struct store *store)
{
    const struct store_shape *shape = &store->shape;
    struct gpu_memory *memory = &store->memory;
    size_t rows = shape->n_slots * shape->positions, heads = 0;
    for (size_t i = 0; i < shape->n_layers; i++) {
        items_take(memory, store->device, shape->cross[i], rows, &store->memories[i]);
        if (shape->self)
            items_take(memory, store->device, shape->self[i], rows * shape->max_beam,
                       &store->caches[i]);
        if (i >= shape->first_aligned && i < shape->first_aligned + shape->n_aligned)
            heads += shape->cross[i]->n_heads;
    }
    store->look_heads = heads;
    gpu_take(memory, &store->looks, heads * rows * shape->max_beam);
}

static void take_states(struct store *store)
{
    const struct store_shape *shape = &store->shape;
    struct gpu_memory *memory = &store->memory;
    size_t rows = shape->n_slots * shape->max_beam;
    size_t c = (size_t)cuda_padded(shape->state_width, 256);
    if (shape->n_states == 0)
        return;
    gpu_take(memory, &store->states, 2 * rows * shape->n_states * shape->state_width);
    gpu_take(memory, &store->carried, rows * c, GPU_ZEROED);
    store->carried_narrow = gpu_take(memory, rows * c * sizeof(uint16_t), GPU_ZEROED);
    gpu_take(memory, &store->recurrent, rows * 4 * c, GPU_ZEROED);
}

/* Tables of the host, with pointers of the device. */
static void upload_constraint(struct store *store)
{
    const struct constraint *from = store->shape.search.constraint;
    struct gpu_memory *memory = &store->memory;
    struct constraint copy = *from;
    size_t states = from->next ? CONSTRAINT_STATES : 1;
    cuda_upload(memory, from->sets, states * CONSTRAINT_ROOMS * 2 * from->words * sizeof(uint32_t),
                (void **)&copy.sets);
    cuda_upload(memory, from->next, CONSTRAINT_STATES * 256, (void **)&copy.next);
    cuda_upload(memory, &copy, sizeof(copy), (void **)&store->constraint);
}

static int take_host(struct store *store)
{
    size_t n = store->shape.n_slots, layers = store->shape.n_layers;
    store->memories =
        static_cast<struct area_items *>(mem_calloc(layers, sizeof(struct area_items)));
    store->caches = static_cast<struct area_items *>(mem_calloc(layers, sizeof(struct area_items)));
    store->slots = static_cast<struct slot *>(mem_calloc(n, sizeof(struct slot)));
    store->ended = static_cast<struct ended *>(mem_calloc(n, sizeof(struct ended)));
    store->hypotheses = static_cast<struct ended_hypothesis *>(
        mem_calloc(n * store->shape.max_beam, sizeof(struct ended_hypothesis)));
    bool is_there =
        store->memories && store->caches && store->slots && store->ended && store->hypotheses;
    for (cudaEvent_t &event : store->done)
        is_there &= cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess;
    return is_there ? 0 : ACRE_ENOMEM;
}

int cuda_store_open(struct device *device, const struct store_shape *shape, struct store **out)
{
    struct store *store = cuda_new<struct store>();
    if (!store)
        return ACRE_ENOMEM;
    store->device = cuda_device_of(device);
    store->shape = *shape;
    store->slots_shape = {(int)shape->n_slots, (int)shape->max_beam, (int)shape->positions};
    cuda_use(store->device);
    int status = take_host(store);
    if (status == 0) {
        take_searches(store);
        take_layers(store);
        take_states(store);
        upload_constraint(store);
    }
    if (status != 0 || store->memory.has_failed) {
        cuda_store_close(store);
        return ACRE_ENOMEM;
    }
    *out = store;
    return 0;
}

void cuda_store_close(struct store *store)
{
    if (!store)
        return;
    cuda_use(store->device);
    for (cudaEvent_t event : store->done)
        if (event)
            cudaEventDestroy(event);
    gpu_release(&store->memory);
    mem_free(store->memories);
    mem_free(store->caches);
    mem_free(store->slots);
    mem_free(store->ended);
    mem_free(store->hypotheses);
    mem_free(store);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static int longest(const struct store *store, int (*of)(const struct store *, const struct slot *))
{
    int most = 1;
    for (size_t i = 0; i < store->shape.n_slots; i++) {
        int length = store->slots[i].is_running ? of(store, &store->slots[i]) : 0;
        most = length > most ? length : most;
    }
    return most;
}

static int source_of(const struct store *, const struct slot *slot)
{
    return slot->source_length;
}

/* In the step that is launched now. */
static int path_of(const struct store *store, const struct slot *slot)
{
    int64_t steps = store->n_steps - slot->first_step + 1;
    return steps <= slot->max_length ? (int)steps : slot->max_length + 1;
}

int store_longest_source(const struct store *store)
{
    return longest(store, source_of);
}

int store_longest_path(const struct store *store)
{
    return longest(store, path_of);
}

/* ---- What the host says ---------------------------------------------------------------------- */

/* Tables are kept from sentence to sentence: most have the same penalty. A whole one is filled at
 * once, after what may still be on its way from there. */
static void send_penalties(struct stream *stream, struct store *store, size_t slot, float penalty)
{
    struct slot *of = &store->slots[slot];
    size_t n = store->shape.positions + 1;
    double *told = store->told_penalties + slot * n;
    if (of->n_penalties == n && of->penalty == penalty)
        return;
    if (of->n_penalties > 0)
        cudaStreamSynchronize(stream->cuda);
    search_fill_penalties(penalty, 0, n, told);
    cudaMemcpyAsync(store->penalties + slot * n, told, n * sizeof(double), cudaMemcpyHostToDevice,
                    stream->cuda);
    of->penalty = penalty;
    of->n_penalties = n;
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
        put_tokens(page, &store->shape.search.end_token, 1, first + (int)entry->n_source);
        page->table.places[first + (int)entry->n_source] = (int32_t)entry->n_source;
        page->table.entrants[i] = {(int32_t)entry->slot, (int32_t)entry->n_source + 1,
                                   entry->is_aligned, entry->decoding};
        send_penalties(stream, store, entry->slot, entry->decoding.length_penalty);
        note_entry(store, entry);
    }
    rows_send(rows, page, stream->cuda);
    begin_searches(stream, rows, store);
}

void cuda_force(struct stream *stream, struct rows *rows, struct store *, size_t n,
                const struct forced *forced)
{
    cuda_use(stream->device);
    struct row_page *page = rows_page(rows);
    rows_clear(rows, page, ROWS_TARGET);
    for (size_t i = 0; i < n; i++) {
        int first = rows->most_rows;
        rows_add(rows, page, forced[i].slot, forced[i].n);
        put_tokens(page, forced[i].tokens, forced[i].n, first);
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
    body(user);
    if (rows->has_advanced)
        cudaEventRecord(store->done[store->n_steps++ % SEARCH_PAGES], stream->cuda);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void cuda_search_begin(struct stream *stream, struct rows *rows, struct store *store)
{
    const struct row_table *table = &rows->table;
    cuda_use(stream->device);
    rows->kind = ROWS_STEP;
    rows->most_rows = rows->most_groups = rows->most_group_rows = 0;
    for (size_t i = 0; i < store->shape.n_slots; i++) {
        const struct slot *slot = &store->slots[i];
        int beam = slot->is_running ? slot->beam_size : 0;
        rows->most_rows += beam;
        rows->most_groups += beam > 0;
        rows->most_group_rows = beam > rows->most_group_rows ? beam : rows->most_group_rows;
    }
    place_task task = {store->slots_shape, store->searches,
                       table->n_rows,      table->n_groups,
                       table->slots,       rows->beams,
                       table->ids,         table->places,
                       rows->lengths,      rows->path_rows,
                       rows->state_before, rows->state_after,
                       table->groups,      {store->pages, store->step}};
    place_launch(stream->cuda, task);
}

static bool is_any_aligned(const struct store *store)
{
    for (size_t i = 0; i < store->shape.n_slots; i++)
        if (store->slots[i].is_running && store->slots[i].is_aligned)
            return true;
    return false;
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
                   layer < shape->first_aligned + shape->n_aligned && is_any_aligned(store);
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
    if (is_any_aligned(store) && rows->most_rows > 0)
        align(stream, rows, store);
    advance_launch(stream->cuda, advance_of(rows, store));
}

void cuda_search_force(struct stream *stream, struct store *store, size_t slot, int32_t token)
{
    force_task task = {advance_of(NULL, store), (int32_t)slot, token};
    force_launch(stream->cuda, task);
    store->n_steps++; /* hypotheses are one longer */
    store->n_polled++;
}

/* ---- What has come of them ------------------------------------------------------------------- */

static int64_t now_us()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* 0, cudaErrorNotReady: it takes too long; or what went wrong. */
static cudaError_t wait_for(cudaEvent_t event)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t start = now_us();
    for (;;) {
        cudaError_t error = cudaEventQuery(event);
        int64_t waited = now_us() - start;
        if (error != cudaErrorNotReady || waited > LOST_S * 1000000)
            return error;
        if (waited > SPIN_US)
            nanosleep(&nap, NULL);
    }
}

static struct ended *put_ended(struct store *store, size_t slot, struct ended *ended)
{
    size_t beam = store->shape.max_beam, t = store->shape.positions;
    const struct slot_end *end = &store->ends[slot];
    struct ended_hypothesis *hypotheses = store->hypotheses + slot * beam;
    int wanted = store->slots[slot].n_hypotheses;
    size_t n = (size_t)(end->n_hypotheses < wanted ? end->n_hypotheses : wanted);
    for (size_t i = 0; i < n; i++) {
        size_t tokens = (slot * beam + i) * t;
        hypotheses[i].tokens = store->tokens + tokens;
        hypotheses[i].n_tokens = (size_t)end->n_tokens[i];
        hypotheses[i].score = end->score[i];
        hypotheses[i].alignment = store->slots[slot].is_aligned ? store->alignments + tokens : NULL;
    }
    *ended = {slot, n, hypotheses};
    return ended + 1;
}

/* Reads the page of a step that is done. */
static void read_step(struct store *store, int64_t step, struct progress *progress)
{
    size_t n = store->shape.n_slots;
    const int32_t *page = store->pages + (size_t)(step % SEARCH_PAGES) * (1 + n);
    struct ended *ended = store->ended + progress->n_ended;
    progress->n_steps++;
    progress->n_rows += (size_t)page[0];
    for (size_t slot = 0; slot < n; slot++) {
        struct slot *of = &store->slots[slot];
        if (!page[1 + slot] || !of->is_running || of->first_step > step)
            continue;
        of->is_running = false;
        ended = put_ended(store, slot, ended);
    }
    progress->n_ended = (size_t)(ended - store->ended);
}

static int tell_loss(const struct store *store, cudaError_t error, struct acre_err *err)
{
    if (error == cudaErrorNotReady) {
        gpu_abandon();
        return err_set(err, ACRE_EDEVICE, "%s: a step has taken more than %d s",
                       store->device->name, LOST_S);
    }
    return err_set(err, ACRE_EDEVICE, "%s: %s: %s", store->device->name, cudaGetErrorName(error),
                   cudaGetErrorString(error));
}

int cuda_poll(struct stream *stream, struct store *store, int most_behind,
              struct progress *progress, struct acre_err *err)
{
    cuda_use(stream->device);
    *progress = {};
    progress->ended = store->ended;
    cudaError_t error = cudaPeekAtLastError();
    while (error == cudaSuccess && store->n_steps - store->n_polled > most_behind) {
        error = wait_for(store->done[store->n_polled % SEARCH_PAGES]);
        if (error == cudaSuccess)
            read_step(store, store->n_polled++, progress);
    }
    return error == cudaSuccess ? 0 : tell_loss(store, error, err);
}
