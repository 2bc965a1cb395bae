#include "decode/batch.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "decode/search.h"

enum {
    ADMIT_ROWS = 1024,         /* bounds how long newcomers keep the running sentences waiting */
    KEPT_FLOATS = 1024 * 1024, /* what a free slot may keep of the pages its sentence has touched */
};

struct slot {
    struct sentence *sentence; /* NULL: free */
    struct search search;
    struct search_node *nodes; /* [positions * K] of the largest search */
    float *memory;             /* encoder memory of all decoder layers */
    size_t source_length;      /* end token included */
    int32_t *paths[2];         /* [K][positions] cache rows: now, and being built */
};

struct batch {
    struct batch_model model;
    size_t max_sentences, max_beam, positions, cache_steps;
    struct stream *stream;
    struct workspace workspace;
    float *cache, *memories; /* on the device */
    size_t cache_floats, memory_floats;
    size_t n_running;

    struct arena arena; /* all of the following */
    struct slot *slots; /* [max_sentences] */
    struct search_node *nodes;
    int32_t *paths;

    /* of the pass that is being put together */
    int32_t *ids, *positions_of; /* [max_rows] */
    size_t *first;               /* [max_sentences + 1] */
    float **newcomer_memories;   /* [max_sentences] */
    const int32_t **row_paths;   /* [max_rows] */
    int32_t *lengths;            /* [max_rows] */
    struct memory_rows *groups;  /* [max_sentences] */
    struct logit_scan *scans;    /* [max_rows] */
    struct candidate *best;      /* [max_rows][2K] */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static size_t max_rows(const struct batch *batch)
{
    size_t step = batch->max_sentences * batch->max_beam;
    size_t admit = batch->positions > ADMIT_ROWS ? batch->positions : ADMIT_ROWS;
    return step > admit ? step : admit;
}

static size_t slot_nodes(const struct batch *batch)
{
    return batch->positions * batch->max_beam;
}

static size_t slot_rows(const struct batch *batch)
{
    return batch->cache_steps * batch->max_beam;
}

static void place_host(struct batch *batch)
{
    struct arena *arena = &batch->arena;
    size_t n = batch->max_sentences, rows = max_rows(batch), step = n * batch->max_beam;
    batch->slots = arena_take(arena, n, sizeof(*batch->slots));
    batch->nodes = arena_take(arena, n * slot_nodes(batch), sizeof(*batch->nodes));
    batch->paths = arena_take(arena, 2 * n * slot_nodes(batch), sizeof(*batch->paths));
    batch->ids = arena_take(arena, rows, sizeof(*batch->ids));
    batch->positions_of = arena_take(arena, rows, sizeof(*batch->positions_of));
    batch->first = arena_take(arena, n + 1, sizeof(*batch->first));
    batch->newcomer_memories = arena_take(arena, n, sizeof(*batch->newcomer_memories));
    batch->row_paths = arena_take(arena, step, sizeof(*batch->row_paths));
    batch->lengths = arena_take(arena, step, sizeof(*batch->lengths));
    batch->groups = arena_take(arena, n, sizeof(*batch->groups));
    batch->scans = arena_take(arena, step, sizeof(*batch->scans));
    batch->best = arena_take(arena, step * 2 * batch->max_beam, sizeof(*batch->best));
}

static int alloc_host(struct batch *batch)
{
    place_host(batch);
    int status = arena_open(&batch->arena);
    if (status == 0)
        place_host(batch);
    return status;
}

static int alloc_device(struct batch *batch)
{
    const struct network *network = batch->model.network;
    struct device *device = batch->model.device;
    size_t slots = batch->max_sentences, rows = slots * slot_rows(batch);
    batch->memory_floats = slots * network_memory_floats(network, batch->positions);
    batch->cache_floats = rows * network_cache_floats(network);
    batch->memories = device->ops->alloc(device, batch->memory_floats);
    batch->cache = device->ops->alloc(device, batch->cache_floats);
    struct stream_limits limits = network_stream_limits(network);
    if (!batch->memories || !batch->cache ||
        network_workspace_init(network, max_rows(batch), &batch->workspace) != 0)
        return ACRE_ENOMEM;
    return device->ops->stream_open(device, &limits, &batch->stream);
}

static void place_slots(struct batch *batch)
{
    size_t nodes = slot_nodes(batch);
    size_t memory = network_memory_floats(batch->model.network, batch->positions);
    for (size_t i = 0; i < batch->max_sentences; i++) {
        struct slot *slot = &batch->slots[i];
        slot->nodes = batch->nodes + i * nodes;
        slot->memory = batch->memories + i * memory;
        slot->paths[0] = batch->paths + 2 * i * nodes;
        slot->paths[1] = slot->paths[0] + nodes;
    }
}

int batch_open(const struct batch_model *model, const struct batch_limits *limits,
               struct batch **out, struct acre_err *err)
{
    struct batch *batch = mem_calloc(1, sizeof(*batch));
    if (!batch)
        return err_set(err, ACRE_ENOMEM, "no memory for a batch");
    batch->model = *model;
    batch->max_sentences = limits->max_sentences;
    batch->max_beam = limits->max_beam_size;
    batch->positions = network_positions(model->network);
    batch->cache_steps = network_cache_steps(model->network);
    if (slot_nodes(batch) > INT32_MAX / batch->max_sentences) {
        mem_free(batch);
        return err_set(err, ACRE_EOPTION,
                       "batch_size %zu and max_beam_size %zu are too large for a model of %zu "
                       "positions",
                       limits->max_sentences, limits->max_beam_size,
                       network_positions(model->network));
    }
    if (alloc_host(batch) != 0 || alloc_device(batch) != 0) {
        batch_close(batch);
        return err_set(err, ACRE_ENOMEM, "no memory for batches of %zu sentences and beam %zu",
                       limits->max_sentences, limits->max_beam_size);
    }
    place_slots(batch);
    *out = batch;
    return 0;
}

void batch_close(struct batch *batch)
{
    if (!batch)
        return;
    struct device *device = batch->model.device;
    device->ops->stream_close(batch->stream);
    network_workspace_fini(batch->model.network, &batch->workspace);
    device->ops->free(device, batch->cache, batch->cache_floats);
    device->ops->free(device, batch->memories, batch->memory_floats);
    arena_close(&batch->arena);
    mem_free(batch);
}

size_t batch_running(const struct batch *batch)
{
    return batch->n_running;
}

size_t batch_admit_rows(const struct batch *batch)
{
    return batch->workspace.max_rows;
}

/* ---- Admitting ------------------------------------------------------------------------------- */

/* The cache row of node (t, b). */
static int32_t cache_row(const struct batch *batch, const struct slot *slot, int t, int b)
{
    size_t first = (size_t)(slot - batch->slots) * slot_rows(batch);
    size_t step = (size_t)t % batch->cache_steps;
    return (int32_t)(first + step * (size_t)slot->search.decoding.beam_size + (size_t)b);
}

static int32_t *path_of(const struct batch *batch, const struct slot *slot, int which, int b)
{
    return slot->paths[which] + (size_t)b * batch->positions;
}

static struct slot *take_slot(struct batch *batch, struct sentence *sentence)
{
    struct slot *slot = batch->slots;
    while (slot->sentence)
        slot++;
    slot->sentence = sentence;
    slot->source_length = sentence->n_source + 1;
    search_init(&slot->search, &sentence->decoding, batch->model.constraint,
                batch->model.start_token, batch->model.end_token, batch->model.renormalize,
                slot->nodes);
    path_of(batch, slot, 0, 0)[0] = cache_row(batch, slot, 0, 0);
    batch->n_running++;
    return slot;
}

/* Appends the sentence's tokens and the end token to the rows of the pass. */
static size_t put_source(struct batch *batch, const struct sentence *sentence, size_t row)
{
    for (size_t i = 0; i <= sentence->n_source; i++, row++) {
        batch->ids[row] = i < sentence->n_source ? sentence->source[i] : batch->model.end_token;
        batch->positions_of[row] = (int32_t)i;
    }
    return row;
}

void batch_admit(struct batch *batch, struct sentence *const *sentences, size_t n)
{
    const struct network *network = batch->model.network;
    size_t row = 0;
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        batch->newcomer_memories[i] = take_slot(batch, sentences[i])->memory;
        batch->first[i] = row;
        row = put_source(batch, sentences[i], row);
    }
    batch->first[n] = row;
    network_encode(network, batch->stream, &batch->workspace, n, batch->first, batch->ids,
                   batch->positions_of);
    network_store_memory(network, batch->stream, &batch->workspace, n, batch->first,
                         batch->newcomer_memories);
}

/* ---- Stepping -------------------------------------------------------------------------------- */

static void put_slot(struct batch *batch, struct slot *slot, size_t group, size_t row)
{
    const struct search *search = &slot->search;
    batch->groups[group] = (struct memory_rows){
        .memory = slot->memory,
        .length = slot->source_length,
        .first_row = row,
        .n_rows = (size_t)search->n_live,
    };
    for (int b = 0; b < search->n_live; b++, row++) {
        batch->ids[row] = search_at(search, search->t, b)->token;
        batch->positions_of[row] = search->t;
        batch->lengths[row] = search->t + 1;
        batch->row_paths[row] = path_of(batch, slot, 0, b);
        search_scan(search, b, batch->best + row * 2 * batch->max_beam, &batch->scans[row]);
    }
}

/* Returns the number of rows of the step. */
static size_t put_rows(struct batch *batch)
{
    size_t row = 0, group = 0;
    for (size_t i = 0; i < batch->max_sentences; i++) {
        if (!batch->slots[i].sentence)
            continue;
        put_slot(batch, &batch->slots[i], group++, row);
        row += (size_t)batch->slots[i].search.n_live;
    }
    return row;
}

static void run_step(struct batch *batch, size_t n_rows)
{
    struct decoder_step step = {
        .rows = {.n_rows = n_rows, .paths = batch->row_paths, .lengths = batch->lengths},
        .ids = batch->ids,
        .positions = batch->positions_of,
        .n_sentences = batch->n_running,
        .groups = batch->groups,
        .cache = batch->cache,
        .cache_rows = batch->max_sentences * slot_rows(batch),
    };
    const struct network *network = batch->model.network;
    network_step(network, batch->stream, &batch->workspace, &step);
    network_search_output(network, batch->stream, &batch->workspace, n_rows, batch->scans);
}

/* The paths of the new live hypotheses: their parents', and their own row. */
static void extend_paths(struct batch *batch, struct slot *slot)
{
    const struct search *search = &slot->search;
    size_t length = (size_t)search->t;
    for (int b = 0; b < search->n_live; b++) {
        int32_t *path = path_of(batch, slot, 1, b);
        int parent = search_at(search, search->t, b)->parent;
        memcpy(path, path_of(batch, slot, 0, parent), length * sizeof(*path));
        path[length] = cache_row(batch, slot, search->t, b);
    }
    int32_t *swap = slot->paths[0];
    slot->paths[0] = slot->paths[1];
    slot->paths[1] = swap;
}

static int copy_results(const struct search *search, struct sentence *sentence)
{
    size_t n = (size_t)sentence->decoding.n_hypotheses, n_tokens = 0;
    if (n > (size_t)search->n_results)
        n = (size_t)search->n_results;
    for (size_t i = 0; i < n; i++)
        n_tokens += (size_t)search->results[i].n_tokens;
    sentence->hypotheses = mem_alloc(n * sizeof(*sentence->hypotheses));
    sentence->tokens = mem_alloc(n_tokens * sizeof(*sentence->tokens));
    if (!sentence->hypotheses || !sentence->tokens)
        return ACRE_ENOMEM;
    int32_t *tokens = sentence->tokens;
    for (size_t i = 0; i < n; i++) {
        const struct search_result *result = &search->results[i];
        search_tokens(search, result, tokens);
        sentence->hypotheses[i] = (struct sentence_hypothesis){
            .tokens = tokens,
            .n_tokens = (size_t)result->n_tokens,
            .score = result->score,
        };
        tokens += result->n_tokens;
    }
    sentence->n_hypotheses = n;
    return 0;
}

/* A long sentence's pages go back at once: kept in every slot they would add up to gigabytes. */
static void forget_slot(struct batch *batch, const struct slot *slot)
{
    const struct network *network = batch->model.network;
    size_t steps = (size_t)(slot->search.t + 1);
    if (steps > batch->cache_steps)
        steps = batch->cache_steps;
    size_t rows = steps * (size_t)slot->search.decoding.beam_size;
    size_t memory = network_memory_floats(network, slot->source_length);
    if (rows * network_cache_floats(network) + memory <= KEPT_FLOATS)
        return;
    network_forget_rows(network, batch->cache, batch->max_sentences * slot_rows(batch),
                        (size_t)cache_row(batch, slot, 0, 0), rows);
    batch->model.device->ops->forget(batch->model.device, slot->memory, memory);
}

static void release(struct batch *batch, struct slot *slot)
{
    forget_slot(batch, slot);
    slot->sentence = NULL;
    batch->n_running--;
}

size_t batch_step(struct batch *batch, struct sentence **finished)
{
    size_t n_finished = 0, n_rows = put_rows(batch), row = 0;
    if (n_rows == 0)
        return 0;
    run_step(batch, n_rows);
    for (size_t i = 0; i < batch->max_sentences; i++) {
        struct slot *slot = &batch->slots[i];
        if (!slot->sentence)
            continue;
        const struct logit_scan *scans = batch->scans + row;
        row += (size_t)slot->search.n_live;
        if (search_advance(&slot->search, scans)) {
            extend_paths(batch, slot);
            continue;
        }
        slot->sentence->status = copy_results(&slot->search, slot->sentence);
        finished[n_finished++] = slot->sentence;
        release(batch, slot);
    }
    return n_finished;
}

void batch_drop(struct batch *batch, const struct sentence *sentence)
{
    struct slot *slot = batch->slots;
    while (slot->sentence != sentence)
        slot++;
    release(batch, slot);
}
