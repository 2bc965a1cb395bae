/* Happy path: glossary_call_start() -> read_fields() -> on_fields(): its key, and a token of its
 * rate -> pending_admit() -> begin() -> work(): what there is -> the verb's read() -> go_on(): the
 * reply that it made, or the change -> on_changed(), when the store has it -> reply; where another
 * server has changed the glossary meanwhile, work() again. Long bodies are read in the pool, and so
 * are long entries and lists: each has its turn there, and then finds what there is.
 *
 * Failure modes: what is wrong with the request is refused before anything changes. The client
 * leaves, or the server stops: while a thread reads, or other replicas are asked, that waits until
 * they are through; while the store writes, the reply goes at once and the call stays, unseen. */
#include "api/glossary_call.h"

#include <stdlib.h>
#include <string.h>

#include "api/deepl.h"
#include "api/reply.h"

enum { TIMEOUT_MS = 60000 };

static void forget(struct glossary_call *call)
{
    glossary_drop(call->base);
    glossaries_drop_list(call->listed, call->n_listed);
    call->base = NULL;
    call->listed = NULL;
    call->n_listed = 0;
}

static void free_call(struct glossary_call *call)
{
    pending_fini(&call->pending);
    forget(call);
    glossary_draft_fini(&call->draft);
    fields_fini(&call->fields);
    free(call->body);
    free(call);
}

static void end_with_error(struct glossary_call *call, struct srv_error *error)
{
    deepl_phrase(error);
    if (call->pending.http)
        reply_error(call->pending.http, error);
    free_call(call);
}

static void give_up(void *user, enum http_give_up why)
{
    struct glossary_call *call = user;
    struct srv_error error;

    if (why == HTTP_DEADLINE)
        error_http(&error, 504, "deadline_exceeded", "The glossary was not ready in time");
    else
        error_from_engine(&error, why == HTTP_SHUTDOWN ? ACRE_ECLOSED : ACRE_ECANCELLED, NULL);
    reply_error(call->pending.http, &error);
    call->pending.http = NULL;
    if (!call->is_writing)
        free_call(call);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void reply_body(struct glossary_call *call)
{
    const struct http_reply reply = {.status = 200,
                                     .body = call->body,
                                     .body_bytes = call->body_bytes,
                                     .content_type = call->type};

    call->body = NULL;
    call->pending.is_charged = true;
    http_reply(call->pending.http, &reply);
    free_call(call);
}

static void reply_changed(struct glossary_call *call)
{
    const struct http_reply empty = {.status = call->verb->status};

    if (call->verb->render)
        reply_json(call->pending.http, call->verb->status, call->verb->render(call, call->after));
    else
        http_reply(call->pending.http, &empty);
}

static void work(struct glossary_call *call);

static void on_changed(void *user, bool is_outdated, const struct srv_error *error)
{
    struct glossary_call *call = user;

    call->is_writing = false;
    if (is_outdated && call->pending.http) {
        glossary_draft_fini(&call->draft);
        work(call);
        return;
    }
    if (error) {
        call->pending.error = *error;
        end_with_error(call, &call->pending.error);
        return;
    }
    if (call->pending.http)
        reply_changed(call);
    call->pending.is_charged = true;
    free_call(call);
}

/* ---- Working --------------------------------------------------------------------------------- */

/* What the verb needs, as it is now. What was found before is held no more. */
static int find(struct glossary_call *call, struct srv_error *error)
{
    struct glossaries *glossaries = &call->pending.server->glossaries;

    forget(call);
    if (call->verb->needs_glossary) {
        call->base = glossaries_find(glossaries, call->id, call->owner);
        if (!call->base)
            return error_http(error, 404, "glossary_not_found", "Glossary not found");
        glossary_hold(call->base);
    }
    if (call->verb->needs_list &&
        !glossaries_list(glossaries, call->owner, &call->listed, &call->n_listed))
        return error_no_memory(error);
    return 0;
}

/* Whether dictionaries have been exchanged since the call found its base. */
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
    struct glossaries *glossaries = &call->pending.server->glossaries;
    struct glossary *before = NULL;

    if (call->verb->needs_glossary) {
        before = glossaries_find(glossaries, call->id, call->owner);
        if (!before)
            return error_http(error, 404, "glossary_not_found", "Glossary not found");
        if (is_outdated(call, before)) {
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
    if (call->pending.rc == 0 && call->body)
        reply_body(call);
    else if (call->pending.rc != 0 || change(call, &call->pending.error) != 0)
        end_with_error(call, &call->pending.error);
}

/* Any thread. */
static void read_all(void *user)
{
    struct glossary_call *call = user;

    if (call->pending.rc == 0 && call->verb->read)
        call->pending.rc = call->verb->read(call, &call->pending.error);
}

static void on_read(void *user)
{
    struct glossary_call *call = user;

    if (!pending_gives_up(&call->pending))
        go_on(call);
}

static void on_turn(void *user)
{
    struct glossary_call *call = user;

    call->pending.rc = find(call, &call->pending.error);
}

static void wait_for_turn(struct glossary_call *call, struct turns *turns, uint64_t caller,
                          void (*begin)(void *), void (*in_pool)(void *), void (*done)(void *))
{
    call->pending.turn.begin = begin;
    call->pending.turn.work = in_pool;
    call->pending.turn.done = done;
    call->pending.turn.user = call;
    turns_wait(turns, &call->pending.turn, caller);
}

static bool is_small(const struct glossary_call *call)
{
    const size_t cost = call->verb->cost ? call->verb->cost(call) : 0;

    return call->fields.held_bytes + cost <= PENDING_SMALL_BODY_BYTES;
}

/* A call that waits holds nothing that others may change or delete meanwhile. */
static void work(struct glossary_call *call)
{
    call->pending.rc = find(call, &call->pending.error);
    if (call->pending.rc != 0 || is_small(call)) {
        read_all(call);
        go_on(call);
        return;
    }
    forget(call);
    wait_for_turn(call, &call->pending.server->glossary_work,
                  access_caller(call->pending.http, &call->pending.grant), on_turn, read_all,
                  on_read);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* It has been admitted, or rc says that it is not. */
static void begin(void *user)
{
    struct glossary_call *call = user;

    if (call->pending.rc == 0)
        work(call);
    else
        end_with_error(call, &call->pending.error);
}

/* Any thread. What is refused goes here, too: it may be a tree of fifty times the body. */
static void read_fields(void *user)
{
    static const struct form_shape shape = {.list = "dictionaries"};
    struct glossary_call *call = user;

    call->pending.rc = fields_read(&call->fields, call->pending.http, glossary_draft_fields, &shape,
                                   &call->pending.error);
    if (call->pending.rc == 0)
        call->pending.rc = glossary_draft_check(&call->fields, &call->pending.error);
    if (call->pending.rc != 0)
        fields_fini(&call->fields);
}

/* A request takes its token also when nobody waits for the reply any more. */
static void on_fields(void *user)
{
    struct glossary_call *call = user;

    call->pending.rc =
        access_identify(call->pending.server, call->pending.http, &call->fields, "auth_key",
                        &call->pending.grant, call->pending.rc, &call->pending.error);
    call->owner = glossary_owner(call->pending.grant.key);
    if (pending_gives_up(&call->pending))
        return;
    http_forget_body(call->pending.http, call->fields.held_bytes);
    pending_admit(&call->pending, 0, begin);
}

void glossary_call_start(struct server *server, struct http_request *request, const char *rest,
                         const struct glossary_verb *verb)
{
    struct glossary_call *call = calloc(1, sizeof(*call));
    struct srv_error error;
    size_t n = rest ? strcspn(rest, "/") : 0, body_bytes;

    if (!call) {
        error_no_memory(&error);
        reply_error(request, &error);
        return;
    }
    call->verb = verb;
    if (n < GLOSSARY_ID_BYTES) /* else there is none of that name */
        memcpy(call->id, rest ? rest : "", n);
    if (pending_await(&call->pending, server, request, TIMEOUT_MS, give_up) != 0) {
        end_with_error(call, &call->pending.error);
        return;
    }
    http_body(request, &body_bytes);
    if (body_bytes > PENDING_SMALL_BODY_BYTES) {
        wait_for_turn(call, &server->bodies, access_guess_caller(server, request), NULL,
                      read_fields, on_fields);
        return;
    }
    read_fields(call);
    on_fields(call);
}
