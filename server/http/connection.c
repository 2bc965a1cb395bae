/* Happy path: on_poll() reads a piece -> take() -> llhttp's callbacks fill the request, and stop it
 * at the request's end -> the handler -> http_reply() -> send_more() -> the next request.
 * A translation instead waits in PHASE_REPLYING: http_await() -> ... -> http_reply().
 *
 * Failure modes: what is malformed, too large or not taken gets its reply, then the connection
 * lingers, so that bytes still on their way do not make the client's TCP throw the reply away, and
 * closes. A body beyond the limit is read and dropped up to DROP_FACTOR times the limit. Chunk
 * heads without data are cut off. A client that leaves while its request is awaited makes the
 * handler give up. A connection gets one piece, or REQUESTS_PER_TURN requests, per turn of the
 * loop; what is left waits in http->ready while others have their turn. */
#include "http/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 3072,                  /* of a reply, CORS lines apart */
    FRAMING_BYTES = 2 * MAX_HEAD_BYTES, /* head and chunk heads, for a body of nothing */
    FRAMING_FACTOR = 8,                 /* and so much more for every byte of body */
    FIRST_BODY_BYTES = 16384
};

static void enter(struct connection *c, enum phase phase)
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
    case PHASE_SENDING:
        return UV_WRITABLE;
    case PHASE_LINGERING:
        return UV_READABLE;
    default:
        return c->previous_ready ? 0 : UV_READABLE | UV_DISCONNECT;
    }
}

/* Changing what is watched costs system calls, so an ordinary request changes nothing. */
static void watch(struct connection *c)
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

static void make_ready(struct connection *c)
{
    struct http *http = c->http;

    if (c->previous_ready)
        return;
    uv_idle_start(&http->turn, on_turn);
    c->next_ready = NULL;
    c->previous_ready = http->ready_end;
    *http->ready_end = c;
    http->ready_end = &c->next_ready;
}

static void leave_ready(struct connection *c)
{
    if (!c->previous_ready)
        return;
    *c->previous_ready = c->next_ready;
    if (c->next_ready)
        c->next_ready->previous_ready = c->previous_ready;
    else
        c->http->ready_end = c->previous_ready;
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

struct connection *connection_open(struct http *http, int fd, const struct sockaddr *peer)
{
    struct connection *c = calloc(1, sizeof(*c));
    const int on = 1;

    if (!c || uv_poll_init(http->loop, &c->poll, fd) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    uv_timer_init(http->loop, &c->deadline);
    c->n_handles = 2;
    c->poll.data = c->deadline.data = c;
    c->http = http;
    c->fd = fd;
    c->address = addresses_enter(http->addresses, peer);
    link_connection(c);
    enter(c, PHASE_IDLE);
    watch(c);
    return c;
}

static void free_body(struct connection *c)
{
    struct http_request *request = c->request;

    free(request->body);
    request->body = NULL;
    c->http->bodies_bytes -= request->body_capacity;
    request->body_capacity = request->body_bytes = 0;
}

/* The request has its reply, or will not get one. */
static void end_request(struct connection *c)
{
    if (c->request) {
        free_body(c);
        request_close(c->request);
        c->request = NULL;
    }
    if (c->is_active)
        c->http->n_active--;
    c->is_active = false;
    free(c->head);
    free(c->reply.body);
    c->head = c->reply.body = NULL;
    c->is_complete = false;
    c->wire_bytes = c->line_bytes = c->body_bytes = 0;
    c->has_line = false;
}

static void drop_pending(struct connection *c)
{
    leave_ready(c);
    free(c->pending);
    c->pending = NULL;
    c->pending_at = c->pending_bytes = 0;
}

void connection_close(struct connection *c)
{
    struct http *http = c->http;

    if (c->is_closed)
        return;
    end_request(c);
    drop_pending(c);
    unlink_connection(c);
    addresses_leave(http->addresses, c->address);
    c->is_closed = true;
    uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    uv_close((uv_handle_t *)&c->deadline, on_handle_closed);
    close(c->fd);
    http_on_closed(http);
}

/* ---- Sending a reply ------------------------------------------------------------------------- */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

/* RFC 9110, 5.6.7; made anew once a second. */
static const char *date_now(void)
{
    static char text[40];
    static time_t made;
    const time_t now = time(NULL);
    struct tm utc;

    if (now != made) {
        gmtime_r(&now, &utc);
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        made = now;
    }
    return text;
}

/* Whether the connection ends with this reply. */
static bool closes(const struct connection *c)
{
    return !c->keeps_alive || c->has_left || c->http->is_draining || http_is_full(c->http);
}

static int make_head(struct connection *c)
{
    const struct http_reply *r = &c->reply;
    const size_t room = HEAD_BYTES + strlen(c->http->cors);
    char retry[40] = "";
    int n;

    c->head = malloc(room);
    if (!c->head)
        return -1;
    if (r->retry_after_s)
        snprintf(retry, sizeof(retry), "Retry-After: %d\r\n", r->retry_after_s);
    c->keeps_alive = !closes(c);
    n = snprintf(c->head, room,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n%s%s%s%s%s%s%s%s%s\r\n",
                 r->status, reason_of(r->status), date_now(), r->body_bytes,
                 r->content_type ? "Content-Type: " : "", r->content_type ? r->content_type : "",
                 r->content_type ? "\r\n" : "", r->allow ? "Allow: " : "", r->allow ? r->allow : "",
                 r->allow ? "\r\n" : "", retry,
                 !c->keeps_alive             ? "Connection: close\r\n"
                 : c->parser.http_minor == 0 ? "Connection: keep-alive\r\n"
                                             : "",
                 c->http->cors);
    c->head_bytes = (size_t)n;
    c->sent_bytes = 0;
    if (c->request && strcmp(c->request->method, "HEAD") == 0)
        c->reply.body_bytes = 0;
    return 0;
}

size_t connection_unsent(const struct connection *c)
{
    return c->phase == PHASE_SENDING ? c->head_bytes + c->reply.body_bytes - c->sent_bytes : 0;
}

static void linger(struct connection *c)
{
    drop_pending(c);
    shutdown(c->fd, SHUT_WR);
    c->discarded_bytes = 0;
    enter(c, PHASE_LINGERING);
}

static void end_reply(struct connection *c)
{
    c->n_requests++;
    end_request(c);
    if (c->has_left) {
        connection_close(c);
    } else if (!c->keeps_alive) {
        linger(c);
    } else {
        enter(c, PHASE_IDLE);
        c->has_unread = false;
        if (c->pending)
            make_ready(c);
    }
}

static ssize_t send_rest(const struct connection *c)
{
    const size_t in_body = c->sent_bytes > c->head_bytes ? c->sent_bytes - c->head_bytes : 0;
    const size_t in_head = c->sent_bytes - in_body;
    struct iovec parts[] = {{c->head + in_head, c->head_bytes - in_head},
                            {c->reply.body + in_body, c->reply.body_bytes - in_body}};
    const struct msghdr message = {.msg_iov = parts,
                                   .msg_iovlen = c->reply.body_bytes > in_body ? 2 : 1};

    return sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_more(struct connection *c)
{
    while (connection_unsent(c) > 0) {
        const ssize_t n = send_rest(c);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) {
            connection_close(c);
            return;
        }
        c->sent_bytes += (size_t)n;
    }
    end_reply(c);
}

static void count(const struct connection *c, int status)
{
    const struct http_options *o = &c->http->options;
    const struct http_request *request = c->request;
    const uint64_t begun_ns = request ? request->begun_ns : 0;

    o->replied(o->user, request ? request->label : NULL, status,
               begun_ns ? 1e-9 * (double)(uv_hrtime() - begun_ns) : 0.0);
}

static void send_reply(struct connection *c, const struct http_reply *reply)
{
    count(c, reply->status);
    c->reply = *reply;
    if (make_head(c) != 0) {
        connection_close(c); /* UNTESTED: no memory; closing is all that can be done */
        return;
    }
    enter(c, PHASE_SENDING);
    send_more(c);
}

static void send_error(struct connection *c, int status, const char *code, const char *text)
{
    struct http_reply reply = {.status = status,
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
    send_error(c, status, code, text);
    watch(c);
}

/* ---- The handler's reply --------------------------------------------------------------------- */

void http_reply(struct http_request *request, const struct http_reply *reply)
{
    struct connection *c = request->connection;

    if (request->is_awaited)
        uv_timer_stop(&c->deadline);
    request->is_awaited = false;
    send_reply(c, reply);
    watch(c);
}

bool connection_give_up(struct connection *c, enum http_give_up why)
{
    struct http_request *request = c->request;
    http_give_up_fn *fn;

    if (c->phase != PHASE_REPLYING || !request->is_awaited || !request->give_up)
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

void http_await(struct http_request *request, uint64_t timeout_ms, http_give_up_fn *fn, void *user)
{
    struct connection *c = request->connection;

    request->is_awaited = true;
    request->give_up = fn;
    request->user = user;
    uv_update_time(c->http->loop); /* parsing may have taken a while */
    c->since_ms = uv_now(c->http->loop);
    uv_timer_start(&c->deadline, on_deadline, c->has_left ? 0 : timeout_ms, 0);
}

void http_set_deadline(struct http_request *request, uint64_t timeout_ms)
{
    struct connection *c = request->connection;
    const uint64_t waited_ms = uv_now(c->http->loop) - c->since_ms;

    uv_timer_start(&c->deadline, on_deadline,
                   c->has_left || waited_ms > timeout_ms ? 0 : timeout_ms - waited_ms, 0);
}

/* ---- Receiving a request --------------------------------------------------------------------- */

static int on_target(llhttp_t *parser, const char *at, size_t n)
{
    const struct connection *c = parser->data;

    return request_add_target(c->request, at, n);
}

/* Trailers, headers that follow a chunked body, are read over. */
static int on_name(llhttp_t *parser, const char *at, size_t n)
{
    const struct connection *c = parser->data;

    return c->phase == PHASE_HEAD ? request_add_name(c->request, at, n) : 0;
}

static int on_name_end(llhttp_t *parser)
{
    const struct connection *c = parser->data;

    return c->phase == PHASE_HEAD ? request_end_name(c->request) : 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    const struct connection *c = parser->data;

    return c->phase == PHASE_HEAD ? request_add_value(c->request, at, n) : 0;
}

static int on_value_end(llhttp_t *parser)
{
    const struct connection *c = parser->data;

    return c->phase == PHASE_HEAD ? request_end_value(c->request) : 0;
}

static int refuse_too_large(struct connection *c)
{
    return request_refuse(c->request, 413, "body_too_large",
                          "The request body is larger than %zu bytes",
                          c->http->options.max_body_bytes);
}

/* A client that asks first gets its answer now, and need not send what nobody takes. */
static int check_length(struct connection *c)
{
    const size_t most = c->http->options.max_body_bytes;
    const bool asks = request_header(c->request, "Expect") != NULL;

    if (c->parser.content_length > most) {
        if (asks || c->parser.content_length / DROP_FACTOR > most)
            return refuse_too_large(c);
        c->request->is_dropped = true;
    }
    c->announced_bytes = c->parser.flags & F_CHUNKED ? most : c->parser.content_length;
    if (asks && (c->parser.content_length > 0 || (c->parser.flags & F_CHUNKED))) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

        if (send(c->fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(text) - 1)
            return request_refuse(c->request, 417, "expectation_failed", "Expect: cannot be met");
    }
    return 0;
}

static int on_head_end(llhttp_t *parser)
{
    struct connection *c = parser->data;

    parser->upgrade = 0; /* nothing here upgrades: RFC 9110, 7.8 lets a server ignore it */
    if (request_end_head(c->request, parser) != 0 || check_length(c) != 0)
        return -1;
    enter(c, PHASE_BODY);
    c->request->begun_ns = uv_hrtime();
    c->is_active = true;
    c->http->n_active++;
    return 0;
}

static int grow_body(struct connection *c, size_t wanted)
{
    struct http_request *request = c->request;
    size_t capacity = request->body_capacity ? 2 * request->body_capacity : FIRST_BODY_BYTES;
    char *grown;

    capacity = capacity > c->announced_bytes ? c->announced_bytes : capacity;
    capacity = capacity < wanted ? wanted : capacity;
    if (!http_make_memory(c->http, c, capacity - request->body_capacity))
        return request_refuse(request, 503, "server_busy",
                              "The bodies of other requests take all memory for them");
    grown = realloc(request->body, capacity);
    if (!grown)
        return request_refuse(request, 503, "out_of_memory", "out of memory");
    c->http->bodies_bytes += capacity - request->body_capacity;
    if (c->http->bodies_bytes > c->http->bodies_peak_bytes)
        c->http->bodies_peak_bytes = c->http->bodies_bytes;
    request->body = grown;
    request->body_capacity = capacity;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct connection *c = parser->data;
    struct http_request *request = c->request;
    const size_t most = c->http->options.max_body_bytes;

    c->body_bytes += n;
    if (!request->is_dropped && n > most - request->body_bytes) {
        request->is_dropped = true;
        free_body(c);
    }
    if (request->is_dropped)
        return c->body_bytes / DROP_FACTOR > most ? refuse_too_large(c) : 0;
    if (request->body_bytes + n > request->body_capacity &&
        grow_body(c, request->body_bytes + n) != 0)
        return -1;
    memcpy(request->body + request->body_bytes, at, n);
    request->body_bytes += n;
    return 0;
}

/* Stops llhttp here: the next request waits for this one's reply. */
static int on_end(llhttp_t *parser)
{
    struct connection *c = parser->data;

    c->keeps_alive = llhttp_should_keep_alive(parser);
    c->is_complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head_end,
    .on_body = on_body,
    .on_message_complete = on_end,
};

/* Whether a line of the head begins with a blank: llhttp would join it to the one before, and
 * RFC 9112, 5.2 lets a server refuse that. Looks no further than the head's end. */
static bool has_folded_line(struct connection *c, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] == '\n') {
            if (c->line_bytes == 0 && c->has_line)
                return false;
            c->has_line = c->has_line || c->line_bytes > 0;
            c->line_bytes = 0;
        } else if (data[i] != '\r') {
            if (c->line_bytes++ == 0 && c->has_line && (data[i] == ' ' || data[i] == '\t'))
                return true;
        }
    }
    return false;
}

static void send_refusal(struct connection *c)
{
    const struct refusal refusal = c->request->refusal;

    send_error(c, refusal.status, refusal.code, refusal.text);
}

static int begin_request(struct connection *c)
{
    c->request = request_open(c);
    if (!c->request)
        return -1;
    llhttp_init(&c->parser, HTTP_REQUEST, &callbacks);
    c->parser.data = c;
    enter(c, PHASE_HEAD);
    return 0;
}

/* In llhttp's words; where a callback refused, its reason stands. */
static void refuse_malformed(struct connection *c, llhttp_errno_t why)
{
    const bool is_framing = why == HPE_INVALID_CONTENT_LENGTH ||
                            why == HPE_UNEXPECTED_CONTENT_LENGTH ||
                            why == HPE_INVALID_TRANSFER_ENCODING || why == HPE_INVALID_CHUNK_SIZE;

    request_refuse(c->request, 400, is_framing ? "bad_framing" : "bad_request",
                   "Malformed request: %s", llhttp_get_error_reason(&c->parser));
}

/* Bytes used: all, unless a request ends before, or is refused. */
static size_t parse(struct connection *c, const char *data, size_t n)
{
    llhttp_errno_t rc;
    size_t used = n;

    if (c->phase == PHASE_HEAD && has_folded_line(c, data, n)) {
        request_refuse(c->request, 400, "bad_request",
                       "Malformed request: expected every header in one line");
        return n;
    }
    rc = llhttp_execute(&c->parser, data, n);
    if (rc == HPE_PAUSED)
        used = (size_t)(llhttp_get_error_pos(&c->parser) - data);
    else if (rc != HPE_OK)
        refuse_malformed(c, rc);
    c->wire_bytes += used;
    if (c->phase == PHASE_BODY && !c->is_complete &&
        c->wire_bytes > FRAMING_BYTES + FRAMING_FACTOR * c->body_bytes)
        request_refuse(c->request, 400, "bad_framing",
                       "Malformed request: expected chunks of data, found chunk heads");
    return used;
}

static void hand_over(struct connection *c)
{
    enter(c, PHASE_REPLYING);
    if (c->request->is_dropped)
        refuse_too_large(c);
    if (c->request->refusal.status)
        send_refusal(c);
    else
        c->http->options.handler(c->request, c->http->options.user);
}

/* Parses what came, request by request. Bytes used: the rest is for another turn, or for nobody. */
static size_t take(struct connection *c, const char *data, size_t n)
{
    unsigned n_requests = 0;
    size_t used = 0;

    while (used < n && !c->is_closed && c->phase <= PHASE_BODY && n_requests < REQUESTS_PER_TURN) {
        if (!c->request && begin_request(c) != 0) {
            connection_close(c); /* UNTESTED: no memory; closing is all that can be done */
            return n;
        }
        used += parse(c, data + used, n - used);
        if (c->is_complete) {
            n_requests++;
            hand_over(c);
        } else if (c->request->refusal.status) {
            c->keeps_alive = false;
            send_refusal(c);
        }
    }
    return c->is_closed || c->phase == PHASE_LINGERING ? n : used;
}

/* Keeps what was received and not parsed. */
static void keep(struct connection *c, const char *data, size_t n)
{
    c->pending = malloc(n);
    if (!c->pending) {
        c->keeps_alive = false; /* UNTESTED: no memory; what is replied to now is the last */
        if (c->phase <= PHASE_BODY)
            connection_close(c);
        return;
    }
    memcpy(c->pending, data, n);
    c->pending_at = 0;
    c->pending_bytes = n;
    if (c->phase <= PHASE_BODY)
        make_ready(c);
}

static void take_pending(struct connection *c)
{
    const size_t used = take(c, c->pending + c->pending_at, c->pending_bytes);

    if (c->is_closed || c->phase == PHASE_LINGERING)
        return;
    c->pending_at += used;
    c->pending_bytes -= used;
    if (c->pending_bytes == 0)
        drop_pending(c);
    else if (c->phase <= PHASE_BODY)
        make_ready(c);
    else
        leave_ready(c);
}

/* Every connection that is ready now has one turn; those that are ready again have the next. */
static void on_turn(uv_idle_t *turn)
{
    struct http *http = turn->data;
    struct connection *last = NULL, *c;

    for (c = http->ready; c; c = c->next_ready)
        last = c;
    for (bool is_last = !last; !is_last;) {
        c = http->ready;
        is_last = c == last || !c;
        if (!c)
            break;
        leave_ready(c);
        take_pending(c);
        watch(c);
    }
    if (!http->ready)
        uv_idle_stop(turn);
}

static void on_ended(struct connection *c)
{
    if (c->phase == PHASE_REPLYING) {
        c->has_left = true;
        connection_give_up(c, HTTP_LEFT);
    } else {
        connection_close(c);
    }
}

static void discard(struct connection *c, size_t n)
{
    c->discarded_bytes += n;
    if (c->discarded_bytes / DROP_FACTOR > c->http->options.max_body_bytes)
        connection_close(c);
}

static void receive(struct connection *c)
{
    char *scratch = c->http->scratch;
    ssize_t n;
    size_t used;

    if (c->phase == PHASE_REPLYING || c->phase == PHASE_SENDING || c->previous_ready) {
        c->has_unread = true;
        return;
    }
    n = recv(c->fd, scratch, READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        on_ended(c);
        return;
    }
    if (c->phase == PHASE_LINGERING) {
        discard(c, (size_t)n);
        return;
    }
    used = take(c, scratch, (size_t)n);
    if (used < (size_t)n)
        keep(c, scratch + used, (size_t)n - used);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;

    if (status < 0) { /* reset; libuv watches it no more */
        c->events = 0;
        on_ended(c);
    } else {
        c->has_left = c->has_left || (events & UV_DISCONNECT);
        if (events & UV_WRITABLE)
            send_more(c);
        else if (events & UV_READABLE)
            receive(c);
        if (!c->is_closed && c->has_left && c->phase == PHASE_REPLYING)
            connection_give_up(c, HTTP_LEFT);
    }
    watch(c);
}

/* ---- What a handler reads -------------------------------------------------------------------- */

const char *http_method(const struct http_request *request)
{
    return request->method;
}

void http_set_label(struct http_request *request, void *label)
{
    request->label = label;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_query(const struct http_request *request)
{
    return request->query;
}

const char *http_header(const struct http_request *request, const char *name)
{
    return request_header(request, name);
}

const char *http_body(const struct http_request *request, size_t *bytes)
{
    *bytes = request->body_bytes;
    return request->body ? request->body : "";
}
