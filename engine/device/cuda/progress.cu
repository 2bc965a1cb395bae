/* What has come of steps: the host waits for one by its event, and reads its page in pinned memory.
 *
 * What can go wrong: a call or a kernel has failed, or a step does not end within LOST_S. All of
 * this the next poll tells, and every one after it. */
#include "device/cuda/store.h"
#include "device/cuda/wait.h"

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
    if (error == cudaErrorNotReady)
        return err_set(err, ACRE_EDEVICE, "%s: a step has taken more than %d s",
                       store->device->name, LOST_S);
    return err_set(err, ACRE_EDEVICE, "%s: %s: %s", store->device->name, cudaGetErrorName(error),
                   cudaGetErrorString(error));
}

int cuda_poll(struct stream *stream, struct store *store, int most_behind,
              struct progress *progress, struct acre_err *err)
{
    cuda_use(stream->device);
    *progress = {};
    progress->ended = store->ended;
    int device = stream->device->ordinal;
    cudaError_t error = cudaPeekAtLastError();
    if (error == cudaSuccess && gpu_is_abandoned(device))
        error = cudaErrorNotReady;
    while (error == cudaSuccess && store->n_steps - store->n_polled > most_behind) {
        error = gpu_wait(device, store->done[store->n_polled % SEARCH_PAGES]);
        if (error == cudaSuccess)
            read_step(store, store->n_polled++, progress);
    }
    return error == cudaSuccess ? 0 : tell_loss(store, error, err);
}
