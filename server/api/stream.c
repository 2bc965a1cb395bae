#include "api/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/reply.h"
#include "common/json.h"
#include "serve/sentences.h"

enum { SHARE_NS = 1000000 }; /* of all streams in a turn of the loop */

/* ---- One object ------------------------------------------------------------------------------ */

static char *make_event(const struct call *call, const char *kind, const char *object)
{
    char *text;
    int n;

    if (!call->stream.is_event_stream)
        n = asprintf(&text, "%s\n", object);
    else if (kind)
        n = asprintf(&text, "event: %s\ndata: %s\n\n", kind, object);
    else
        n = asprintf(&text, "data: %s\n\n", object);
    return n < 0 ? NULL : text;
}

/* Takes `object`, from malloc; NULL: no memory. */
static int write_object(const struct call *call, const char *kind, char *object)
{
    char *event = object ? make_event(call, kind, object) : NULL;

    if (event)
        http_stream_write(call->pending.http, event, strlen(event));
    free(object);
    free(event);
    return event ? 0 : -1;
}

static int write_sentence(struct call *call, size_t index, const struct srv_sentence *sentence)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    bool is_whole;

    if (!out)
        return -1;
    is_whole = call->dialect->write_sentence(call, index, sentence, out);
    if (fclose(out) != 0 || !is_whole) {
        free(text);
        return -1;
    }
    return write_object(call, NULL, text);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void stream_leave(struct call *call)
{
    struct call **link = &call->pending.server->streams.first;

    if (!call->stream.go_on)
        return;
    while (*link != call)
        link = &(*link)->stream.next;
    *link = call->stream.next;
    if (!call->stream.next)
        call->pending.server->streams.end = link;
    call->stream.go_on = NULL;
}

/* A stream that has used up the share waits behind the others. */
static void on_turn(uv_idle_t *idle)
{
    struct server *server = idle->data;

    server->streams.spent_ns = 0;
    while (server->streams.first && server->streams.spent_ns < SHARE_NS) {
        struct call *call = server->streams.first;
        http_room_fn *go_on = call->stream.go_on;

        stream_leave(call);
        go_on(call);
    }
    if (!server->streams.first)
        uv_idle_stop(idle);
}

static void wait_for_turn(struct call *call, http_room_fn *go_on)
{
    struct server *server = call->pending.server;

    call->stream.go_on = go_on;
    call->stream.next = NULL;
    *server->streams.end = call;
    server->streams.end = &call->stream.next;
    uv_idle_start(&server->streams.idle, on_turn);
}

void stream_init(struct server *server)
{
    uv_idle_init(server->loop, &server->streams.idle);
    server->streams.idle.data = server;
    server->streams.end = &server->streams.first;
}

void stream_fini(struct server *server)
{
    uv_close((uv_handle_t *)&server->streams.idle, NULL);
}

/* ---- The stream ------------------------------------------------------------------------------ */

static void begin(struct call *call, http_room_fn *room)
{
    const char *accept = http_header(call->pending.http, "Accept");

    if (call->stream.has_begun)
        return;
    call->stream.has_begun = true;
    /* However it ends: a deadline would be a way to read for nothing. */
    call->pending.is_charged = true;
    call->stream.is_event_stream = accept && strcasestr(accept, "text/event-stream");
    http_stream_begin(call->pending.http,
                      call->stream.is_event_stream ? "text/event-stream" : "application/x-ndjson",
                      room);
}

static enum stream_state finish(struct call *call, struct srv_error *error)
{
    if (write_object(call, NULL, json_text(json_pack("{s:b}", "done", 1))) != 0)
        return error_no_memory(error);
    http_stream_end(call->pending.http, true, 200, NULL);
    return STREAM_ENDED;
}

static enum stream_state send_next(struct call *call, http_room_fn *room, struct srv_error *error)
{
    struct srv_sentence sentence;
    size_t index;

    switch (translate_next(call->translate, &index, &sentence, error)) {
    case TRANSLATE_FAILED:
        return STREAM_FAILED;
    case TRANSLATE_LATER:
        return STREAM_WAITS;
    case TRANSLATE_END:
        begin(call, room);
        return finish(call, error);
    case TRANSLATE_SENTENCE:
        break;
    }
    begin(call, room);
    if (write_sentence(call, index, &sentence) != 0)
        return error_no_memory(error);
    return STREAM_GOES_ON;
}

enum stream_state stream_go_on(struct call *call, http_room_fn *room, struct srv_error *error)
{
    struct server *server = call->pending.server;
    enum stream_state state = call->stream.go_on ? STREAM_WAITS : STREAM_GOES_ON;

    while (state == STREAM_GOES_ON) {
        const uint64_t begun_ns = uv_hrtime();

        if (call->stream.has_begun && http_stream_unsent(call->pending.http) > 0)
            return STREAM_WAITS;
        if (server->streams.spent_ns >= SHARE_NS) {
            wait_for_turn(call, room);
            return STREAM_WAITS;
        }
        state = send_next(call, room, error);
        server->streams.spent_ns += uv_hrtime() - begun_ns;
    }
    return state;
}

void stream_end_with_error(struct call *call, const struct srv_error *error)
{
    const bool is_whole = write_object(call, "error", json_text(reply_error_body(error))) == 0;

    http_stream_end(call->pending.http, is_whole, error->status, error->code);
}
