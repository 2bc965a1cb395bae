/* Happy path: glossary_call_start() -> read(), in the pool where much is to be read -> go_on(): the
 * change -> on_changed(), when the store has it -> reply.
 *
 * Failure modes: what is wrong with the request is refused before anything changes. The client
 * leaves, or the server stops: while a thread reads the body, which goes with the request, that
 * waits until it has read it; while the store writes, the reply goes at once and the call stays,
 * unseen. */
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/deepl.h"
#include "api/glossaries.h"
#include "api/reply.h"

enum { SMALL_BODY_BYTES = 16384, TIMEOUT_MS = 60000 };

static void free_call(struct glossary_call *call)
{
    glossary_free(call->base);
    glossary_draft_fini(&call->draft);
    fields_fini(&call->fields);
    free(call->body);
    free(call);
}

static void end_with_error(struct glossary_call *call, struct srv_error *error)
{
    deepl_word(error);
    if (call->http)
        reply_error(call->http, error);
    free_call(call);
}

/* Of those that wait to be read. */
static void leave(struct glossary_call *call)
{
    struct glossary_call **at = &call->server->reading;

    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
}

static void give_up(struct glossary_call *call, enum http_give_up why)
{
    struct srv_error error;

    leave(call);

    if (why == HTTP_DEADLINE)
        error_reply(&error, 504, "deadline_exceeded", "The glossary was not ready in time");
    else
        error_from_engine(&error, why == HTTP_SHUTDOWN ? ACRE_ECLOSED : ACRE_ECANCELLED, NULL);
    reply_error(call->http, &error);
    call->http = NULL;
    if (!call->is_writing)
        free_call(call);
}

static void on_give_up(void *user, enum http_give_up why)
{
    struct glossary_call *call = user;

    call->is_given_up = true;
    call->why = why;
    if (!call->is_reading)
        give_up(call, why);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void reply_body(struct glossary_call *call)
{
    const struct http_reply reply = {.status = 200,
                                     .body = call->body,
                                     .body_bytes = call->body_bytes,
                                     .content_type = call->type};

    call->body = NULL;
    http_reply(call->http, &reply);
}

static void reply_changed(struct glossary_call *call)
{
    const struct http_reply empty = {.status = call->verb->status};

    if (call->verb->render)
        reply_json(call->http, call->verb->status, call->verb->render(call, call->after));
    else
        http_reply(call->http, &empty);
}

static void on_changed(void *user, const struct srv_error *error)
{
    struct glossary_call *call = user;

    call->is_writing = false;
    if (error) {
        call->error = *error;
        end_with_error(call, &call->error);
        return;
    }
    if (call->http)
        reply_changed(call);
    free_call(call);
}

/* ---- The call -------------------------------------------------------------------------------- */

static void work(struct glossary_call *call);

/* As it is now; whether the call can start from it. */
static int find_base(struct glossary_call *call, struct srv_error *error)
{
    const struct glossary *glossary =
        glossaries_find(&call->server->glossaries, call->id, call->owner);

    if (!glossary)
        return error_reply(error, 404, "glossary_not_found", "Glossary not found");
    glossary_free(call->base);
    call->base = glossary_with(glossary, NULL, NULL);
    return call->base ? 0 : error_from_engine(error, ACRE_ENOMEM, NULL);
}

/* Whether dictionaries have been exchanged since the call copied its base. */
static bool is_outdated(const struct glossary_call *call, const struct glossary *glossary)
{
    if (glossary->n_parts != call->base->n_parts)
        return true;
    for (size_t i = 0; i < glossary->n_parts; i++)
        if (glossary->parts[i].dictionary != call->base->parts[i].dictionary)
            return true;
    return false;
}

static int change(struct glossary_call *call, struct srv_error *error)
{
    struct glossaries *glossaries = &call->server->glossaries;
    struct glossary *before = NULL;

    if (call->verb->needs_glossary) {
        before = glossaries_find(glossaries, call->id, call->owner);
        if (!before)
            return error_reply(error, 404, "glossary_not_found", "Glossary not found");
        if (is_outdated(call, before)) {
            if (find_base(call, error) != 0)
                return -1;
            glossary_draft_fini(&call->draft);
            work(call);
            return 0;
        }
    }
    if (call->verb->change(call, before, &call->after, error) != 0)
        return -1;
    call->is_writing = true;
    if (glossaries_change(glossaries, before, call->after, on_changed, call, error) == 0)
        return 0;
    call->is_writing = false;
    return -1;
}

static void go_on(struct glossary_call *call)
{
    if (call->rc == 0 && call->body) {
        reply_body(call);
        free_call(call);
        return;
    }
    if (call->rc != 0 || change(call, &call->error) != 0)
        end_with_error(call, &call->error);
}

/* Any thread. */
static void read_all(struct glossary_call *call)
{
    if (!call->fields.object)
        call->rc =
            fields_read(&call->fields, call->http, glossary_draft_fields, NULL, &call->error);
    if (call->rc == 0 && call->verb->read)
        call->rc = call->verb->read(call, &call->error);
}

static void read_in_pool(uv_work_t *uv_work)
{
    read_all(uv_work->data);
}

static void on_read(uv_work_t *uv_work, int status);

static void read_first(struct server *server)
{
    if (!server->reading)
        return;
    server->reading->is_reading = true;
    server->n_working++;
    uv_queue_work(server->loop, &server->reading->work, read_in_pool, on_read);
}

static void on_read(uv_work_t *uv_work, int status)
{
    struct glossary_call *call = uv_work->data;

    (void)status;
    call->is_reading = false;
    call->server->n_working--;
    call->server->reading = call->next;
    read_first(call->server);
    if (call->is_given_up)
        give_up(call, call->why);
    else
        go_on(call);
}

static bool is_small(const struct glossary_call *call)
{
    size_t bytes, n_parts = call->base ? call->base->n_parts : 0;

    http_body(call->http, &bytes);
    for (size_t i = 0, entries; i < n_parts; i++) {
        dictionary_text(call->base->parts[i].dictionary, &entries);
        bytes += entries;
    }
    return bytes <= SMALL_BODY_BYTES;
}

static void work(struct glossary_call *call)
{
    struct glossary_call **end = &call->server->reading;

    if (is_small(call)) {
        read_all(call);
        go_on(call);
        return;
    }
    while (*end)
        end = &(*end)->next;
    *end = call;
    call->next = NULL;
    if (call->server->reading == call)
        read_first(call->server);
}

void glossary_call_start(struct server *server, struct http_request *request, const char *rest,
                         const struct glossary_verb *verb)
{
    struct glossary_call *call = calloc(1, sizeof(*call));
    struct srv_error error;
    struct key *key = NULL;
    size_t n = rest ? strcspn(rest, "/") : 0;

    if (!call) {
        error_from_engine(&error, ACRE_ENOMEM, NULL);
        reply_error(request, &error);
        return;
    }
    call->server = server;
    call->http = request;
    call->verb = verb;
    call->work.data = call;
    memcpy(call->id, rest ? rest : "", n < GLOSSARY_ID_BYTES ? n : GLOSSARY_ID_BYTES - 1);
    call->rc = access_check_key(server, request, NULL, NULL, &key, &call->error);
    call->owner = glossary_owner(key);
    if (call->rc != 0 || (verb->needs_glossary && find_base(call, &call->error) != 0)) {
        end_with_error(call, &call->error);
        return;
    }
    if (!http_await(request, TIMEOUT_MS, on_give_up, call)) {
        error_reply(&call->error, 503, "server_busy", "Too many requests wait for a translation");
        call->error.retry_after_s = 1;
        end_with_error(call, &call->error);
        return;
    }
    work(call);
}
