#include "api/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"
#include "common/json.h"
#include "serve/sentences.h"

/* ---- One object ------------------------------------------------------------------------------ */

static char *make_event(const struct call *call, const char *kind, const char *object)
{
    char *text;
    int n;

    if (!call->is_event_stream)
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
        http_stream_write(call->http, event, strlen(event));
    free(object);
    free(event);
    return event ? 0 : -1;
}

static char *dump(json_t *body)
{
    char *text = body ? json_dumps(body, JSON_FLAGS) : NULL;

    json_decref(body);
    return text;
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

/* ---- The stream ------------------------------------------------------------------------------ */

static void begin(struct call *call, http_room_fn *room)
{
    const char *accept = http_header(call->http, "Accept");

    if (call->has_begun)
        return;
    call->has_begun = true;
    call->is_event_stream = accept && strcasestr(accept, "text/event-stream");
    http_stream_begin(call->http,
                      call->is_event_stream ? "text/event-stream" : "application/x-ndjson", room);
}

static enum stream_state finish(struct call *call, struct srv_error *error)
{
    if (write_object(call, NULL, dump(json_pack("{s:b}", "done", 1))) != 0)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    http_stream_end(call->http, true);
    return STREAM_ENDED;
}

enum stream_state stream_go_on(struct call *call, http_room_fn *room, struct srv_error *error)
{
    struct srv_sentence sentence;
    size_t index;

    while (!call->has_begun || http_stream_unsent(call->http) == 0) {
        switch (translate_next(call->translate, &index, &sentence, error)) {
        case TRANSLATE_FAILED:
            return STREAM_FAILED;
        case TRANSLATE_LATER:
            return STREAM_WAITS;
        case TRANSLATE_END:
            begin(call, room);
            return finish(call, error);
        case TRANSLATE_SENTENCE:
            begin(call, room);
            if (write_sentence(call, index, &sentence) != 0)
                return error_from_engine(error, ACRE_ENOMEM, NULL);
        }
    }
    return STREAM_WAITS;
}

void stream_end_with_error(struct call *call, const struct srv_error *error)
{
    const bool is_whole = write_object(call, "error", dump(reply_error_body(error))) == 0;

    http_stream_end(call->http, is_whole);
}
