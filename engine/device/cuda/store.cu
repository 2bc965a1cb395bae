#include "device/cuda/store.h"

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
    gpu_take(memory, &store->first_items, n, GPU_ZEROED);
    gpu_take(memory, &store->end_items, n, GPU_ZEROED);
    gpu_take(memory, &store->alignment, n * t * beam);
    gpu_take(memory, &store->step, 1, GPU_ZEROED);
    gpu_take(memory, &store->told_penalties, 2 * n * (t + 1), GPU_PINNED);
    gpu_take(memory, &store->told_nodes, 2 * n * t, GPU_PINNED);
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
    for (cudaEvent_t &event : store->done)
        gpu_note(&store->memory, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    bool is_there =
        store->memories && store->caches && store->slots && store->ended && store->hypotheses;
    return is_there ? 0 : ACRE_ENOMEM;
}

int cuda_store_open(struct device *device, const struct store_shape *shape, struct store **out)
{
    if (gpu_is_abandoned(cuda_device_of(device)->ordinal))
        return ACRE_EDEVICE; /* to ask it for anything could take for ever */
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
        status = cuda_status(store->memory.error);
    }
    if (status != 0) {
        cuda_store_close(store);
        return status;
    }
    *out = store;
    return 0;
}

/* A GPU hides the way to its memory behind other rows. */
size_t cuda_store_token_bytes(const struct store *store, size_t beam)
{
    (void)store;
    (void)beam;
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

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* How long its hypotheses may be in the step that is launched now. */
static int path_of(const struct store *store, const struct slot *slot)
{
    int64_t steps = store->n_steps - slot->first_step + 1;
    return steps <= slot->max_length ? (int)steps : slot->max_length + 1;
}

void store_bound_step(const struct store *store, struct rows *rows)
{
    *static_cast<struct pass_bounds *>(rows) = {};
    rows->kind = ROWS_STEP;
    rows->longest_source = rows->longest_path = 1;
    for (size_t i = 0; i < store->shape.n_slots; i++) {
        const struct slot *slot = &store->slots[i];
        if (!slot->is_running)
            continue;
        rows->most_rows += slot->beam_size;
        rows->most_groups++;
        rows->most_group_rows = larger(rows->most_group_rows, slot->beam_size);
        rows->longest_source = larger(rows->longest_source, slot->source_length);
        rows->longest_path = larger(rows->longest_path, path_of(store, slot));
        rows->is_aligned |= slot->is_aligned;
    }
    rows_widen(rows);
}
