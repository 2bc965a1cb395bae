/* A connection's life: its handles, what is watched, whose turn it is. input.c makes requests of
 * what comes, output.c sends replies.
 *
 * Happy path: on_poll() -> connection_receive() -> the handler -> http_reply() ->
 * connection_send() -> the next request.
 * A translation instead waits in PHASE_REPLYING: http_await() -> ... -> http_reply().
 *
 * Failure modes: what is malformed, too large or not taken gets its reply, then the connection
 * lingers, so that bytes still on their way do not make the client's TCP throw the reply away, and
 * closes. A client that leaves while its request is awaited makes the handler give up. A connection
 * gets one piece, or one request, per turn of the loop; who has more of them waits in http->ready
 * while others have their turn. */
#include "http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/client.h"

enum {
    READY_NS = 100000,       /* what those in http->ready may take of a turn */
    READY_SHARE_NS = 400000, /* and of several, until they have a pause */
    READY_PAUSE_MS = 1
};

void connection_enter(struct connection *c, enum phase phase)
{
    c->phase = phase;
    c->since_ms = uv_now(c->http->loop);
}

/* ---- Watching the socket --------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

static int wanted_events(const struct connection *c)
{
    switch (c->phase) {
    case PHASE_REPLYING:
        if (c->has_left)
            return 0;
        return c->has_unread ? UV_DISCONNECT : UV_READABLE | UV_DISCONNECT;
    case PHASE_STREAMING:
        if (c->has_left)
            return 0;
        return (c->has_unread ? UV_DISCONNECT : UV_READABLE | UV_DISCONNECT) |
               (connection_unsent(c) > 0 ? UV_WRITABLE : 0);
    case PHASE_SENDING:
        return UV_WRITABLE;
    case PHASE_LINGERING:
        return c->previous_ready ? 0 : UV_READABLE;
    default:
        if (c->tls && !tls_is_established(c->tls) && tls_wants_write(c->tls))
            return UV_WRITABLE | UV_DISCONNECT;
        return c->previous_ready ? 0 : UV_READABLE | UV_DISCONNECT;
    }
}

void connection_watch(struct connection *c)
{
    const int events = c->is_closed ? 0 : wanted_events(c);

    if (c->is_closed || events == c->events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(&c->poll, events, on_poll);
    else
        uv_poll_stop(&c->poll);
}

static void on_turn(uv_idle_t *turn);

static void on_pause_over(uv_timer_t *pause)
{
    struct http *http = pause->data;

    if (http->ready)
        uv_idle_start(&http->turn, on_turn);
}

/* Those who are ready have a piece each, until the time for them is over; who is ready again waits
 * behind the others. So whoever sends one short request waits for little, however many send without
 * pause. The pause leaves the processor to those who translate: a thread that never sleeps waits
 * longest when others wake. */
static void on_turn(uv_idle_t *turn)
{
    struct http *http = turn->data;
    const uint64_t begun_ns = uv_hrtime();
    uint64_t ns = 0;

    for (size_t n = http->n_ready; n > 0 && http->ready && ns < READY_NS; n--) {
        struct connection *c = http->ready;

        connection_leave_ready(c);
        if (c->pending)
            connection_take_pending(c);
        else
            connection_receive(c);
        connection_watch(c);
        ns = uv_hrtime() - begun_ns;
    }
    http->ready_ns += ns;
    if (http->ready && http->ready_ns < READY_SHARE_NS)
        return;
    uv_idle_stop(turn);
    if (http->ready)
        uv_timer_start(&http->pause, on_pause_over, READY_PAUSE_MS, 0);
    http->ready_ns = 0;
}

void connection_make_ready(struct connection *c)
{
    struct http *http = c->http;

    if (c->previous_ready)
        return;
    if (!uv_is_active((uv_handle_t *)&http->pause))
        uv_idle_start(&http->turn, on_turn);
    http->n_ready++;
    c->next_ready = NULL;
    c->previous_ready = http->ready_end;
    *http->ready_end = c;
    http->ready_end = &c->next_ready;
}

void connection_leave_ready(struct connection *c)
{
    if (!c->previous_ready)
        return;
    *c->previous_ready = c->next_ready;
    if (c->next_ready)
        c->next_ready->previous_ready = c->previous_ready;
    else
        c->http->ready_end = c->previous_ready;
    c->http->n_ready--;
    c->previous_ready = NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;

    if (--c->n_handles == 0)
        free(c);
}

static void link_connection(struct connection *c)
{
    struct http *http = c->http;

    c->next = http->connections;
    c->previous_link = &http->connections;
    if (c->next)
        c->next->previous_link = &c->next;
    http->connections = c;
    http->n_connections++;
}

static void unlink_connection(struct connection *c)
{
    *c->previous_link = c->next;
    if (c->next)
        c->next->previous_link = c->previous_link;
    c->http->n_connections--;
}

/* A socket file is plain: it does not leave the machine. */
static int start_tls(struct connection *c, const struct sockaddr *peer)
{
    const struct tls_context *context = c->http->options.tls;

    if (!context || peer->sa_family == AF_UNIX)
        return 0;
    c->tls = tls_accept(context, c->fd);
    return c->tls ? 0 : -1;
}

struct connection *connection_open(struct http *http, int fd, const struct sockaddr *peer)
{
    struct connection *c = calloc(1, sizeof(*c));
    const int on = 1;

    if (c) {
        c->http = http;
        c->fd = fd;
    }
    if (!c || start_tls(c, peer) != 0 || client_begin(c, peer) != 0 ||
        uv_poll_init(http->loop, &c->poll, fd) != 0) {
        if (c) {
            tls_close(c->tls);
            client_end(c);
        }
        free(c);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    uv_timer_init(http->loop, &c->deadline);
    c->n_handles = 2;
    c->poll.data = c->deadline.data = c;
    link_connection(c);
    connection_enter(c, PHASE_IDLE);
    connection_watch(c);
    return c;
}

void connection_count(struct connection *c, size_t more)
{
    struct http *http = c->http;

    http->bodies_bytes += more;
    trim_note(&http->trim, http->bodies_bytes);
    if (c->address)
        c->address->bodies_bytes += more;
    c->request->counted_bytes += more;
}

/* The request has its reply, or will not get one. */
void connection_end_request(struct connection *c)
{
    if (c->request) {
        connection_count(c, 0 - c->request->counted_bytes);
        request_close(c->request);
        c->request = NULL;
    }
    client_end_request(c);
    if (c->is_active)
        c->http->n_active--;
    c->is_active = false;
    free(c->head);
    if (c->reply.release)
        c->reply.release(c->reply.body);
    else
        free(c->reply.body);
    c->http->replies_bytes -= c->reply_bytes;
    c->reply_bytes = 0;
    c->reply.release = NULL;
    c->head = c->reply.body = NULL;
    c->is_complete = false;
    c->wire_bytes = c->query_bytes = c->line_bytes = c->body_bytes = 0;
    c->head_bytes = c->sent_bytes = c->swept_bytes = 0;
    c->has_line = false;
}

void connection_drop_pending(struct connection *c)
{
    connection_leave_ready(c);
    free(c->pending);
    c->pending = NULL;
    c->pending_at = c->pending_bytes = 0;
}

void connection_close(struct connection *c)
{
    struct http *http = c->http;

    if (c->is_closed)
        return;
    connection_end_request(c);
    connection_drop_pending(c);
    unlink_connection(c);
    tls_close(c->tls);
    client_end(c);
    c->is_closed = true;
    uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    uv_close((uv_handle_t *)&c->deadline, on_handle_closed);
    close(c->fd);
    http_on_closed(http);
}

bool http_is_secure(const struct http_request *request)
{
    return request->connection->tls != NULL;
}

/* ---- What happens on the socket -------------------------------------------------------------- */

void connection_on_end(struct connection *c)
{
    if (c->phase == PHASE_REPLYING || c->phase == PHASE_STREAMING) {
        c->has_left = true;
        connection_give_up(c, HTTP_LEFT);
    } else {
        connection_close(c);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;

    if (status < 0) { /* reset; libuv watches it no more */
        c->events = 0;
        connection_on_end(c);
    } else {
        c->has_left = c->has_left || (events & UV_DISCONNECT);
        if (c->has_left && c->phase == PHASE_STREAMING)
            connection_give_up(c, HTTP_LEFT);
        else if (events & UV_WRITABLE)
            c->phase == PHASE_SENDING || c->phase == PHASE_STREAMING ? connection_send(c)
                                                                     : connection_receive(c);
        else if (events & UV_READABLE)
            connection_receive(c);
        if (!c->is_closed && c->has_left && c->phase == PHASE_REPLYING)
            connection_give_up(c, HTTP_LEFT);
    }
    connection_watch(c);
}
