/* Happy path: http_reply() -> send_reply() makes the head -> connection_send(), as often as the
 * socket takes more -> the connection idles, or lingers after its last reply.
 *
 * Failure modes: a client that is gone closes its connection. Who awaits gives up at the deadline,
 * and then replies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/body.h"
#include "http/head.h"

/* ---- Sending --------------------------------------------------------------------------------- */

size_t connection_unsent(const struct connection *c)
{
    return c->phase == PHASE_SENDING || c->phase == PHASE_STREAMING
               ? c->head_bytes + c->reply.body_bytes - c->sent_bytes
               : 0;
}

static void linger(struct connection *c)
{
    connection_drop_pending(c);
    if (c->tls)
        tls_shutdown(c->tls);
    shutdown(c->fd, SHUT_WR);
    c->discarded_bytes = 0;
    connection_enter(c, PHASE_LINGERING);
}

static void end_reply(struct connection *c)
{
    c->n_requests++;
    connection_end_request(c);
    if (!c->keeps_alive) {
        linger(c);
        return;
    }
    connection_enter(c, PHASE_IDLE);
    c->has_unread = false;
    if (c->pending)
        connection_make_ready(c);
}

ssize_t connection_write(const struct connection *c, const void *data, size_t bytes)
{
    return c->tls ? tls_write(c->tls, data, bytes)
                  : send(c->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Both in one record, or as much as fits. */
static ssize_t send_record(const struct connection *c, const struct iovec *parts, size_t n_parts)
{
    char record[TLS_RECORD_BYTES];
    size_t bytes = 0;

    for (size_t i = 0; i < n_parts; i++) {
        const size_t room = sizeof(record) - bytes;
        const size_t n = parts[i].iov_len < room ? parts[i].iov_len : room;

        if (n > 0)
            memcpy(record + bytes, parts[i].iov_base, n);
        bytes += n;
    }
    return tls_write(c->tls, record, bytes);
}

static ssize_t send_rest(const struct connection *c)
{
    const size_t in_body = c->sent_bytes > c->head_bytes ? c->sent_bytes - c->head_bytes : 0;
    const size_t in_head = c->sent_bytes - in_body;
    struct iovec parts[] = {{c->head + in_head, c->head_bytes - in_head},
                            {c->reply.body + in_body, c->reply.body_bytes - in_body}};
    const struct msghdr message = {.msg_iov = parts,
                                   .msg_iovlen = c->reply.body_bytes > in_body ? 2 : 1};

    if (c->tls)
        return send_record(c, parts, message.msg_iovlen);
    return sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool connection_flush(struct connection *c)
{
    while (connection_unsent(c) > 0) {
        const ssize_t n = send_rest(c);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        c->sent_bytes += (size_t)n;
    }
    return true;
}

void connection_send(struct connection *c)
{
    const bool is_there = connection_flush(c);

    if (c->phase == PHASE_STREAMING) {
        if (!is_there)
            connection_give_up_stream(c);
        connection_count_waiting(c);
        if (is_there && connection_unsent(c) == 0)
            c->room(c->request->user);
    } else if (!is_there) {
        connection_close(c);
    } else if (connection_unsent(c) == 0) {
        end_reply(c);
    }
}

void connection_tell(const struct connection *c, const struct http_reply *reply,
                     const struct identity *identity)
{
    const struct http_options *o = &c->http->options;
    const struct http_request *request = c->request;
    const uint64_t begun_ns = request ? request->begun_ns : 0;
    const struct http_record record = {
        .label = request ? request->label : NULL,
        .status = reply->status,
        .seconds = begun_ns ? 1e-9 * (double)(uv_hrtime() - begun_ns) : 0.0,
        .body_bytes = reply->body_bytes,
        .code = reply->code ? reply->code : "",
        .client = c->client,
        .method = request ? request->method : "",
        .path = request && request->path ? request->path : "",
        .identity = identity,
    };

    o->replied(o->user, &record);
}

/* Whether the connection ends with this reply. */
static bool closes(const struct connection *c)
{
    return !c->keeps_alive || c->http->is_retiring || http_is_full(c->http);
}

bool connection_make_head(struct connection *c, const struct identity *identity)
{
    c->keeps_alive = !closes(c);
    c->head = head_make(&c->reply, identity,
                        !c->keeps_alive             ? "close"
                        : c->parser.http_minor == 0 ? "keep-alive"
                                                    : NULL,
                        c->http->cors, &c->head_bytes);
    c->sent_bytes = 0;
    return c->head != NULL;
}

/* What is small does not count. */
void connection_count_waiting(struct connection *c)
{
    const size_t held = c->reply.is_stream ? c->capacity : c->reply.body_bytes;
    const size_t bytes = connection_unsent(c) > 0 && held >= LARGE_REPLY_BYTES ? held : 0;
    const size_t before = c->reply_bytes;

    if (c->is_closed)
        return;
    c->http->replies_bytes += bytes - before;
    c->reply_bytes = bytes;
    if (bytes > before)
        http_bound_replies(c->http, c);
}

static const char *second_name(const struct connection *c)
{
    return c->request && c->request->path ? c->http->options.second_id(c->request->path) : NULL;
}

/* Before its handshake is done a client cannot be told anything. */
static bool can_be_told(const struct connection *c)
{
    return !c->tls || tls_is_established(c->tls);
}

static void send_reply(struct connection *c, const struct http_reply *reply)
{
    struct identity made = {.id = ""}, *identity = c->request ? &c->request->identity : &made;
    bool has_head;

    if (!c->request || !identity->id[0]) { /* refused before its head was complete */
        *identity = (struct identity){.second_name = second_name(c)};
        identity_take(identity, NULL, NULL);
    }
    c->reply = *reply;
    has_head = can_be_told(c) && connection_make_head(c, identity);
    if (!has_head || reply->status == 304 ||
        (c->request && strcmp(c->request->method, "HEAD") == 0))
        c->reply.body_bytes = 0;
    connection_tell(c, &c->reply, identity);
    if (c->request)
        request_drop_head(c->request);
    if (!has_head) {
        connection_close(c); /* also without memory: closing is all that can be done */
        return;
    }
    connection_enter(c, PHASE_SENDING);
    connection_send(c);
    connection_count_waiting(c);
}

void connection_send_error(struct connection *c, int status, const char *code, const char *text)
{
    struct http_reply reply = {.status = status,
                               .code = code,
                               .content_type = "application/json",
                               .retry_after_s = status == 503 ? 1 : 0};
    int n = asprintf(&reply.body, "{\"code\":\"%s\",\"error\":\"%s\",\"message\":\"%s\"}\n", code,
                     text, text);

    if (n < 0) {
        connection_close(c); /* UNTESTED: no memory; closing is all that can be done */
        return;
    }
    reply.body_bytes = (size_t)n;
    send_reply(c, &reply);
}

void connection_refuse(struct connection *c, int status, const char *code, const char *text)
{
    c->keeps_alive = false;
    connection_send_error(c, status, code, text);
    connection_watch(c);
}

/* ---- The handler's reply --------------------------------------------------------------------- */

void http_forget_body(struct http_request *request, size_t copied_bytes)
{
    body_shrink(request->connection, copied_bytes);
}

bool http_hold(struct http_request *request, size_t bytes)
{
    return body_hold(request->connection, bytes);
}

static void count_awaited(const struct connection *c, int n)
{
    c->http->n_awaited += (size_t)n;
    if (c->address)
        c->address->n_awaited += (size_t)n;
}

/* An address that has half of all that may wait leaves the rest to others. */
static bool may_await(const struct connection *c)
{
    const size_t most = http_max_waiting(c->http);

    return c->http->is_draining ||
           (c->http->n_awaited < most && !(c->address && c->address->n_awaited >= most / 2));
}

void connection_end_waiting(struct connection *c)
{
    if (c->request->is_awaited) {
        uv_timer_stop(&c->deadline);
        count_awaited(c, -1);
    }
    c->request->is_awaited = false;
}

void http_reply(struct http_request *request, const struct http_reply *reply)
{
    struct connection *c = request->connection;

    connection_end_waiting(c);
    body_drop(c); /* the client may take its time for the reply */
    send_reply(c, reply);
    connection_watch(c);
}

bool connection_give_up(struct connection *c, enum http_give_up why)
{
    struct http_request *request = c->request;
    http_give_up_fn *fn;

    if ((c->phase != PHASE_REPLYING && c->phase != PHASE_STREAMING) || !request->is_awaited ||
        !request->give_up)
        return false;
    fn = request->give_up;
    request->give_up = NULL;
    fn(request->user, why);
    return true;
}

static void on_deadline(uv_timer_t *timer)
{
    struct connection *c = timer->data;

    connection_give_up(c, c->has_left ? HTTP_LEFT : HTTP_DEADLINE);
}

bool http_await(struct http_request *request, uint64_t timeout_ms, http_give_up_fn *fn, void *user)
{
    struct connection *c = request->connection;

    if (!may_await(c))
        return false;
    count_awaited(c, 1);
    request->is_awaited = true;
    request->give_up = fn;
    request->user = user;
    uv_update_time(c->http->loop); /* parsing may have taken a while */
    c->since_ms = uv_now(c->http->loop);
    uv_timer_start(&c->deadline, on_deadline, c->has_left ? 0 : timeout_ms, 0);
    return true;
}

void http_set_deadline(struct http_request *request, uint64_t timeout_ms)
{
    struct connection *c = request->connection;
    const uint64_t waited_ms = uv_now(c->http->loop) - c->since_ms;

    uv_timer_start(&c->deadline, on_deadline,
                   c->has_left || waited_ms > timeout_ms ? 0 : timeout_ms - waited_ms, 0);
}
