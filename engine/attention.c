/* What a translation attends to: the cross-attention of its best hypothesis, decoded once more
 * token by token, on the caller's thread.
 *
 * What can go wrong: there is no memory, the device has no room for all areas of so long a memory,
 * or it is lost, which is looked for after every token: what a lost one shows is nothing, and the
 * scheduler hears of it. */
#include <stdlib.h>
#include <string.h>

#include "align.h"
#include "base/error.h"
#include "base/mem.h"
#include "job.h"

/* The areas of one place (layer, head, target token) stand together; places come in order. */
struct record {
    struct acre_attention attention; /* first: what callers see */
    struct acre_area *areas;         /* owned */
    size_t n_areas, capacity;
    size_t *first;             /* owned, [places + 1] */
    const char **tokens;       /* owned, [n_source + n_target] */
    struct acre_range *ranges; /* owned, likewise */
    float least;
    bool has_failed; /* no memory */
};

static size_t n_places(const struct acre_attention *attention)
{
    return attention->n_layers * attention->n_heads * attention->n_target;
}

static size_t place_of(const struct acre_attention *attention, size_t layer, size_t head, size_t t)
{
    return (layer * attention->n_heads + head) * attention->n_target + t;
}

/* ---- Listening ------------------------------------------------------------------------------- */

/* Tokens come one after the other, places by layer and head first: an area notes its place until
 * all are sorted. */
struct noted {
    struct acre_area area;
    size_t place;
};

struct listening {
    struct record *record;
    size_t t;            /* the target token at work */
    struct noted *noted; /* owned */
    size_t n, capacity;
};

static void note(struct listening *listening, size_t place, const struct area_walk *walk,
                 size_t columns, size_t last, float weight)
{
    size_t first = last - (size_t)(walk->height - 1) * columns - (size_t)(walk->width - 1);
    if (mem_reserve(&listening->noted, &listening->capacity, listening->n + 1,
                    sizeof(*listening->noted)) != 0) {
        listening->record->has_failed = true;
        return;
    }
    listening->noted[listening->n++] =
        (struct noted){.area = {(int)first, walk->width, walk->height, weight}, .place = place};
}

static void listen(void *user, const struct attention *attention, size_t layer, size_t head,
                   const float *weights)
{
    struct listening *listening = user;
    const struct acre_attention *seen = &listening->record->attention;
    size_t l = seen->n_source, place = place_of(seen, layer, head, listening->t);
    struct area_walk walk = {.rule = &attention->area};
    while (area_next(&walk)) {
        const float *plane = weights + walk.plane * l;
        for (size_t i = 0; i < l; i++)
            if (plane[i] >= listening->record->least && area_exists(&walk, l, i))
                note(listening, place, &walk, (size_t)seen->n_columns, i, plane[i]);
    }
}

static int by_place_and_weight(const void *a, const void *b)
{
    const struct noted *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if (x->area.weight != y->area.weight)
        return x->area.weight > y->area.weight ? -1 : 1;
    if (x->area.first != y->area.first)
        return x->area.first < y->area.first ? -1 : 1;
    return x->area.width - y->area.width;
}

static int keep_notes(struct record *record, struct listening *listening)
{
    size_t places = n_places(&record->attention), next = 0;
    record->areas = mem_alloc(listening->n * sizeof(*record->areas));
    record->first = mem_alloc((places + 1) * sizeof(*record->first));
    if (record->has_failed || !record->areas || !record->first)
        return ACRE_ENOMEM;
    if (listening->n > 0)
        qsort(listening->noted, listening->n, sizeof(*listening->noted), by_place_and_weight);
    for (size_t i = 0; i < listening->n; i++) {
        record->areas[i] = listening->noted[i].area;
        for (; next <= listening->noted[i].place; next++)
            record->first[next] = i;
    }
    for (; next <= places; next++)
        record->first[next] = listening->n;
    record->attention.areas = record->areas;
    record->attention.first = record->first;
    return 0;
}

/* ---- The pass -------------------------------------------------------------------------------- */

/* The tokens, and what they are computed in. */
struct replay {
    struct workspace workspace;
    float *weights;           /* owned */
    int32_t *source, *target; /* owned, one block; target begins with the start token */
    size_t device;
};

static void replay_fini(struct replay *replay)
{
    workspace_close(&replay->workspace);
    mem_free(replay->weights);
    mem_free(replay->source);
}

/* One that is well, if there is one. */
static size_t device_of(const struct acre_engine *engine)
{
    size_t device = 0;
    while (device + 1 < engine->devices.n && !scheduler_device_is_well(engine->scheduler, device))
        device++;
    return device;
}

static int replay_init(struct replay *replay, const struct acre_model *model, size_t n_source,
                       size_t n_target, struct acre_err *err)
{
    const struct workspace_limits limits = {
        .n_slots = 1,
        .max_beam = 1,
        .max_rows = n_source,
        .is_shown = true,
        .search = {model->constraint, model->config.start_token, model->config.end_token, false},
    };
    replay->device = device_of(model->engine);
    const struct network *network = model->networks[replay->device];
    if (!network) /* the device was lost when the model was opened */
        return scheduler_health(model->engine->scheduler, err);
    replay->weights =
        mem_calloc(network_weights_floats(network, n_source), sizeof(*replay->weights));
    replay->source = mem_alloc((n_source + n_target) * sizeof(*replay->source));
    if (!replay->weights || !replay->source)
        return ACRE_ENOMEM;
    replay->target = replay->source + n_source;
    int status = workspace_open(network, &limits, &replay->workspace);
    if (status == ACRE_EUNSUPPORTED)
        err_set(err, status,
                "config.json: expected fewer positions to show attention on %s, found %zu",
                network->device->name, network->positions);
    if (status == ACRE_EDEVICE)
        err_set(err, status, "%s: %s", network->device->name, acre_status_text(status));
    return status;
}

/* Reads target token after target token; the last one has nothing to go on to. 0, ACRE_EDEVICE. */
static int run(struct replay *replay, size_t n_source, size_t n_target, struct listening *listening,
               struct acre_err *err)
{
    struct workspace *workspace = &replay->workspace;
    const struct device_ops *ops = workspace->network->device->ops;
    struct attention_listener listener = {listen, listening, replay->weights};
    struct progress none;
    int status = 0;
    struct entry entry = {
        .n_source = n_source - 1, .source = replay->source, .last = replay->source[n_source - 1]};
    entry.decoding = (struct acre_decoding){
        .beam_size = 1, .num_hypotheses = 1, .max_length = (int)n_target - 1, .length_penalty = 1};
    workspace_enter(workspace, 1, &entry);
    for (listening->t = 0; status == 0 && listening->t < n_target; listening->t++) {
        workspace_show_step(workspace, &listener);
        if (listening->t + 1 < n_target)
            ops->search_force(workspace->stream, workspace->store, 0,
                              replay->target[listening->t + 1]);
        status = ops->poll(workspace->stream, workspace->store, 0, &none, err);
    }
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int fill_tokens(struct record *record, const struct acre_model *model,
                       const struct replay *replay)
{
    struct acre_attention *attention = &record->attention;
    size_t n_source = attention->n_source, n_target = attention->n_target;
    const char **tokens = mem_alloc((n_source + n_target) * sizeof(*tokens));
    if (!tokens)
        return ACRE_ENOMEM;
    record->tokens = tokens;
    for (size_t i = 0; i < n_source; i++)
        tokens[i] = tokenizer_token(model->tokenizer, replay->source[i]);
    for (size_t i = 0; i + 1 < n_target; i++)
        tokens[n_source + i] = tokenizer_token(model->tokenizer, replay->target[i + 1]);
    tokens[n_source + n_target - 1] = tokenizer_token(model->tokenizer, model->config.end_token);
    attention->source = tokens;
    attention->target = tokens + n_source;
    return 0;
}

/* End tokens stand nowhere. */
static int fill_ranges(struct record *record, const struct acre_job *job, size_t number,
                       struct acre_err *err)
{
    struct acre_attention *attention = &record->attention;
    struct aligned_sentence aligned;
    record->ranges = mem_calloc(attention->n_source + attention->n_target, sizeof(*record->ranges));
    if (!record->ranges)
        return ACRE_ENOMEM;
    attention->source_ranges = record->ranges;
    attention->target_ranges = record->ranges + attention->n_source;
    job_aligned(job, number, &aligned);
    return align_ranges(job_model(job)->tokenizer, &aligned, record->ranges,
                        record->ranges + attention->n_source, err);
}

static void put_ids(struct replay *replay, const struct acre_model *model,
                    const struct sentence *sentence)
{
    const struct sentence_hypothesis *best = &sentence->hypotheses[0];
    memcpy(replay->source, sentence->source, sentence->n_source * sizeof(*replay->source));
    replay->source[sentence->n_source] = sentence->last ? sentence->last : model->config.end_token;
    replay->target[0] = model->config.start_token;
    memcpy(replay->target + 1, best->tokens, best->n_tokens * sizeof(*best->tokens));
}

static struct record *new_record(const struct acre_model *model, const struct sentence *sentence,
                                 float least)
{
    const struct config *config = &model->config;
    struct record *record = mem_calloc(1, sizeof(*record));
    if (!record)
        return NULL;
    record->least = least;
    record->attention.n_layers = (size_t)config->decoder_cross.n_layers;
    record->attention.n_heads = (size_t)config->decoder_heads;
    record->attention.n_source = sentence->n_source + 1;
    record->attention.n_target = sentence->hypotheses[0].n_tokens + 1;
    record->attention.n_columns =
        record->attention.n_source / (size_t)config->decoder_cross.memory_height;
    return record;
}

int acre_attention_open(const struct acre_job *job, size_t number, float least,
                        struct acre_attention **out, struct acre_err *err)
{
    const struct acre_model *model = job_model(job);
    const struct sentence *sentence = job_sentence(job, number);
    struct acre_err unwanted = {.code = 0};
    *out = NULL;
    err = err ? err : &unwanted; /* the scheduler wants to know, too, why a device is lost */
    if (!sentence)
        return err_set(err, ACRE_EOPTION, "sentence: expected one of a translated text, found %zu",
                       number);
    struct record *record = new_record(model, sentence, least);
    struct listening listening = {.record = record};
    struct replay replay = {.weights = NULL};
    int status = record ? replay_init(&replay, model, record->attention.n_source,
                                      record->attention.n_target, err)
                        : ACRE_ENOMEM;
    if (status == 0) {
        put_ids(&replay, model, sentence);
        status =
            run(&replay, record->attention.n_source, record->attention.n_target, &listening, err);
    }
    if (status == 0)
        status = keep_notes(record, &listening);
    if (status == 0)
        status = fill_tokens(record, model, &replay);
    if (status == 0)
        status = fill_ranges(record, job, number, err);
    if (status == ACRE_ENOMEM)
        err_set(err, status, "no memory for the attention of a sentence");
    if (status == ACRE_EDEVICE)
        scheduler_lose_device(model->engine->scheduler, replay.device, err);
    mem_free(listening.noted);
    replay_fini(&replay);
    if (status != 0) {
        acre_attention_close(record ? &record->attention : NULL);
        return status;
    }
    *out = &record->attention;
    return 0;
}

void acre_attention_close(struct acre_attention *attention)
{
    struct record *record = (struct record *)attention;
    if (!record)
        return;
    mem_free(record->areas);
    mem_free(record->first);
    mem_free(record->tokens);
    mem_free(record->ranges);
    mem_free(record);
}
