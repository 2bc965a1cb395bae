/* Happy path: translate_start() copies the texts -> submit.c makes jobs of them -> translator.c
 * counts each off when it is done -> the last one calls `done`, after prose was rendered in the
 * pool -> its owner reads the results and closes.
 *
 * Failure modes: a text is refused, or the queue has no room for all: `done` is called at once. The
 * owner closes early (deadline, client left, shutdown): submitting stops, jobs are cancelled, and
 * the last of them to end frees everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/unicode.h"
#include "serve/translate_internal.h"

/* What terms may be called, together: so much, and more for each byte of the texts. */
enum { TERMS_BYTES = 65536, TERMS_FACTOR = 16 };

/* ---- Its life -------------------------------------------------------------------------------- */

bool translate_is_idle(const struct translate *translate)
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

/* Pool thread, of long ones. */
static void free_items(uv_work_t *work)
{
    struct translate *translate = work->data;

    for (size_t i = 0; i < translate->n_items; i++)
        free_item(&translate->items[i]);
}

static void drop_route(struct route *route)
{
    for (size_t i = 0; i < route->n_dictionaries; i++)
        dictionary_drop(route->dictionaries[i]);
}

/* Until now it has jobs of its models. */
static void on_freed(uv_work_t *work, int status)
{
    struct translate *translate = work->data;

    (void)status;
    translate->translator->n_submitting--;
    *translate->previous_link = translate->sibling;
    if (translate->sibling)
        translate->sibling->previous_link = translate->previous_link;
    for (size_t i = 0; i < translate->n_routes; i++)
        drop_route(&translate->routes[i]);
    free(translate->routes);
    free((void *)translate->markup.ignored);
    free(translate->texts);
    free(translate);
}

static void free_translate(struct translate *translate)
{
    translate->translator->n_submitting++;
    if (translate->bytes > LONG_BYTES) {
        uv_queue_work(translate->translator->loop, &translate->freeing, free_items, on_freed);
        return;
    }
    free_items(&translate->freeing);
    on_freed(&translate->freeing, 0);
}

static void render(struct translate *translate);

void translate_settle(struct translate *translate)
{
    if (translate->is_closed) {
        if (translate_is_idle(translate))
            free_translate(translate);
        return;
    }
    if (translate->is_submitting || translate->is_told)
        return;
    if (translate->status == 0 && !translate_is_idle(translate))
        return;
    if (translate->status == 0 && translate->n_whole > 0 &&
        translate->n_rendered < translate->n_items) {
        render(translate);
        return;
    }
    translate->is_told = true;
    translate->done(translate->user);
}

void translate_wait_for_turn(struct translate *translate, struct turns *turns,
                             void (*work)(void *translate), void (*done)(void *translate))
{
    translate->is_submitting = true;
    translate->translator->n_submitting++;
    translate->turn.work = work;
    translate->turn.done = done;
    translate->turn.user = translate;
    turns_wait(turns, &translate->turn, translate->caller);
}

void translate_end_turn(struct translate *translate)
{
    translate->is_submitting = false;
    translate->translator->n_submitting--;
}

void translate_tell_news(const struct translate *translate)
{
    if (!translate->is_closed && !translate->is_submitting && !translate->is_told)
        translate->done(translate->user);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

int64_t translate_worked_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool item_is_whole(const struct item *item)
{
    return item->is_prose && (!item->translate->is_streamed || item->prose.n_values > 0);
}

static int render_item(struct item *item, bool *is_done, struct acre_err *err)
{
    const struct acre_result *result = item->job ? acre_job_result(item->job) : NULL;

    *is_done = true;
    if (!item_is_whole(item) || (result && result->status != 0)) /* translate_error() tells */
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
        if (translate_worked_ns() >= end)
            break;
    }
}

/* Pool thread. */
static void render_part(void *user)
{
    render_until(user, translate_worked_ns() + SHARE_NS);
}

static void on_rendered(void *user)
{
    struct translate *translate = user;

    translate_end_turn(translate);
    translate_settle(translate);
}

static void render(struct translate *translate)
{
    if (translate->n_items == 1 && translate->items[0].bytes <= SHORT_BYTES) {
        render_until(translate, INT64_MAX);
        translate_settle(translate);
        return;
    }
    translate_wait_for_turn(translate, &translate->translator->working, render_part, on_rendered);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static struct acre_decoding decoding_of(const struct srv_translate *request,
                                        const struct acre_model *model)
{
    struct acre_decoding d = acre_model_info(model)->decoding;

    d.num_hypotheses = 1;
    decoding_apply(&request->decoding, &d);
    if (d.beam_size < d.num_hypotheses)
        d.beam_size = d.num_hypotheses;
    if (d.min_length > d.max_length)
        d.min_length = d.max_length;
    return d;
}

static const struct route *route_of(const struct translate *translate,
                                    const struct srv_translate *request, size_t text)
{
    const size_t i = request->route_of ? request->route_of[text] : 0;

    return i < translate->n_routes ? &translate->routes[i] : NULL;
}

/* Copies the texts that need translating: the client may leave while a thread reads them. */
static int copy_texts(struct translate *translate, const struct srv_translate *request)
{
    size_t bytes = 0;

    for (size_t i = 0; i < request->n_texts; i++)
        bytes += request->texts[i].bytes;
    translate->bytes = bytes;
    translate->max_terms_bytes = TERMS_BYTES + TERMS_FACTOR * bytes;
    translate->texts = malloc(bytes ? bytes : 1);
    if (!translate->texts)
        return ACRE_ENOMEM;
    bytes = 0;
    for (size_t i = 0; i < request->n_texts; i++) {
        const struct srv_text *text = &request->texts[i];
        struct item *item = &translate->items[i];

        item->translate = translate;
        item->route = route_of(translate, request, i);
        if (!item->route || unicode_is_blank(text->data, text->bytes))
            continue;
        item->text = memcpy(translate->texts + bytes, text->data, text->bytes);
        item->bytes = text->bytes;
        bytes += text->bytes;
    }
    return 0;
}

/* The names that the request borrows, in one piece: where they are, then texts. */
static int copy_markup(struct translate *translate, const struct srv_translate *request)
{
    size_t bytes = request->n_ignored * sizeof(struct prose_name);
    struct prose_name *names;
    char *at;

    translate->format = request->format;
    translate->markup.syntax = request->format == SRV_XML     ? HTML_XML
                               : request->format == SRV_XHTML ? HTML_XHTML
                                                              : HTML_PAGE;
    translate->markup.has_lines = request->format == SRV_XML && request->split == ACRE_SPLIT_LINES;
    translate->markup.with_attributes = request->with_attributes;
    for (size_t i = 0; i < request->n_ignored; i++)
        bytes += request->ignored[i].bytes;
    if (bytes == 0)
        return 0;
    names = malloc(bytes);
    if (!names)
        return ACRE_ENOMEM;
    at = (char *)(names + request->n_ignored);
    for (size_t i = 0; i < request->n_ignored; i++) {
        const struct srv_text *name = &request->ignored[i];

        names[i] = (struct prose_name){memcpy(at, name->data, name->bytes), name->bytes};
        at += name->bytes;
    }
    translate->markup.ignored = names;
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

static void enlist(struct translator *translator, struct translate *translate)
{
    translate->translator = translator;
    translate->sibling = translator->translates;
    translate->previous_link = &translator->translates;
    if (translate->sibling)
        translate->sibling->previous_link = &translate->sibling;
    translator->translates = translate;
}

static void take_route(struct route *route, const struct srv_translate *request,
                       const struct srv_route *from)
{
    route->request = (struct acre_request){.model = from->model,
                                           .source = code_of(from->source, from->model, false),
                                           .target = code_of(request->target, from->model, true),
                                           .next = request->is_streamed ? translator_on_next : NULL,
                                           .decoding = decoding_of(request, from->model),
                                           .split = request->split,
                                           .is_aligned = request->is_aligned,
                                           .caller = request->caller,
                                           .done = translator_on_done};
    for (size_t i = 0; i < from->n_dictionaries; i++) {
        dictionary_hold(from->dictionaries[i]);
        route->dictionaries[route->n_dictionaries++] = from->dictionaries[i];
    }
}

/* 0, or there is no memory. */
static int take_request(struct translate *translate, const struct srv_translate *request)
{
    translate->is_streamed = request->is_streamed;
    translate->is_raw = request->is_raw;
    translate->is_traced = request->is_aligned && request->format == SRV_TEXT;
    translate->caller = request->caller;
    translate->timeout_ms = request->timeout_ms;
    translate->deadline_ns = uv_hrtime() + request->timeout_ms * 1000000;
    translate->routes = calloc(request->n_routes + 1, sizeof(translate->routes[0]));
    if (!translate->routes)
        return ACRE_ENOMEM;
    for (; translate->n_routes < request->n_routes; translate->n_routes++)
        take_route(&translate->routes[translate->n_routes], request,
                   &request->routes[translate->n_routes]);
    return copy_texts(translate, request) != 0 ? ACRE_ENOMEM : copy_markup(translate, request);
}

int translate_start(struct translator *translator, const struct srv_translate *request,
                    translate_done_fn *done, void *user, struct translate **out,
                    struct srv_error *error)
{
    struct translate *translate =
        calloc(1, sizeof(*translate) + request->n_texts * sizeof(translate->items[0]));

    if (!translate)
        return error_no_memory(error);
    enlist(translator, translate);
    translate->n_items = request->n_texts;
    translate->done = done;
    translate->user = user;
    translate->freeing.data = translate;
    if (take_request(translate, request) != 0) {
        free_translate(translate);
        return error_no_memory(error);
    }
    *out = translate;
    submit_start(translate);
    return 0;
}

void translate_close(struct translate *translate)
{
    if (!translate)
        return;
    translate->is_closed = true;
    submit_stop(translate);
    translate_settle(translate);
}

/* ---- What the owner reads -------------------------------------------------------------------- */

int translate_explain(const struct translate *translate, size_t index, int status,
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

size_t translate_jobs_bytes(const struct translate *translate)
{
    return translate->jobs_bytes;
}

bool translate_is_done(const struct translate *translate)
{
    return translate->is_told;
}

int translate_error(const struct translate *translate, struct srv_error *error)
{
    if (translate->status != 0)
        return translate_explain(translate, translate->next, translate->status, &translate->err,
                                 error);
    for (size_t i = 0; i < translate->n_items; i++) {
        const struct acre_result *result = translate_result(translate, i);

        if (result && result->status != 0)
            return translate_explain(translate, i, result->status, &result->err, error);
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

struct srv_alignments translate_alignments(const struct translate *translate, size_t index)
{
    const struct item *item = &translate->items[index];
    const struct acre_result *result = translate_result(translate, index);

    if (item->is_prose)
        return (struct srv_alignments){item->rendition.best.alignments,
                                       item->rendition.best.n_alignments};
    if (!result)
        return (struct srv_alignments){.n = 0};
    return (struct srv_alignments){result->hypotheses[0].alignments,
                                   result->hypotheses[0].n_tokens};
}

bool translate_sentence(const struct translate *translate, size_t index, size_t i,
                        struct acre_alignment *sentence)
{
    const struct item *item = &translate->items[index];
    const struct acre_result *result = translate_result(translate, index);

    if (!result || i >= result->n_sentences)
        return false;
    *sentence = item->is_prose ? item->rendition.best.sentences[i]
                               : (struct acre_alignment){result->sentences[i],
                                                         result->hypotheses[0].sentences[i]};
    return true;
}
