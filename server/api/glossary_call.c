/* Happy path: glossary_call_start() -> read_fields() -> on_fields(): its key, and a token of its
 * rate -> admit() -> begin() -> work(): what there is -> the verb's read() -> go_on(): the reply
 * that it made, or the change -> on_changed(), when the store has it -> reply. Long bodies are read
 * in the pool, and so are long entries and lists: each has its turn there, and then finds what
 * there is.
 *
 * Failure modes: what is wrong with the request is refused before anything changes. The client
 * leaves, or the server stops: while a thread reads, or other replicas are asked, that waits until
 * they are through; while the store writes, the reply goes at once and the call stays, unseen. */
#include <stdlib.h>
#include <string.h>

#include "api/deepl.h"
#include "api/glossaries.h"
#include "api/reply.h"

/* What the loop reads itself, in a tenth of a millisecond. */
enum { SMALL_BYTES = 16384, TIMEOUT_MS = 60000 };

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
    limits_settle(&call->server->limits, &call->grant, call->is_charged);
    forget(call);
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

static void give_up(struct glossary_call *call, enum http_give_up why)
{
    struct srv_error error;

    turn_leave(&call->turn);
    if (why == HTTP_DEADLINE)
        error_http(&error, 504, "deadline_exceeded", "The glossary was not ready in time");
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
    if (!call->turn.is_working && !call->is_asking)
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
    call->is_charged = true;
    http_reply(call->http, &reply);
    free_call(call);
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
    call->is_charged = true;
    free_call(call);
}

/* ---- Working --------------------------------------------------------------------------------- */

static void work(struct glossary_call *call);

/* What the verb needs, as it is now. What was found before is held no more. */
static int find(struct glossary_call *call, struct srv_error *error)
{
    struct glossaries *glossaries = &call->server->glossaries;

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
    struct glossaries *glossaries = &call->server->glossaries;
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
    if (call->rc == 0 && call->body)
        reply_body(call);
    else if (call->rc != 0 || change(call, &call->error) != 0)
        end_with_error(call, &call->error);
}

/* Any thread. */
static void read_all(void *user)
{
    struct glossary_call *call = user;

    if (call->rc == 0 && call->verb->read)
        call->rc = call->verb->read(call, &call->error);
}

static void on_read(void *user)
{
    struct glossary_call *call = user;

    if (call->is_given_up)
        give_up(call, call->why);
    else
        go_on(call);
}

static void on_turn(void *user)
{
    struct glossary_call *call = user;

    call->rc = find(call, &call->error);
}

static void wait_for_turn(struct glossary_call *call, struct turns *turns, uint64_t caller,
                          void (*begin)(void *), void (*in_pool)(void *), void (*done)(void *))
{
    call->turn.begin = begin;
    call->turn.work = in_pool;
    call->turn.done = done;
    call->turn.user = call;
    turns_wait(turns, &call->turn, caller);
}

static bool is_small(const struct glossary_call *call)
{
    const size_t cost = call->verb->cost ? call->verb->cost(call) : 0;

    return call->fields.held_bytes + cost <= SMALL_BYTES;
}

/* A call that waits holds nothing that others may change or delete meanwhile. */
static void work(struct glossary_call *call)
{
    call->rc = find(call, &call->error);
    if (call->rc != 0 || is_small(call)) {
        read_all(call);
        go_on(call);
        return;
    }
    forget(call);
    wait_for_turn(call, &call->server->glossary_work, access_caller(call->http, &call->grant),
                  on_turn, read_all, on_read);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* It has been admitted, or rc says that it is not. */
static void begin(struct glossary_call *call)
{
    if (call->rc == 0)
        work(call);
    else
        end_with_error(call, &call->error);
}

static void on_admitted(void *user, int rc, const struct srv_error *error)
{
    struct glossary_call *call = user;

    call->is_asking = false;
    call->server->n_working--;
    call->rc = rc;
    if (rc != 0)
        call->error = *error;
    if (call->is_given_up)
        give_up(call, call->why);
    else
        begin(call);
}

static void admit(struct glossary_call *call)
{
    struct server *server = call->server;

    http_forget_body(call->http, call->fields.held_bytes);
    if (call->rc == 0)
        call->rc = limits_admit(&server->limits, &call->grant, 0, on_admitted, call, &call->error);
    if (call->rc == LIMITS_LATER) {
        call->is_asking = true;
        server->n_working++;
    } else {
        begin(call);
    }
}

/* Any thread. What is refused goes here, too: it may be a tree of fifty times the body. */
static void read_fields(void *user)
{
    struct glossary_call *call = user;

    call->rc = fields_read(&call->fields, call->http, glossary_draft_fields, NULL, &call->error);
    if (call->rc == 0)
        call->rc = glossary_draft_check(&call->fields, &call->error);
    if (call->rc != 0)
        fields_fini(&call->fields);
}

/* A request takes its token also when nobody waits for the reply any more. */
static void on_fields(void *user)
{
    struct glossary_call *call = user;

    call->rc = access_identify(call->server, call->http, &call->fields, "auth_key", &call->grant,
                               call->rc, &call->error);
    call->owner = glossary_owner(call->grant.key);
    if (call->is_given_up)
        give_up(call, call->why);
    else
        admit(call);
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
    call->server = server;
    call->http = request;
    call->verb = verb;
    if (n < GLOSSARY_ID_BYTES) /* else there is none of that name */
        memcpy(call->id, rest ? rest : "", n);
    if (!http_await(request, TIMEOUT_MS, on_give_up, call)) {
        error_http(&call->error, 503, "server_busy", "Too many requests wait for a translation");
        call->error.retry_after_s = 1;
        end_with_error(call, &call->error);
        return;
    }
    http_body(request, &body_bytes);
    if (body_bytes > SMALL_BYTES) {
        wait_for_turn(call, &server->glossary_bodies, access_guess_caller(server, request), NULL,
                      read_fields, on_fields);
        return;
    }
    read_fields(call);
    on_fields(call);
}
