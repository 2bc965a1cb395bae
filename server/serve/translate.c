/* Happy path: translate_start() copies the texts -> split_part() splits them into N jobs (in a
 * pool thread, as often as on_submitted() finds that there is more; of one short text in the loop;
 * markup and placeholders become prose first) and queues all of them at once -> each job's
 * on_done() (engine worker) puts its item on the list and wakes the loop -> on_wake() counts it off
 * -> the last one calls `done`, after prose was rendered in the pool -> its owner reads the results
 * and closes.
 *
 * Failure modes: a text is refused, or the queue has no room for all: `done` is called at once. The
 * owner closes early (deadline, client left, shutdown): submitting stops, jobs are cancelled, and
 * the last of them to end frees everything. */
#include "serve/translate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/unicode.h"
#include "content/prose.h"
#include "content/terms.h"
#include "serve/rendition.h"
#include "serve/sentences.h"

/* A single text of up to so many bytes is submitted by the loop itself: that takes tenths of a
 * millisecond at most, and spares waking a thread of the pool and being woken by it. */
enum { SHORT_BYTES = 512 };

/* How long a request may hold a thread of the pool, by the thread's own clock; one that has more
 * waits in its queue again, behind the others. The clock is looked at after each part of a text. */
enum { SHARE_NS = 20000000, PART_BYTES = 2048 };

struct item {
    struct translate *translate;
    const char *text; /* in translate->texts */
    size_t bytes;     /* 0: blank, no job */
    bool is_read;     /* as prose */
    bool is_prose;    /* else the text is what the engine is given */
    struct prose prose;
    struct rendition rendition;
    struct sentences sentences; /* of what is streamed */
    struct acre_job *job;       /* owned */
    struct item *next;          /* in translator->finished */
};

struct translate {
    struct translator *translator;
    struct translate *sibling, **previous_link; /* of all translates; loop thread */
    translate_done_fn *done;
    void *user;
    bool is_told;   /* `done` was called */
    bool is_closed; /* the owner has left */
    bool is_streamed, tells_queued, is_traced, is_raw;
    size_t n_streamed;           /* items that the owner has taken */
    bool has_news;               /* in translator->news; its lock protects this */
    struct translate *next_news; /* likewise */
    size_t n_finished;

    /* Submitting: the pool thread's until on_submitted(), but for `is_cancelled`. */
    uv_work_t work;
    struct acre_request request; /* what all jobs share */
    uint64_t timeout_ms, deadline_ns;
    char *texts;        /* owned copy */
    bool is_submitting; /* loop thread only */
    atomic_bool is_cancelled;
    struct item nothing; /* ends like a job where there is no job whose end to wait for */
    enum srv_format format;
    struct prose_markup markup;                            /* its names are owned */
    struct dictionary *dictionaries[SRV_MAX_DICTIONARIES]; /* held */
    size_t n_dictionaries;
    size_t n_prose;    /* items that are, */
    size_t n_whole;    /* and that are rendered in one */
    size_t n_rendered; /* the first item that is not */
    size_t next;       /* the first item that is not split; it may have a job */
    size_t n_submitted;
    int status; /* of submitting */
    struct acre_err err;

    size_t n_items;
    struct item items[];
};

struct translator {
    struct acre_engine *engine;
    int max_beam_size;
    size_t n_submitting;
    struct translate *translates; /* those that are not freed; loop thread */
    uv_loop_t *loop;
    uv_work_t warm_up;
    /* The loop is woken by an eventfd of our own. With a uv_async_t the loop spins until the thread
     * that woke it has cleared a flag. On one CPU that thread cannot run while the loop spins. */
    uv_poll_t wake;
    int wake_fd;
    uv_mutex_t lock;
    struct item *finished;  /* protected by `lock` */
    struct translate *news; /* likewise: those of which a sentence has come */
};

/* ---- The end of jobs ------------------------------------------------------------------------- */

static bool is_idle(const struct translate *translate)
{
    return !translate->is_submitting && translate->n_finished == translate->n_submitted;
}

static void free_item(struct item *item)
{
    sentences_fini(&item->sentences);
    rendition_fini(&item->rendition);
    acre_job_close(item->job);
    prose_fini(&item->prose);
}

static void free_translate(struct translate *translate)
{
    *translate->previous_link = translate->sibling;
    if (translate->sibling)
        translate->sibling->previous_link = translate->previous_link;
    for (size_t i = 0; i < translate->n_items; i++)
        free_item(&translate->items[i]);
    for (size_t i = 0; i < translate->n_dictionaries; i++)
        dictionary_drop(translate->dictionaries[i]);
    free((void *)translate->markup.ignored);
    free(translate->texts);
    free(translate);
}

static void render(struct translate *translate);

/* After anything changed: frees it or tells the owner, if it is time. */
static void settle(struct translate *translate)
{
    if (translate->is_closed) {
        if (is_idle(translate))
            free_translate(translate);
        return;
    }
    if (translate->is_submitting || translate->is_told)
        return;
    if (translate->status == 0 && !is_idle(translate))
        return;
    if (translate->status == 0 && translate->n_whole > 0 &&
        translate->n_rendered < translate->n_items) {
        render(translate);
        return;
    }
    translate->is_told = true;
    translate->done(translate->user);
}

/* Who found both lists empty wakes the loop, after the lock: the loop may run at once. */
static void wake(struct translator *translator)
{
    static const uint64_t one = 1;

    if (write(translator->wake_fd, &one, sizeof(one)) < 0)
        return; /* cannot be: only 2^64 - 2 unread wake-ups are refused */
}

/* Any thread. */
static void on_done(void *user)
{
    struct item *item = user;
    struct translator *translator = item->translate->translator;
    bool is_first;

    uv_mutex_lock(&translator->lock);
    is_first = !translator->finished && !translator->news;
    item->next = translator->finished;
    translator->finished = item;
    uv_mutex_unlock(&translator->lock);
    if (is_first)
        wake(translator);
}

/* Any thread, before on_done() of the same item: the translate cannot be freed before that. */
static void on_next(void *user)
{
    struct item *item = user;
    struct translate *translate = item->translate;
    struct translator *translator = translate->translator;
    bool is_first;

    uv_mutex_lock(&translator->lock);
    is_first = !translator->finished && !translator->news;
    if (!translate->has_news) {
        translate->next_news = translator->news;
        translator->news = translate;
    }
    translate->has_news = true;
    uv_mutex_unlock(&translator->lock);
    if (is_first)
        wake(translator);
}

static void tell_news(const struct translate *translate)
{
    if (!translate->is_closed && !translate->is_submitting && !translate->is_told)
        translate->done(translate->user);
}

/* News first: an item that is finished may be the last of its translate. */
static void take_finished(struct translator *translator)
{
    struct translate *news, *next_news;
    struct item *item, *next;

    uv_mutex_lock(&translator->lock);
    item = translator->finished;
    news = translator->news;
    translator->finished = NULL;
    translator->news = NULL;
    for (struct translate *each = news; each; each = each->next_news)
        each->has_news = false;
    uv_mutex_unlock(&translator->lock);
    for (; news; news = next_news) {
        next_news = news->next_news;
        tell_news(news);
    }
    for (; item; item = next) {
        next = item->next; /* the item may go with its translate */
        item->translate->n_finished++;
        settle(item->translate);
    }
}

static void on_wake(uv_poll_t *wake, int status, int events)
{
    struct translator *translator = wake->data;
    uint64_t n;

    (void)status;
    (void)events;
    if (read(translator->wake_fd, &n, sizeof(n)) == sizeof(n))
        take_finished(translator);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static int64_t worked_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_whole(const struct item *item)
{
    return item->is_prose && (!item->translate->is_streamed || item->prose.n_values > 0);
}

static int render_item(struct item *item, bool *is_done, struct acre_err *err)
{
    const struct acre_result *result = item->job ? acre_job_result(item->job) : NULL;

    *is_done = true;
    if (!is_whole(item) || (result && result->status != 0)) /* translate_error() tells */
        return 0;
    return rendition_step(&item->rendition, &item->prose, result, item->translate->is_traced,
                          is_done, err);
}

/* Any thread, until `end` by its own clock. */
static void render_until(struct translate *translate, int64_t end)
{
    bool is_done;

    while (translate->status == 0 && translate->n_rendered < translate->n_items) {
        if (atomic_load(&translate->is_cancelled))
            translate->status = ACRE_ECANCELLED;
        else
            translate->status =
                render_item(&translate->items[translate->n_rendered], &is_done, &translate->err);
        translate->n_rendered += translate->status == 0 && is_done;
        if (worked_ns() >= end)
            break;
    }
}

/* Pool thread. */
static void render_in_pool(uv_work_t *work)
{
    render_until(work->data, worked_ns() + SHARE_NS);
}

static void on_rendered(uv_work_t *work, int status)
{
    struct translate *translate = work->data;

    (void)status;
    translate->is_submitting = false;
    translate->translator->n_submitting--;
    settle(translate);
}

static void render(struct translate *translate)
{
    if (translate->n_items == 1 && translate->items[0].bytes <= SHORT_BYTES) {
        render_until(translate, INT64_MAX);
        settle(translate);
        return;
    }
    translate->is_submitting = true;
    translate->translator->n_submitting++;
    uv_queue_work(translate->translator->loop, &translate->work, render_in_pool, on_rendered);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

/* Markup, and text with placeholders or terms, is prose; its words are what is translated. */
static int read_prose(struct item *item, struct acre_err *err)
{
    const struct translate *translate = item->translate;
    const enum srv_format format = translate->format;
    int status;

    if (format == SRV_TEXT)
        status = prose_read_text(item->text, item->bytes, &item->prose, err);
    else if (format == SRV_SUBRIP || format == SRV_WEBVTT)
        status =
            prose_read_subtitles(item->text, item->bytes, format == SRV_WEBVTT, &item->prose, err);
    else
        status = prose_read_markup(item->text, item->bytes, &translate->markup, &item->prose, err);

    if (status == 0 && translate->n_dictionaries > 0)
        status = terms_mark(&item->prose, translate->dictionaries, translate->n_dictionaries, err);
    item->is_prose = item->prose.is_markup || item->prose.n_marks > 0;
    return status;
}

/* At least 1: 0 would be no limit. */
static int left_ms(const struct translate *translate)
{
    const uint64_t now_ns = uv_hrtime(), deadline_ns = translate->deadline_ns;

    return now_ns + 1000000 < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000) : 1;
}

static int open_job(struct item *item, struct acre_err *err)
{
    struct acre_request request = item->translate->request;
    int status = item->translate->is_raw ? 0 : read_prose(item, err);

    item->is_read = true;
    if (status != 0)
        return status;
    item->translate->n_prose += item->is_prose;
    item->translate->n_whole += is_whole(item);
    request.text = item->is_prose ? item->prose.text : item->text;
    request.text_bytes = item->is_prose ? item->prose.text_bytes : item->bytes;
    request.is_aligned = request.is_aligned || item->is_prose;
    if (item->prose.is_markup)
        request.split = ACRE_SPLIT_LINES; /* which are its blocks */
    request.user = item;
    request.timeout_ms = left_ms(item->translate);
    if (item->is_prose && unicode_is_blank(request.text, request.text_bytes))
        return 0;
    return acre_job_open(item->translate->translator->engine, &request, &item->job, err);
}

static bool has_more(const struct translate *translate)
{
    return translate->status == 0 && translate->next < translate->n_items;
}

/* About max_bytes more of the next item. */
static void split_part(struct translate *translate, size_t max_bytes)
{
    struct item *item = &translate->items[translate->next];
    bool is_split = true;

    if (item->bytes > 0 && !item->is_read)
        translate->status = open_job(item, &translate->err);
    if (item->job && translate->status == 0)
        translate->status = acre_job_split(item->job, max_bytes, &is_split, &translate->err);
    translate->next += translate->status == 0 && is_split;
}

/* Any of them may be done before this returns. */
static void queue_all(struct translate *translate)
{
    struct acre_job **jobs = malloc(translate->n_items * sizeof(struct acre_job *));
    size_t n = 0;

    for (size_t i = 0; jobs && i < translate->n_items; i++)
        if (translate->items[i].job)
            jobs[n++] = translate->items[i].job;
    if (!jobs)
        translate->status = error_set(&translate->err, ACRE_ENOMEM, "out of memory");
    else if (n > 0)
        translate->status = acre_jobs_queue(jobs, n, &translate->err);
    if (translate->status == 0)
        translate->n_submitted = n;
    free(jobs);
}

/* What was not queued ends here. */
static void drop_jobs(struct translate *translate)
{
    for (size_t i = 0; translate->status != 0 && i < translate->n_items; i++) {
        acre_job_close(translate->items[i].job);
        translate->items[i].job = NULL;
    }
}

/* Prose is rendered from them, and so are the sentences of a stream. */
static void drop_texts(struct translate *translate)
{
    if (translate->n_prose > 0 || translate->is_streamed)
        return;
    free(translate->texts);
    translate->texts = NULL;
}

static void cancel_jobs(struct translate *translate)
{
    for (size_t i = 0; i < translate->n_items; i++)
        if (translate->items[i].job)
            acre_job_cancel(translate->items[i].job);
}

/* Loop thread, which submits, and tells the owner of a failure or of blank texts later. */
static void submit_now(struct translate *translate)
{
    while (has_more(translate))
        split_part(translate, SIZE_MAX);
    if (translate->status == 0)
        queue_all(translate);
    drop_jobs(translate);
    drop_texts(translate);
    if (translate->status == 0 && translate->n_submitted > 0)
        return;
    translate->nothing.translate = translate;
    translate->n_submitted++;
    on_done(&translate->nothing);
}

/* Pool thread. */
static void submit_in_pool(uv_work_t *work)
{
    struct translate *translate = work->data;
    int64_t end = worked_ns() + SHARE_NS;

    while (has_more(translate) && worked_ns() < end) {
        if (atomic_load(&translate->is_cancelled))
            translate->status = ACRE_ECANCELLED;
        else
            split_part(translate, PART_BYTES);
    }
    if (translate->status == 0 && translate->next == translate->n_items)
        queue_all(translate);
}

static void on_submitted(uv_work_t *work, int status)
{
    struct translate *translate = work->data;

    (void)status;
    if (has_more(translate)) {
        uv_queue_work(translate->translator->loop, work, submit_in_pool, on_submitted);
        return;
    }
    drop_jobs(translate);
    translate->is_submitting = false;
    translate->translator->n_submitting--;
    drop_texts(translate);
    if (translate->is_closed)
        cancel_jobs(translate);
    if ((translate->is_streamed || translate->tells_queued) && translate->status == 0 &&
        !is_idle(translate))
        tell_news(translate);
    settle(translate);
}

static struct acre_decoding decoding_of(const struct translator *translator,
                                        const struct srv_translate *request,
                                        const struct acre_model *model)
{
    struct acre_decoding d = acre_model_info(model)->decoding;

    if (d.beam_size > translator->max_beam_size)
        d.beam_size = translator->max_beam_size;
    d.num_hypotheses = 1;
    decoding_apply(&request->decoding, &d);
    if (d.beam_size < d.num_hypotheses)
        d.beam_size = d.num_hypotheses;
    if (d.min_length > d.max_length)
        d.min_length = d.max_length;
    return d;
}

/* Copies the texts that need translating: the client may leave while a thread reads them. */
static int copy_texts(struct translate *translate, const struct srv_translate *request)
{
    size_t bytes = 0;

    for (size_t i = 0; i < request->n_texts; i++)
        bytes += request->texts[i].bytes;
    translate->texts = malloc(bytes ? bytes : 1);
    if (!translate->texts)
        return ACRE_ENOMEM;
    bytes = 0;
    for (size_t i = 0; i < request->n_texts; i++) {
        const struct srv_text *text = &request->texts[i];
        struct item *item = &translate->items[i];

        item->translate = translate;
        if (unicode_is_blank(text->data, text->bytes))
            continue;
        item->text = memcpy(translate->texts + bytes, text->data, text->bytes);
        item->bytes = text->bytes;
        bytes += text->bytes;
    }
    return 0;
}

/* The names that the request borrows, in one piece: pointers, then texts. */
static int copy_markup(struct translate *translate, const struct srv_translate *request)
{
    size_t bytes = request->n_ignored * sizeof(char *);
    char **names, *at;

    translate->format = request->format;
    translate->markup.is_xml = request->format == SRV_XML;
    translate->markup.with_attributes = request->with_attributes;
    for (size_t i = 0; i < request->n_ignored; i++)
        bytes += strlen(request->ignored[i]) + 1;
    if (bytes == 0)
        return 0;
    names = malloc(bytes);
    if (!names)
        return ACRE_ENOMEM;
    at = (char *)(names + request->n_ignored);
    for (size_t i = 0; i < request->n_ignored; i++) {
        names[i] = strcpy(at, request->ignored[i]);
        at += strlen(at) + 1;
    }
    translate->markup.ignored = (const char *const *)names;
    translate->markup.n_ignored = request->n_ignored;
    return 0;
}

/* The request's own text does not live as long as the jobs. */
static const char *code_of(const char *name, const struct acre_model *model, bool is_target)
{
    const struct acre_language *language = NULL;

    if (name)
        language = is_target ? acre_model_target(model, name) : acre_model_source(model, name);
    return language ? language->code : NULL;
}

int translate_start(struct translator *translator, const struct srv_translate *request,
                    struct acre_model *model, translate_done_fn *done, void *user,
                    struct translate **out, struct srv_error *error)
{
    struct translate *translate;

    translate = calloc(1, sizeof(*translate) + request->n_texts * sizeof(translate->items[0]));
    if (!translate)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    translate->translator = translator;
    translate->sibling = translator->translates;
    translate->previous_link = &translator->translates;
    if (translate->sibling)
        translate->sibling->previous_link = &translate->sibling;
    translator->translates = translate;
    translate->n_items = request->n_texts;
    translate->done = done;
    translate->is_streamed = request->is_streamed;
    translate->tells_queued = request->tells_queued;
    translate->is_raw = request->is_raw;
    translate->is_traced = request->is_aligned && request->format == SRV_TEXT;
    translate->user = user;
    translate->work.data = translate;
    translate->timeout_ms = request->timeout_ms;
    translate->deadline_ns = uv_hrtime() + request->timeout_ms * 1000000;
    translate->request = (struct acre_request){.model = model,
                                               .source = code_of(request->source, model, false),
                                               .target = code_of(request->target, model, true),
                                               .next = request->is_streamed ? on_next : NULL,
                                               .decoding = decoding_of(translator, request, model),
                                               .split = request->split,
                                               .is_aligned = request->is_aligned,
                                               .caller = request->caller,
                                               .done = on_done};
    if (copy_texts(translate, request) != 0 || copy_markup(translate, request) != 0) {
        free_translate(translate);
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    }
    for (size_t i = 0; i < request->n_dictionaries; i++) {
        dictionary_hold(request->dictionaries[i]);
        translate->dictionaries[translate->n_dictionaries++] = request->dictionaries[i];
    }
    *out = translate;
    if (translate->n_items == 1 && translate->items[0].bytes <= SHORT_BYTES) {
        submit_now(translate);
        return 0;
    }
    uv_queue_work(translator->loop, &translate->work, submit_in_pool, on_submitted);
    translate->is_submitting = true;
    translator->n_submitting++;
    return 0;
}

/* ---- What the owner does --------------------------------------------------------------------- */

/* Says which text it was, if there are several and the text is at fault. */
static int explain(const struct translate *translate, size_t index, int status,
                   const struct acre_err *err, struct srv_error *error)
{
    char text[sizeof(error->text)];

    if (status == ACRE_ETIMEOUT)
        return error_deadline(error, translate->timeout_ms);
    error_from_engine(error, status, err);
    if (translate->n_items > 1 && error->status == 400) {
        memcpy(text, error->text, sizeof(text));
        snprintf(error->text, sizeof(error->text), "text %zu: %.400s", index + 1, text);
    }
    return -1;
}

bool translate_is_queued(const struct translate *translate)
{
    return translate->status == 0 && (translate->is_told || !translate->is_submitting);
}

bool translate_is_done(const struct translate *translate)
{
    return translate->is_told;
}

int translate_error(const struct translate *translate, struct srv_error *error)
{
    if (translate->status != 0)
        return explain(translate, translate->next, translate->status, &translate->err, error);
    for (size_t i = 0; i < translate->n_items; i++) {
        const struct acre_result *result = translate_result(translate, i);

        if (result && result->status != 0)
            return explain(translate, i, result->status, &result->err, error);
    }
    return 0;
}

const struct acre_result *translate_result(const struct translate *translate, size_t index)
{
    const struct acre_job *job = translate->items[index].job;

    return job ? acre_job_result(job) : NULL;
}

const struct acre_job *translate_job(const struct translate *translate, size_t index)
{
    return translate->items[index].job;
}

const char *translate_text(const struct translate *translate, size_t index, size_t hypothesis)
{
    const struct item *item = &translate->items[index];
    const struct acre_result *result = translate_result(translate, index);

    if (item->is_prose)
        return hypothesis < item->rendition.n_texts ? item->rendition.texts[hypothesis] : NULL;
    return result && hypothesis < result->n_hypotheses ? result->hypotheses[hypothesis].text : NULL;
}

struct srv_places translate_alignments(const struct translate *translate, size_t index)
{
    const struct item *item = &translate->items[index];
    const struct acre_result *result = translate_result(translate, index);

    if (item->is_prose)
        return (struct srv_places){item->rendition.best.alignments,
                                   item->rendition.best.n_alignments};
    if (!result)
        return (struct srv_places){.n = 0};
    return (struct srv_places){result->hypotheses[0].alignments, result->hypotheses[0].n_tokens};
}

bool translate_sentence(const struct translate *translate, size_t index, size_t i,
                        struct acre_alignment *place)
{
    const struct item *item = &translate->items[index];
    const struct acre_result *result = translate_result(translate, index);

    if (!result || i >= result->n_sentences)
        return false;
    *place = item->is_prose ? item->rendition.best.sentences[i]
                            : (struct acre_alignment){result->sentences[i],
                                                      result->hypotheses[0].sentences[i]};
    return true;
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* Pool thread. */
static void render_next_in_pool(uv_work_t *work)
{
    struct translate *translate = work->data;

    translate->status =
        sentences_render(&translate->items[translate->n_streamed].sentences, &translate->err);
}

/* The last job may have ended meanwhile, and with it another item may be rendered. */
static void on_next_rendered(uv_work_t *work, int status)
{
    struct translate *translate = work->data;

    (void)status;
    translate->is_submitting = false;
    translate->translator->n_submitting--;
    if (translate->is_closed || (!translate->is_told && is_idle(translate)))
        settle(translate);
    else
        translate->done(translate->user);
}

/* Whether it is done. */
static bool render_sentence_of(struct translate *translate, struct item *item)
{
    if (item->bytes <= SHORT_BYTES) {
        translate->status = sentences_render(&item->sentences, &translate->err);
        return true;
    }
    translate->is_submitting = true;
    translate->translator->n_submitting++;
    uv_queue_work(translate->translator->loop, &translate->work, render_next_in_pool,
                  on_next_rendered);
    return false;
}

static void begin_item(struct item *item)
{
    if (item->sentences.text.data || item->sentences.is_through)
        return;
    item->sentences.text = (struct srv_text){item->text, item->bytes};
    item->sentences.job = item->job;
    item->sentences.prose = item->is_prose ? &item->prose : NULL;
    item->sentences.is_traced = item->translate->is_traced;
}

/* Of a document that is rendered in one. */
static enum sentences_next next_whole(struct item *item, struct srv_sentence *sentence)
{
    const struct acre_result *result = item->job ? acre_job_result(item->job) : NULL;

    if (item->sentences.is_through)
        return SENTENCES_END;
    if (!item->translate->is_told)
        return SENTENCES_LATER;
    *sentence = (struct srv_sentence){.number = 0};
    if (result) {
        sentence->part.normalized_score = result->hypotheses[0].normalized_score;
        sentence->part.is_truncated = result->hypotheses[0].is_truncated;
    }
    item->sentences.is_through = true;
    return SENTENCES_ONE;
}

enum translate_next translate_next(struct translate *translate, size_t *index,
                                   struct srv_sentence *sentence, struct srv_error *error)
{
    struct acre_err err;

    if (translate->is_submitting)
        return TRANSLATE_LATER;
    while (translate->status == 0 && translate->n_streamed < translate->n_items) {
        struct item *item = &translate->items[translate->n_streamed];

        *index = translate->n_streamed;
        begin_item(item);
        switch (is_whole(item) ? next_whole(item, sentence)
                               : sentences_next(&item->sentences, sentence, &err)) {
        case SENTENCES_FAILED:
            return explain(translate, *index, err.code, &err, error);
        case SENTENCES_ONE:
            return TRANSLATE_SENTENCE;
        case SENTENCES_LATER:
            return TRANSLATE_LATER;
        case SENTENCES_RENDER:
            if (!render_sentence_of(translate, item))
                return TRANSLATE_LATER;
            break;
        case SENTENCES_END:
            translate->n_streamed++;
            break;
        }
    }
    if (translate->status != 0)
        return explain(translate, translate->next, translate->status, &translate->err, error);
    return TRANSLATE_END;
}

void translate_close(struct translate *translate)
{
    if (!translate)
        return;
    translate->is_closed = true;
    atomic_store(&translate->is_cancelled, true);
    if (!translate->is_submitting)
        cancel_jobs(translate);
    settle(translate);
}

/* ---- The translator -------------------------------------------------------------------------- */

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void on_warm(uv_work_t *work, int status)
{
    struct translator *translator = work->data;

    (void)status;
    translator->n_submitting--;
}

int translator_open(uv_loop_t *loop, struct acre_engine *engine, int max_beam_size,
                    struct translator **out, struct acre_err *err)
{
    struct translator *translator = calloc(1, sizeof(*translator));

    if (!translator)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    translator->loop = loop;
    translator->engine = engine;
    translator->max_beam_size = max_beam_size;
    if (uv_mutex_init(&translator->lock) != 0)
        goto err_after_alloc;
    translator->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (translator->wake_fd < 0)
        goto err_after_mutex;
    if (uv_poll_init(loop, &translator->wake, translator->wake_fd) != 0)
        goto err_after_eventfd;
    translator->wake.data = translator;
    uv_poll_start(&translator->wake, UV_READABLE, on_wake);
    /* libuv starts its pool with the first work, and aborts if it cannot: that shall be now. */
    translator->warm_up.data = translator;
    uv_queue_work(loop, &translator->warm_up, do_nothing, on_warm);
    translator->n_submitting++;
    *out = translator;
    return 0;

err_after_eventfd:
    close(translator->wake_fd);
err_after_mutex:
    uv_mutex_destroy(&translator->lock);
err_after_alloc:
    free(translator);
    return error_set(err, ACRE_EIO, "the event loop cannot be set up");
}

bool translator_uses(const struct translator *translator, const struct acre_model *model)
{
    for (const struct translate *each = translator->translates; each; each = each->sibling)
        if (each->request.model == model)
            return true;
    return false;
}

void translator_settle(struct translator *translator)
{
    while (translator->n_submitting > 0)
        uv_run(translator->loop, UV_RUN_ONCE);
}

void translator_close(struct translator *translator)
{
    take_finished(translator);
    uv_close((uv_handle_t *)&translator->wake, NULL);
}

void translator_free(struct translator *translator)
{
    if (!translator)
        return;
    close(translator->wake_fd);
    uv_mutex_destroy(&translator->lock);
    free(translator);
}
