/* Happy path: call_start() -> read_fields() -> on_fields(): its key, and a token of its rate ->
 * go_on(): the dialect's parse(), pending_admit() -> begin(): detect_look() in the pool, if it
 * must, choice_make(), translate_start() ... on_translated() -> write_reply() -> reply. A long body
 * is read in the pool, of callers in turn, and a long reply written there.
 *
 * A streamed one instead: stream(), first once it is started and then whenever a sentence has come
 * or the client has taken what was sent.
 *
 * One that brings a file: its translation is made in the pool, too. If it goes on without its
 * client: on_queued() -> the dialect's accept(), which replies -> its finish(), later.
 *
 * Failure modes: anything wrong with the request is refused before it is queued. give_up() ends a
 * call at its deadline, when its client left, or when the server stops; while a thread of the pool
 * reads the body, which goes with the request, that waits until it has read it. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/choice.h"
#include "api/blob.h"
#include "api/reply.h"
#include "api/upload.h"

/* Written by the loop itself, with all that may be asked for, where a text counts as more than its
 * bytes. */
enum { SMALL_REPLY_BYTES = 2048, TEXT_COST_BYTES = 64 };

enum { MOST_NAMES = 128 }; /* that a field of names may have, and more */

bool call_take_slot(struct call *call)
{
    struct server *server = call->pending.server;
    size_t n_own = 0;

    for (size_t i = 0; i < server->n_heavy; i++)
        n_own += server->heavy_callers[i] == call->request.caller;
    if (server->n_heavy == SERVER_HEAVY_CALLS || n_own == SERVER_HEAVY_CALLS / 2)
        return false;
    server->heavy_callers[server->n_heavy++] = call->request.caller;
    call->has_slot = true;
    return true;
}

static void leave_slot(const struct call *call)
{
    struct server *server = call->pending.server;
    uint64_t *own = server->heavy_callers;

    if (!call->has_slot)
        return;
    while (*own != call->request.caller)
        own++;
    *own = server->heavy_callers[--server->n_heavy];
}

static void in_pool(uv_work_t *work)
{
    struct call *call = work->data;

    call->in_pool(call);
}

static void on_worked(uv_work_t *work, int status)
{
    struct call *call = work->data;

    (void)status;
    call->pending.is_working = false;
    call->pending.server->n_working--;
    call->after_pool(call);
}

static void work_in_pool(struct call *call, void (*work)(void *call), void (*after)(void *call))
{
    call->work.data = call;
    call->in_pool = work;
    call->after_pool = after;
    call->pending.is_working = true;
    call->pending.server->n_working++;
    uv_queue_work(call->pending.server->loop, &call->work, in_pool, on_worked);
}

/* Pool thread. */
static void free_fields(void *user)
{
    struct call *call = user;

    fields_fini(&call->fields);
}

/* What a long body became may be many texts. */
static void free_call(struct call *call)
{
    if (call->is_long) {
        work_in_pool(call, free_fields, free);
        return;
    }
    fields_fini(&call->fields);
    free(call);
}

void call_end(struct call *call)
{
    if (call->pending.is_working) { /* who works frees it */
        call->is_ended = true;
        return;
    }
    pending_fini(&call->pending);
    stream_leave(call);
    leave_slot(call);
    translate_close(call->translate);
    blob_close(call->result);
    upload_close(call->upload);
    free(call->request.texts);
    free(call->request.routes);
    free(call->request.route_of);
    free(call->found);
    free(call->ignored);
    free(call->body);
    dictionary_drop(call->dictionary);
    free_call(call);
}

static void end_with_error(struct call *call, struct srv_error *error)
{
    call->dialect->phrase(call, error);
    if (call->file)
        call->dialect->finish(call, error);
    else if (call->stream.has_begun)
        stream_end_with_error(call, error);
    else if (call->dialect->refuse)
        call->dialect->refuse(call, error);
    else
        reply_error(call->pending.http, error);
    call_end(call);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* What takes more than all requests together may is not to come again. */
static void refuse_memory(struct call *call, size_t bytes)
{
    const int64_t most = call->pending.server->settings->max_bodies_bytes;
    struct srv_error error;

    if (bytes > (size_t)most) {
        error_http(&error, 413, "text_too_long",
                   "expected fewer sentences: they take %zu bytes of the %lld there are", bytes,
                   (long long)most);
    } else {
        error_http(&error, 503, "server_busy", "Other requests take all memory");
        error.retry_after_s = 1;
    }
    end_with_error(call, &error);
}

/* Once all is queued, what its jobs hold counts until the reply, with what the fields do. False:
 * the call has ended, as there is no memory for it. */
static bool hold_jobs(struct call *call)
{
    size_t bytes;

    if (call->is_held || !translate_is_queued(call->translate))
        return true;
    call->is_held = true;
    bytes = translate_jobs_bytes(call->translate);
    if (http_hold(call->pending.http, bytes))
        return true;
    refuse_memory(call, bytes);
    return false;
}

/* There is another sentence, or room for one. */
static void stream(void *user)
{
    struct call *call = user;
    struct srv_error error;

    switch (stream_go_on(call, stream, &error)) {
    case STREAM_FAILED:
        end_with_error(call, &error);
        break;
    case STREAM_ENDED:
        call_end(call);
        break;
    case STREAM_WAITS:
    case STREAM_GOES_ON:
        break;
    }
}

static void give_up(void *user, enum http_give_up why)
{
    struct call *call = user;
    struct srv_error error;

    if (why == HTTP_DEADLINE)
        error_deadline(&error, call->dialect->accept
                                   ? (uint64_t)call->pending.server->settings->request_timeout_ms
                                   : call->request.timeout_ms);
    else if (why == HTTP_SHUTDOWN)
        error_from_engine(&error, ACRE_ECLOSED, NULL);
    else
        error_from_engine(&error, ACRE_ECANCELLED, NULL); /* to nobody */
    end_with_error(call, &error);
}

/* Any thread. */
static void write_reply(void *user)
{
    struct call *call = user;
    const struct dialect *dialect = call->dialect;
    struct acre_err err = {.code = ACRE_ENOMEM};
    FILE *out = open_memstream(&call->body, &call->body_bytes);
    bool is_whole = false;

    if (out) {
        is_whole =
            dialect->write ? dialect->write(call, out, &err) : json_put(out, dialect->render(call));
        putc('\n', out);
        is_whole &= fclose(out) == 0;
    }
    if (is_whole)
        return;
    free(call->body);
    call->body = NULL;
    error_from_engine(&call->pending.error, err.code, &err);
}

static void send_reply(struct call *call)
{
    if (!call->body) {
        end_with_error(call, &call->pending.error);
        return;
    }
    if (call->dialect->count)
        call->dialect->count(call);
    call->pending.is_charged = true;
    reply_text(call->pending.http, call->body, call->body_bytes);
    call->body = NULL;
    call_end(call);
}

/* If it was told to give up meanwhile, and the reply is there, it is sent all the same. */
static void send_written(void *user)
{
    struct call *call = user;

    if (call->body || !pending_gives_up(&call->pending))
        send_reply(call);
}

static void wait_for_turn(struct call *call, struct turns *turns, uint64_t caller,
                          void (*work)(void *call), void (*done)(void *call))
{
    call->pending.turn.work = work;
    call->pending.turn.done = done;
    call->pending.turn.user = call;
    turns_wait(turns, &call->pending.turn, caller);
}

static bool is_small(const struct call *call)
{
    size_t bytes = TEXT_COST_BYTES * call->request.n_texts;

    for (size_t i = 0; i < call->request.n_texts; i++)
        bytes += call->request.texts[i].bytes;
    return bytes <= SMALL_REPLY_BYTES;
}

/* Any thread. */
static void make_result(void *user)
{
    struct call *call = user;
    const struct srv_text *text = &call->request.texts[0];
    const char *translation = translate_text(call->translate, 0, 0);

    call->result =
        upload_result(call->upload, translation ? translation : text->data,
                      translation ? strlen(translation) : text->bytes, call->request.target);
}

static void end_with_result(struct call *call)
{
    struct srv_error error;

    if (!call->result) {
        error_no_memory(&error);
        end_with_error(call, &error);
        return;
    }
    if (call->file)
        call->dialect->finish(call, NULL);
    else
        call->dialect->reply(call);
    call_end(call);
}

static void on_made(void *user)
{
    struct call *call = user;

    if (call->is_ended)
        call_end(call);
    else if (!pending_gives_up(&call->pending))
        end_with_result(call);
}

/* Its client gets its reply and leaves, if all is queued. False: the call has ended. */
static bool on_queued(struct call *call)
{
    struct srv_error error;

    if (call->file || !translate_is_queued(call->translate) ||
        call->dialect->accept(call, &error) == 0)
        return true;
    end_with_error(call, &error);
    return false;
}

static void on_translated(void *user)
{
    struct call *call = user;
    struct srv_error error;

    if (!hold_jobs(call))
        return;
    if (call->request.is_streamed) {
        stream(call);
        return;
    }
    if (call->dialect->accept && !on_queued(call))
        return;
    if (!translate_is_done(call->translate))
        return;
    if (translate_error(call->translate, &error) != 0) {
        end_with_error(call, &error);
        return;
    }
    if (call->upload && is_small(call)) {
        make_result(call);
        end_with_result(call);
    } else if (call->upload) {
        work_in_pool(call, make_result, on_made);
    } else if (call->dialect->reply) {
        call->dialect->reply(call);
        call->pending.is_charged = true;
        call_end(call);
    } else if (call->dialect->is_heavy) {
        wait_for_turn(call, &call->pending.server->heavy, call->request.caller, write_reply,
                      send_written);
    } else if (is_small(call)) {
        write_reply(call);
        send_reply(call);
    } else {
        work_in_pool(call, write_reply, send_written);
    }
}

static int start(struct call *call, struct srv_error *error)
{
    if (choice_make(call, error) != 0)
        return -1;
    if (!call->dialect->accept)
        http_set_deadline(call->pending.http, call->request.timeout_ms);
    return translate_start(call->pending.server->translator, &call->request, on_translated, call,
                           &call->translate, error);
}

/* No other field takes as many. */
static size_t most_items(const struct call *call)
{
    return call->max_texts > MOST_NAMES ? call->max_texts : MOST_NAMES;
}

/* Any thread, which also frees what nobody shall read: a tree of forty times the body's size, also
 * where it is refused, would wait to be freed behind all bodies that wait to be read. */
static void read_fields(void *user)
{
    struct call *call = user;
    const struct dialect *dialect = call->dialect;

    call->pending.rc = fields_read(&call->fields, call->pending.http, dialect->fields,
                                   &dialect->form, &call->pending.error);
    if (call->pending.rc == 0 && dialect->prepare)
        call->pending.rc = dialect->prepare(call, &call->pending.error);
    fields_flatten(&call->fields, most_items(call));
    if (call->pending.rc != 0 || !dialect->form.file)
        return;
    call->upload = upload_open(&call->fields);
    if (!call->upload)
        call->pending.rc = error_no_memory(&call->pending.error);
}

static void answer(struct call *call)
{
    json_t *body = call->dialect->answer(call, &call->pending.error);

    if (!body) {
        end_with_error(call, &call->pending.error);
        return;
    }
    reply_json(call->pending.http, 200, body);
    call->pending.is_charged = true;
    call_end(call);
}

/* Pool thread. */
static void keep(void *user)
{
    struct call *call = user;

    call->pending.rc = call->dialect->keep(call, &call->pending.error);
}

/* What is kept is told also if it was told to give up meanwhile. */
static void on_kept(void *user)
{
    struct call *call = user;

    if (call->pending.rc == 0)
        answer(call);
    else if (!pending_gives_up(&call->pending))
        end_with_error(call, &call->pending.error);
}

static void begin_translation(struct call *call)
{
    if (start(call, &call->pending.error) != 0)
        end_with_error(call, &call->pending.error);
    else if (!hold_jobs(call))
        return;
    else if (call->request.is_streamed)
        stream(call);
    else if (call->dialect->accept)
        on_queued(call);
}

/* Pool thread. */
static void look(void *user)
{
    detect_look(user);
}

static void on_looked(void *user)
{
    struct call *call = user;

    if (!pending_gives_up(&call->pending))
        begin_translation(call);
}

/* It has been admitted, or rc says that it is not. */
static void begin(void *user)
{
    struct call *call = user;

    if (call->pending.rc == 0 && call->dialect->keep) {
        work_in_pool(call, keep, on_kept);
        return;
    }
    if (call->pending.rc == 0 && call->dialect->answer) {
        answer(call);
        return;
    }
    if (call->pending.rc != 0)
        end_with_error(call, &call->pending.error);
    else if (detect_must_look(call))
        wait_for_turn(call, &call->pending.server->bodies, call->request.caller, look, on_looked);
    else
        begin_translation(call);
}

/* What the fields hold is counted in place of the body: texts are, what nobody reads is not. */
static void go_on(struct call *call)
{
    http_forget_body(call->pending.http, call->fields.held_bytes);
    if (call->pending.rc == 0 && call->dialect->parse)
        call->pending.rc = call->dialect->parse(call, &call->pending.error);
    pending_admit(&call->pending, call->n_characters, begin);
}

/* A request takes its token also when nobody waits for the reply any more. */
static void on_fields(void *user)
{
    struct call *call = user;

    call->pending.rc = access_identify(call->pending.server, call->pending.http, &call->fields,
                                       call->dialect->key_field, &call->pending.grant,
                                       call->pending.rc, &call->pending.error);
    call->request.caller = access_caller(call->pending.http, &call->pending.grant);
    if (!pending_gives_up(&call->pending))
        go_on(call);
}

void call_start(struct server *server, struct http_request *request, const char *name,
                const struct dialect *dialect)
{
    struct call *call = calloc(1, sizeof(*call));
    struct srv_error error;
    size_t body_bytes;

    if (!call) {
        error_no_memory(&error);
        reply_error(request, &error);
        return;
    }
    call->dialect = dialect;
    decoding_init(&call->request.decoding);
    call->name = name;
    call->max_texts = (size_t)server->settings->max_texts;
    call->request.timeout_ms = (uint64_t)server->settings->request_timeout_ms;
    if (pending_await(&call->pending, server, request, call->request.timeout_ms, give_up) != 0) {
        end_with_error(call, &call->pending.error);
        return;
    }
    http_body(request, &body_bytes);
    if (body_bytes <= PENDING_SMALL_BODY_BYTES) {
        read_fields(call);
        on_fields(call);
        return;
    }
    call->is_long = true;
    wait_for_turn(call, &server->bodies, access_guess_caller(server, request), read_fields,
                  on_fields);
}
