/* A reply in parts. What is unsent stands where the body of another reply does, so that one way of
 * sending serves both: head and body are sent, then both are empty.
 *
 * Happy path: http_stream_begin() -> http_stream_write(), which sends what the socket takes; the
 * rest when it takes more -> http_stream_end(), and the connection is as after any reply.
 *
 * Failure modes: a client that left, or takes nothing, makes the handler give up, from the loop and
 * never from within a write. Without memory for a part the same happens: a part is never left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/body.h"

void connection_fail_stream(struct connection *c)
{
    c->has_left = true;
    c->sent_bytes = c->head_bytes + c->reply.body_bytes;
    connection_count_waiting(c);
    http_set_deadline(c->request, 0);
}

static void empty(struct connection *c)
{
    if (c->capacity >= LARGE_REPLY_BYTES) {
        free(c->reply.body);
        c->reply.body = NULL;
        c->capacity = 0;
    }
    c->head_bytes = c->sent_bytes = c->reply.body_bytes = 0;
    c->since_ms = uv_now(c->http->loop);
}

static void flush(struct connection *c)
{
    if (!connection_flush(c))
        connection_fail_stream(c);
    if (connection_unsent(c) == 0)
        empty(c);
    connection_count_waiting(c);
    connection_watch(c);
}

static void append(struct connection *c, const char *data, size_t bytes)
{
    const size_t wanted = c->reply.body_bytes + bytes;

    if (wanted > c->capacity) {
        char *grown = realloc(c->reply.body, wanted);

        if (!grown) { /* UNTESTED: no memory; the client shall not take the rest for the whole */
            connection_fail_stream(c);
            return;
        }
        c->reply.body = grown;
        c->capacity = wanted;
    }
    memcpy(c->reply.body + c->reply.body_bytes, data, bytes);
    c->reply.body_bytes = wanted;
}

void http_stream_begin(struct http_request *request, const char *content_type, http_room_fn *room)
{
    struct connection *c = request->connection;

    c->room = room;
    c->capacity = c->streamed_bytes = 0;
    c->reply = (struct http_reply){.status = 200,
                                   .is_stream = true,
                                   .is_chunked = c->parser.http_minor > 0,
                                   .content_type = content_type};
    c->keeps_alive = c->keeps_alive && c->reply.is_chunked;
    connection_enter(c, PHASE_STREAMING);
    if (!connection_make_head(c, &request->identity))
        connection_fail_stream(c); /* UNTESTED: no memory */
}

void http_stream_write(struct http_request *request, const char *data, size_t bytes)
{
    struct connection *c = request->connection;
    char size[24];

    if (c->has_left || bytes == 0) /* a chunk of nothing would be the last */
        return;
    snprintf(size, sizeof(size), "%zx\r\n", bytes);
    if (connection_unsent(c) == 0)
        empty(c);
    if (c->reply.is_chunked)
        append(c, size, strlen(size));
    append(c, data, bytes);
    c->streamed_bytes += bytes;
    if (c->reply.is_chunked)
        append(c, "\r\n", 2);
    flush(c);
}

size_t http_stream_unsent(const struct http_request *request)
{
    return connection_unsent(request->connection);
}

void http_stream_end(struct http_request *request, bool is_whole, int status, const char *code)
{
    struct connection *c = request->connection;
    const struct http_reply whole = {
        .status = status, .code = code, .body_bytes = c->streamed_bytes};

    connection_end_waiting(c);
    body_drop(c);
    connection_tell(c, &whole, &request->identity);
    request_drop_head(request);
    if (!is_whole || c->has_left) {
        connection_close(c);
        return;
    }
    if (c->reply.is_chunked)
        append(c, "0\r\n\r\n", 5);
    connection_enter(c, PHASE_SENDING);
    connection_send(c);
    connection_count_waiting(c);
    connection_watch(c);
}

void connection_give_up_stream(struct connection *c)
{
    c->has_left = true;
    connection_give_up(c, HTTP_LEFT);
}
