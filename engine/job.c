/* A job is one submitted text: it is split, its sentences go to the scheduler, each is written as
 * text when it ends, and the worker that finishes the last one joins them and calls `done`. From
 * its queueing until then the job belongs to the scheduler; `n_left` is the only part that several
 * threads touch, and of a job that is taken sentence by sentence `has_ended` and `awaited`.
 * Sentences that the cache has do not go to the scheduler. */
#include "job.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "fallback.h"

/* ---- Ending ---------------------------------------------------------------------------------- */

static void finish(struct acre_job *job)
{
    struct acre_result *result = &job->result;
    result->n_sentences = job->document.n_sentences;
    result->sentences = job->ranges;
    for (size_t s = 0; s < job->document.n_sentences; s++)
        result->n_source_tokens += job->document.sentences[s].source.n;
    result->status = result_fill(job, &result->err);
    if (job->done)
        job->done(job->user);
    else
        waiter_wake(&job->waiter);
}

/* The reader of sentences announces first for which one it waits, and then looks whether that has
 * ended: so one of the two sees the other. */
static void tell_ended(struct acre_job *job, const struct sentence *sentence)
{
    size_t number = (size_t)(sentence - job->sentences);
    if (!job->has_ended)
        return;
    atomic_store(&job->has_ended[number], true);
    if (!sentence->is_cached && atomic_load(&job->awaited) == number)
        job->next(job->user);
}

void job_sentence_finished(struct sentence *sentence)
{
    struct acre_job *job = sentence->job;
    if (fallback_takes(job->model, sentence))
        return;
    struct cache *cache = job->model->engine->cache;
    if (cache && sentence->status == 0 && !sentence->prefix.is_whole)
        cache_put(cache, job->model->serial, sentence);
    result_write(job, sentence);
    tell_ended(job, sentence);
    if (atomic_fetch_sub(&job->n_left, 1) == 1)
        finish(job);
}

/* ---- One sentence after the other ------------------------------------------------------------ */

static int take_sentence(struct acre_job *job, struct acre_sentence *out, struct acre_err *err)
{
    const struct sentence *sentence = &job->sentences[job->n_taken];
    if (sentence->status != 0)
        return result_fail(sentence->status, err);
    const struct written *best = &job->written[job->n_taken][0];
    out->text = best->text;
    out->part = result_part(sentence, &sentence->hypotheses[0]);
    out->part.is_apart =
        document_is_apart(&job->document, job->n_taken, best->text, &job->taken_end);
    out->alignments = best->alignments;
    job->n_taken++;
    return 0;
}

int acre_job_next(struct acre_job *job, struct acre_sentence *out, struct acre_err *err)
{
    *out = (struct acre_sentence){.number = job->n_taken, .n_sentences = job->document.n_sentences};
    if (out->number == out->n_sentences)
        return 0;
    out->source = job->ranges[out->number];
    atomic_store(&job->awaited, out->number);
    return atomic_load(&job->has_ended[out->number]) ? take_sentence(job, out, err) : 0;
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static int check_int(const char *name, int value, int min, int max, struct acre_err *err)
{
    if (value >= min && value <= max)
        return 0;
    return err_set(err, ACRE_EOPTION, "%s: expected an integer from %d to %d, found %d", name, min,
                   max, value);
}

static int check_real(const char *name, float value, float min, float max, struct acre_err *err)
{
    if (value >= min && value <= max)
        return 0;
    return err_set(err, ACRE_EOPTION, "%s: expected a number from %g to %g, found %g", name,
                   (double)min, (double)max, (double)value);
}

static int check_decoding(const struct acre_model *model, const struct acre_decoding *decoding,
                          struct acre_err *err)
{
    const struct acre_decoding most = {.beam_size = model->max_beam_size,
                                       .num_hypotheses = decoding->beam_size,
                                       .min_length = decoding->max_length,
                                       .max_length = model->info.max_target_tokens,
                                       .length_penalty = ACRE_MAX_LENGTH_PENALTY,
                                       .beam_threshold = ACRE_MAX_BEAM_THRESHOLD};
    int status = 0;

#define CHECK_INT(name, min, max, help)                                                            \
    if (status == 0)                                                                               \
        status = check_int(#name, decoding->name, min, most.name, err);
#define CHECK_REAL(name, min, max, help)                                                           \
    if (status == 0)                                                                               \
        status = check_real(#name, decoding->name, min, most.name, err);
    ACRE_DECODING_OPTIONS(CHECK_INT, CHECK_REAL)
#undef CHECK_INT
#undef CHECK_REAL
    return status;
}

static int open_text(struct acre_job *job, const struct acre_request *request, struct acre_err *err)
{
    const struct acre_model *model = job->model;
    bool has_languages = tokenizer_languages(model->tokenizer)->n > 0;
    size_t unsplit = (size_t)(model->config.max_positions - 1 - has_languages);
    if (request->translation)
        return document_init_whole(&job->document, request->text, request->text_bytes,
                                   model->tokenizer, request->is_tokens, unsplit, err);
    if (request->is_tokens)
        return document_init_tokens(&job->document, request->text, request->text_bytes,
                                    model->tokenizer, unsplit, err);
    return splitter_open(&job->document, request->text, request->text_bytes, model->tokenizer,
                         job->frame.language, (size_t)model->info.max_source_tokens, request->split,
                         &job->splitter, err);
}

/* A memory that is a grid has whole rows. */
static int check_grid(const struct config *config, size_t n_source, struct acre_err *err)
{
    const struct {
        const char *attention;
        int height;
    } memories[] = {
        {"encoder_self", config->encoder_self.memory_height},
        {"decoder_cross", config->decoder_cross.memory_height},
    };
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
        if ((n_source + 1) % (size_t)memories[i].height != 0)
            return err_set(err, ACRE_EINPUT,
                           "config.json: area.%s.memory_height: expected sentences of a multiple "
                           "of %d tokens, end token included, found %zu",
                           memories[i].attention, memories[i].height, n_source + 1);
    return 0;
}

static int make_sentences(struct acre_job *job, struct acre_err *err)
{
    size_t n = job->document.n_sentences;
    job->sentences = mem_calloc(n, sizeof(*job->sentences));
    job->ranges = mem_alloc(n * sizeof(*job->ranges));
    job->written = mem_calloc(n, sizeof(struct written *));
    if (job->next)
        job->has_ended = mem_calloc(n, sizeof(*job->has_ended));
    if (!job->sentences || !job->ranges || !job->written || (job->next && !job->has_ended))
        return err_set(err, ACRE_ENOMEM, "no memory for %zu sentences", n);
    for (size_t s = 0; s < n; s++) {
        struct sentence *sentence = &job->sentences[s];
        const struct document_sentence *span = &job->document.sentences[s];
        job->ranges[s] = (struct acre_range){span->first, span->n_bytes};
        sentence->decoding = job->decoding;
        sentence->is_aligned = job->is_aligned;
        sentence->deadline_ns = job->deadline_ns;
        sentence->caller = job->caller;
        sentence->job = job;
    }
    int status =
        frame_fill(&job->frame, &job->document, job->model->config.end_token, job->sentences, err);
    if (status != 0)
        return status;
    atomic_init(&job->awaited, SIZE_MAX);
    for (size_t s = 0; s < n && status == 0; s++)
        status = check_grid(&job->model->config, job->sentences[s].n_source, err);
    return status;
}

/* From now on: splitting takes its part of the time too. */
static uint64_t deadline_of(const struct acre_request *request)
{
    if (request->timeout_ms <= 0)
        return 0;
    return scheduler_now_ns() + (uint64_t)request->timeout_ms * 1000000;
}

/* A given translation of exactly max_length tokens scores as one the search cut there (its end
 * token adds 0); a longer or shorter one scores as if the limits were not there. */
static void adapt_decoding(struct acre_decoding *decoding, const struct search_prefix *prefix,
                           const struct acre_model *model)
{
    decoding->beam_size = decoding->num_hypotheses = 1;
    if (prefix->n > decoding->max_length)
        decoding->max_length = model->config.max_positions - 1;
    if (prefix->n < decoding->min_length)
        decoding->min_length = 0;
}

int acre_job_open(const struct acre_request *request, struct acre_job **out, struct acre_err *err)
{
    uint64_t deadline_ns = deadline_of(request);
    *out = NULL;
    int status = check_decoding(request->model, &request->decoding, err);
    if (status == 0)
        status = check_int("timeout_ms", request->timeout_ms, 0, INT_MAX, err);
    if (status != 0)
        return status;
    struct acre_job *job = mem_calloc(1, sizeof(*job));
    if (!job)
        return err_set(err, ACRE_ENOMEM, "no memory for a request");
    waiter_init(&job->waiter);
    job->model = request->model;
    job->done = request->done;
    job->next = request->next;
    job->user = request->user;
    job->is_tokens = request->is_tokens;
    job->is_aligned = request->is_aligned;
    job->decoding = request->decoding;
    job->deadline_ns = deadline_ns;
    job->caller = request->caller;
    status = frame_init(&job->frame, job->model, request, err);
    if (request->translation)
        adapt_decoding(&job->decoding, &job->frame.prefix, job->model);
    if (status == 0)
        status = open_text(job, request, err);
    if (status != 0) {
        acre_job_close(job);
        return status;
    }
    *out = job;
    return 0;
}

/* Looks up each sentence, and counts those that are left to be translated. */
static void find_cached(struct acre_job *job)
{
    struct cache *cache = job->frame.prefix.is_whole ? NULL : job->model->engine->cache;
    size_t n = job->document.n_sentences;
    for (size_t s = 0; cache && s < job->document.n_sentences; s++) {
        struct sentence *sentence = &job->sentences[s];
        if (!sentence->is_cached && !cache_get(cache, job->model->serial, sentence))
            continue;
        if (!sentence->is_cached)
            result_write(job, sentence);
        sentence->is_cached = true;
        tell_ended(job, sentence);
        n--;
    }
    for (size_t s = 0; job->next && s < job->document.n_sentences; s++)
        if (!job->sentences[s].is_cached) {
            job->sentences[s].n_behind = n - 1;
            break;
        }
    atomic_init(&job->n_left, n);
}

int acre_job_split(struct acre_job *job, size_t max_bytes, bool *is_split, struct acre_err *err)
{
    int status = 0;
    *is_split = true;
    if (job->splitter)
        status = splitter_continue(job->splitter, max_bytes, is_split, err);
    if (status != 0 || !*is_split)
        return status;
    splitter_close(job->splitter);
    job->splitter = NULL;
    status = make_sentences(job, err);
    if (status == 0)
        find_cached(job);
    return status;
}

size_t acre_job_tokens(const struct acre_job *job)
{
    const struct plan_text text = {job->sentences, job->document.n_sentences};
    return plan_tokens(&text, 1);
}

/* Of a sentence, of each of its translations, and of each of their tokens. What is allocated piece
 * by piece is short. */
size_t acre_job_bytes(const struct acre_job *job)
{
    enum {
        PIECE = 32,
        SENTENCE = sizeof(struct sentence) + sizeof(struct document_sentence) +
                   sizeof(struct acre_range) + sizeof(struct written *) + 2 * PIECE,
        TRANSLATION = sizeof(struct sentence_hypothesis) + sizeof(struct written) +
                      sizeof(struct acre_part) + sizeof(struct acre_range) + 2 * PIECE,
        TOKEN = 2 * sizeof(int32_t) + sizeof(char *), /* number and text, alone and joined */
    };
    size_t n = job->document.n_sentences, bytes = n * SENTENCE;
    size_t token = TOKEN + (job->is_aligned ? sizeof(struct acre_alignment) : 0);
    for (size_t s = 0; s < n; s++) {
        const struct sentence *sentence = &job->sentences[s];
        bytes += sentence->n_source * sizeof(int32_t) + sentence->n_hypotheses * TRANSLATION;
        for (size_t i = 0; i < sentence->n_hypotheses; i++)
            bytes += sentence->hypotheses[i].n_tokens * token;
    }
    return bytes;
}

/* Those with nothing to translate end here; any other may be done, and gone, as soon as it is
 * queued. */
int acre_jobs_queue(struct acre_job *const *jobs, size_t n, struct acre_err *err)
{
    struct plan_text *texts = mem_alloc(n * sizeof(*texts));
    struct acre_job **ready = mem_alloc(n * sizeof(struct acre_job *));
    size_t n_texts = 0, n_ready = 0;
    int status = 0;
    for (size_t i = 0; texts && ready && i < n; i++) {
        if (atomic_load(&jobs[i]->n_left) == 0)
            ready[n_ready++] = jobs[i];
        if (jobs[i]->document.n_sentences > 0)
            texts[n_texts++] =
                (struct plan_text){jobs[i]->sentences, jobs[i]->document.n_sentences};
    }
    if (!texts || !ready)
        status = err_set(err, ACRE_ENOMEM, "no memory for %zu texts", n);
    else if (n_texts > 0)
        status = fallback_submit(jobs[0]->model, texts, n_texts, err);
    for (size_t i = 0; status == 0 && i < n_ready; i++)
        finish(ready[i]);
    mem_free(texts);
    mem_free(ready);
    return status;
}

int acre_submit(const struct acre_request *request, struct acre_job **job, struct acre_err *err)
{
    bool is_split;
    int status = acre_job_open(request, job, err);
    if (status != 0)
        return status;
    status = acre_job_split(*job, SIZE_MAX, &is_split, err);
    if (status == 0)
        status = acre_jobs_queue(job, 1, err);
    if (status != 0) {
        acre_job_close(*job);
        *job = NULL;
    }
    return status;
}

void acre_job_cancel(struct acre_job *job)
{
    if (atomic_load(&job->n_left) > 0)
        fallback_cancel(job->model, job->sentences, job->document.n_sentences);
}

const struct sentence *job_sentence(const struct acre_job *job, size_t number)
{
    bool is_there = job->result.status == 0 && number < job->document.n_sentences;
    return is_there ? &job->sentences[number] : NULL;
}

const struct acre_model *job_model(const struct acre_job *job)
{
    return fallback_works(job->model->engine) ? job->model->fallback : job->model;
}

void job_aligned(const struct acre_job *job, size_t number, struct aligned_sentence *aligned)
{
    const struct acre_hypothesis *best = &job->hypotheses[0];
    *aligned = result_aligned(job, number, 0, best->text, best->sentences[number]);
}

const struct acre_result *acre_job_result(const struct acre_job *job)
{
    return &job->result;
}

void acre_job_close(struct acre_job *job)
{
    if (!job)
        return;
    result_free(job);
    for (size_t s = 0; job->sentences && s < job->document.n_sentences; s++)
        sentence_fini(&job->sentences[s]);
    mem_free(job->sentences);
    mem_free(job->ranges);
    mem_free(job->has_ended);
    splitter_close(job->splitter);
    frame_fini(&job->frame);
    document_fini(&job->document);
    waiter_fini(&job->waiter);
    mem_free(job);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

bool acre_job_wait(struct acre_job *job, int timeout_ms)
{
    return waiter_wait(&job->waiter, timeout_ms);
}

int acre_translate(const struct acre_request *request, struct acre_job **job, struct acre_err *err)
{
    struct acre_request waiting = *request;
    waiting.done = NULL;
    int status = acre_submit(&waiting, job, err);
    if (status == 0)
        acre_job_wait(*job, -1);
    return status;
}
