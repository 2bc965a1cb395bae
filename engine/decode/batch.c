/* The happy path: sentences are admitted to free slots, steps run, and in some step's progress a
 * slot has ended; its results are copied, and the slot is free. A device that works behind the
 * host's back tells that a step or more later.
 *
 * What can go wrong: memory for results is missing, or the model's numbers overflow, so that a
 * score is none, which the sentence's status says; or the device is lost, which the step returns:
 * nothing is known then of those that run. */
#include "decode/batch.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"

struct batch {
    struct workspace workspace;
    size_t max_sentences;
    size_t n_running;

    struct arena arena;         /* all of the following */
    struct sentence **slots;    /* [max_sentences]; NULL: free */
    struct sentence **finished; /* [max_sentences] */
    struct entry *entries;      /* [max_sentences] */
};

/* ---- Opening --------------------------------------------------------------------------------- */

static void place(struct batch *batch)
{
    struct arena *arena = &batch->arena;
    batch->slots = arena_take(arena, batch->max_sentences, sizeof(struct sentence *));
    batch->finished = arena_take(arena, batch->max_sentences, sizeof(struct sentence *));
    batch->entries = arena_take(arena, batch->max_sentences, sizeof(*batch->entries));
}

static int open_parts(struct batch *batch, const struct network *network,
                      const struct search_model *model, const struct batch_limits *limits)
{
    const struct workspace_limits workspace = {
        .n_slots = limits->max_sentences, .max_beam = limits->max_beam_size, .search = *model};
    place(batch);
    int status = arena_open(&batch->arena);
    if (status != 0)
        return status;
    place(batch);
    return workspace_open(network, &workspace, &batch->workspace);
}

int batch_open(const struct network *network, const struct search_model *model,
               const struct batch_limits *limits, struct batch **out, struct acre_err *err)
{
    struct batch *batch;
    if (network->positions * limits->max_beam_size > INT32_MAX / limits->max_sentences)
        return err_set(err, ACRE_EOPTION,
                       "batch_size %zu and max_beam_size %zu are too large for a model of %zu "
                       "positions",
                       limits->max_sentences, limits->max_beam_size, network->positions);
    batch = mem_calloc(1, sizeof(*batch));
    if (!batch)
        return err_set(err, ACRE_ENOMEM, "no memory for a batch");
    batch->max_sentences = limits->max_sentences;
    int status = open_parts(batch, network, model, limits);
    if (status != 0)
        batch_close(batch);
    if (status == ACRE_EUNSUPPORTED)
        return err_set(err, status,
                       "config.json: expected fewer positions, narrower heads of attention or a "
                       "smaller vocabulary for %s, found %zu positions",
                       network->device->name, network->positions);
    if (status == ACRE_EDEVICE)
        return err_set(err, status, "%s: %s", network->device->name, acre_status_text(status));
    if (status != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for batches of %zu sentences and beam %zu",
                       limits->max_sentences, limits->max_beam_size);
    *out = batch;
    return 0;
}

void batch_close(struct batch *batch)
{
    if (!batch)
        return;
    workspace_close(&batch->workspace);
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

size_t batch_max_load(const struct batch *batch, size_t beam)
{
    return workspace_max_load(&batch->workspace, beam);
}

/* ---- Entering and leaving -------------------------------------------------------------------- */

static size_t find_slot(const struct batch *batch, const struct sentence *sentence)
{
    size_t slot = 0;
    while (batch->slots[slot] != sentence)
        slot++;
    return slot;
}

void batch_admit(struct batch *batch, struct sentence *const *sentences, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        size_t slot = find_slot(batch, NULL);
        batch->slots[slot] = sentences[i];
        batch->entries[i] = (struct entry){
            .slot = slot,
            .n_source = sentences[i]->n_source,
            .source = sentences[i]->source,
            .last = sentences[i]->last,
            .decoding = sentences[i]->decoding,
            .prefix = sentences[i]->prefix,
            .translation = sentences[i]->translation,
            .is_aligned = sentences[i]->is_aligned,
            .first_item = sentences[i]->first_item,
            .end_item = sentences[i]->end_item,
        };
    }
    batch->n_running += n;
    workspace_enter(&batch->workspace, n, batch->entries);
}

static void release(struct batch *batch, size_t slot)
{
    batch->slots[slot] = NULL;
    batch->n_running--;
}

void batch_drop(struct batch *batch, const struct sentence *sentence)
{
    size_t slot = find_slot(batch, sentence);
    workspace_drop(&batch->workspace, slot);
    release(batch, slot);
}

/* ---- Stepping -------------------------------------------------------------------------------- */

static const int32_t *copy(const int32_t *from, size_t n, int32_t **to)
{
    int32_t *place = *to;
    if (!from)
        return NULL;
    memcpy(place, from, n * sizeof(*from));
    *to += n;
    return place;
}

/* The device's results become the sentence's own. */
static int take_results(struct sentence *sentence, const struct ended *ended)
{
    size_t n = ended->n_hypotheses, n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        if (isnan(ended->hypotheses[i].score))
            return ACRE_EMODEL;
    for (size_t i = 0; i < n; i++)
        n_tokens += (ended->hypotheses[i].alignment ? 2 : 1) * ended->hypotheses[i].n_tokens;
    sentence->hypotheses = mem_alloc(n * sizeof(*sentence->hypotheses));
    sentence->tokens = mem_alloc(n_tokens * sizeof(*sentence->tokens));
    if (!sentence->hypotheses || !sentence->tokens)
        return ACRE_ENOMEM;
    int32_t *place = sentence->tokens;
    for (size_t i = 0; i < n; i++) {
        const struct ended_hypothesis *from = &ended->hypotheses[i];
        struct sentence_hypothesis *to = &sentence->hypotheses[i];
        *to = (struct sentence_hypothesis){.n_tokens = from->n_tokens, .score = from->score};
        to->tokens = copy(from->tokens, from->n_tokens, &place);
        to->alignment = copy(from->alignment, from->n_tokens, &place);
    }
    sentence->n_hypotheses = n;
    return 0;
}

int batch_step(struct batch *batch, struct batch_step *step, struct acre_err *err)
{
    struct progress progress;
    *step = (struct batch_step){.finished = batch->finished};
    if (batch->n_running == 0)
        return 0;
    workspace_step(&batch->workspace);
    int status = workspace_poll(&batch->workspace, &progress, err);
    if (status != 0)
        return status;
    for (size_t i = 0; i < progress.n_ended; i++) {
        size_t slot = progress.ended[i].slot;
        struct sentence *sentence = batch->slots[slot];
        sentence->status = take_results(sentence, &progress.ended[i]);
        step->finished[step->n_finished++] = sentence;
        release(batch, slot);
    }
    step->n_steps = progress.n_steps;
    step->n_rows = progress.n_rows;
    return 0;
}
