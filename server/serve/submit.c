/* Happy path: split_part() opens a job for each text and splits it, markup and placeholders first
 * read as prose; when all are split queue_all() queues them at once. In a pool thread, a share of
 * its time after the other, of callers in turn; of long texts only one request at a time, so that
 * only one has all that they become while it may still be refused; one short text in the loop.
 *
 * Failure modes: a text is refused, or the queue has no room for all, which is said as soon as it
 * is known: no job stays that is not queued, and the owner is told at once. The owner closes early:
 * it leaves its turn to others, or stops after the part at hand. */
#include <stdlib.h>

#include "common/unicode.h"
#include "content/terms.h"
#include "serve/translate_internal.h"

enum { PART_BYTES = 2048 }; /* after so much of a text the clock is looked at */

/* A one-letter term may have a translation of a thousand bytes: without a bound, a short request
 * makes a huge reply. */
static int bound_terms(struct translate *translate, size_t bytes, struct acre_err *err)
{
    translate->terms_bytes += bytes;
    if (translate->terms_bytes <= translate->max_terms_bytes)
        return 0;
    return error_set(
        err, ACRE_ETOOLARGE,
        "glossary: expected at most %zu bytes for all that the terms in these texts are "
        "called, found more",
        translate->max_terms_bytes);
}

/* Markup, and text with placeholders or terms, is prose; its words are what is translated. */
static int read_prose(struct item *item, struct acre_err *err)
{
    const struct translate *translate = item->translate;
    const struct route *route = item->route;
    const enum srv_format format = translate->format;
    const struct known known = {route->request.model, route->dictionaries, route->n_dictionaries};
    int status;

    if (format == SRV_TEXT)
        status = prose_read_text(item->text, item->bytes, &known, &item->prose, err);
    else if (format == SRV_SUBRIP || format == SRV_WEBVTT)
        status = prose_read_subtitles(item->text, item->bytes, format == SRV_WEBVTT, &known,
                                      &item->prose, err);
    else
        status = prose_read_markup(item->text, item->bytes, &translate->markup, &known,
                                   &item->prose, err);

    if (status == 0 && route->n_dictionaries > 0)
        status = terms_mark(&item->prose, route->dictionaries, route->n_dictionaries, err);
    if (status == 0)
        status = bound_terms(item->translate, item->prose.terms_bytes, err);
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
    struct acre_request request = item->route->request;
    int status = item->translate->is_raw ? 0 : read_prose(item, err);

    item->is_read = true;
    if (status != 0)
        return status;
    item->translate->n_prose += item->is_prose;
    item->translate->n_whole += item_is_whole(item);
    request.text = item->is_prose ? item->prose.text : item->text;
    request.text_bytes = item->is_prose ? item->prose.text_bytes : item->bytes;
    request.is_aligned = request.is_aligned || item->is_prose;
    if (item->prose.is_markup) /* whose lines are its blocks */
        request.split =
            request.split == ACRE_SPLIT_NOTHING ? ACRE_SPLIT_ONLY_LINES : ACRE_SPLIT_LINES;
    request.user = item;
    request.timeout_ms = left_ms(item->translate);
    if (item->is_prose && unicode_is_blank(request.text, request.text_bytes))
        return 0;
    return acre_job_open(&request, &item->job, err);
}

static bool has_more(const struct translate *translate)
{
    return translate->status == 0 && translate->next < translate->n_items;
}

/* What the engine would say when they are queued, before there are more of them. */
static int bound_tokens(struct translate *translate, const struct acre_job *job)
{
    const size_t most = acre_engine_max_queued_tokens(translate->translator->engine);
    const size_t before = translate->n_tokens, n = acre_job_tokens(job);

    translate->n_tokens += n;
    if (before == 0 || n == 0 || before + n <= most) /* one alone is never too large */
        return 0;
    return error_set(&translate->err, ACRE_ETOOLARGE,
                     "these texts have more tokens than are queued at once (%zu); send them in "
                     "several requests",
                     most);
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
    if (item->job && translate->status == 0 && is_split) {
        translate->status = bound_tokens(translate, item->job);
        translate->jobs_bytes += acre_job_bytes(item->job);
    }
    translate->next += translate->status == 0 && is_split;
}

/* Any of them may be done before this returns. */
static int queue_route(struct translate *translate, const struct route *route,
                       struct acre_job **jobs)
{
    size_t n = 0;
    int status;

    for (size_t i = 0; i < translate->n_items; i++)
        if (translate->items[i].job && translate->items[i].route == route)
            jobs[n++] = translate->items[i].job;
    status = n > 0 ? acre_jobs_queue(jobs, n, &translate->err) : 0;
    if (status == 0)
        translate->n_submitted += n;
    return status;
}

/* The engine queues jobs of one model at once. Those of a route before the one that is refused are
 * cancelled when the owner, who is told, closes. */
static void queue_all(struct translate *translate)
{
    struct acre_job **jobs = malloc(translate->n_items * sizeof(struct acre_job *));

    if (!jobs)
        translate->status = error_set_no_memory(&translate->err);
    while (translate->status == 0 && translate->n_queued_routes < translate->n_routes) {
        translate->status =
            queue_route(translate, &translate->routes[translate->n_queued_routes], jobs);
        translate->n_queued_routes += translate->status == 0;
    }
    free(jobs);
}

/* What was not queued ends here. */
static void drop_jobs(struct translate *translate)
{
    for (size_t i = 0; translate->status != 0 && i < translate->n_items; i++) {
        struct item *item = &translate->items[i];

        if (!item->job || item->route < translate->routes + translate->n_queued_routes)
            continue;
        acre_job_close(item->job);
        item->job = NULL;
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
    translator_on_done(&translate->nothing);
}

void submit_cancel(struct translate *translate)
{
    for (size_t i = 0; i < translate->n_items; i++)
        if (translate->items[i].job)
            acre_job_cancel(translate->items[i].job);
}

/* Pool thread. */
static void submit_part(void *user)
{
    struct translate *translate = user;
    int64_t end = translate_worked_ns() + SHARE_NS;

    while (has_more(translate) && translate_worked_ns() < end) {
        if (atomic_load(&translate->is_cancelled))
            translate->status = ACRE_ECANCELLED;
        else
            split_part(translate, PART_BYTES);
    }
    if (translate->status == 0 && translate->next == translate->n_items)
        queue_all(translate);
    drop_jobs(translate);
    translate->turn.goes_on = has_more(translate);
}

static void on_submitted(void *user)
{
    struct translate *translate = user;

    translate_end_turn(translate);
    drop_texts(translate);
    if (translate->is_closed)
        submit_cancel(translate);
    if (translate->status == 0 && !translate_is_idle(translate))
        translate_tell_news(translate);
    translate_settle(translate);
}

void submit_start(struct translate *translate)
{
    struct translator *translator = translate->translator;

    if (translate->n_items == 1 && translate->items[0].bytes <= SHORT_BYTES) {
        submit_now(translate);
        return;
    }
    translate_wait_for_turn(
        translate, translate->bytes > LONG_BYTES ? &translator->splitting : &translator->working,
        submit_part, on_submitted);
}

void submit_stop(struct translate *translate)
{
    atomic_store(&translate->is_cancelled, true);
    if (turn_leave(&translate->turn))
        translate_end_turn(translate);
    if (!translate->is_submitting)
        submit_cancel(translate);
}
