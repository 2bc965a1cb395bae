/* Happy path: connection_receive() reads a piece -> take() -> llhttp's callbacks fill the request,
 * and stop it at the request's end -> the handler.
 *
 * Failure modes: a callback that refuses stops llhttp, and so does what llhttp finds malformed: the
 * reply is the last of its connection. Chunk heads without data are cut off. What is received and
 * not parsed is kept for another turn of the loop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/body.h"
#include "http/client.h"

enum {
    FRAMING_BYTES = 2 * MAX_HEAD_BYTES, /* head and chunk heads, for a body of nothing */
    FRAMING_FACTOR = 8,                 /* and this many more for every byte of body */
    DISCARD_BYTES = 1 << 20,            /* most that is thrown away in a turn */
    HANDSHAKES_NS = 4000000             /* most that handshakes take in a turn of the loop */
};

/* ---- llhttp's callbacks ---------------------------------------------------------------------- */

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

static int on_head_end(llhttp_t *parser)
{
    struct connection *c = parser->data;

    parser->upgrade = 0; /* nothing here upgrades: RFC 9110, 7.8 lets a server ignore it */
    if (request_end_head(c->request, parser) != 0 || client_begin_request(c) != 0 ||
        body_announce(c) != 0)
        return -1;
    connection_enter(c, PHASE_BODY);
    c->request->begun_ns = uv_hrtime();
    identity_take(&c->request->identity, http_header(c->request, "X-Request-ID"),
                  http_header(c->request, "traceparent"));
    c->request->identity.second_name = c->http->options.second_id(c->request->path);
    c->is_active = true;
    c->http->n_active++;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    return body_add(parser->data, at, n);
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

    connection_send_error(c, refusal.status, refusal.code, refusal.text);
}

static int begin_request(struct connection *c)
{
    c->request = request_open(c);
    if (!c->request)
        return -1;
    llhttp_init(&c->parser, HTTP_REQUEST, &callbacks);
    c->parser.data = c;
    connection_enter(c, PHASE_HEAD);
    return 0;
}

/* QUERY is a method that is younger than this llhttp: framed like POST, it is read as that, and the
 * handler hears its name. What only begins like it is for llhttp to refuse. Bytes used. */
static size_t take_query(struct connection *c, const char *data, size_t n)
{
    static const char query[] = "QUERY ", post[] = "POST ";
    const size_t all = sizeof(query) - 1, before = c->query_bytes;
    size_t used = 0;

    if (c->wire_bytes > 0 || before == all)
        return 0;
    while (used < n && c->query_bytes < all && data[used] == query[c->query_bytes]) {
        c->query_bytes++;
        used++;
    }
    if (c->query_bytes == all) {
        c->request->method = "QUERY";
        llhttp_execute(&c->parser, post, sizeof(post) - 1);
    } else if (used < n && c->query_bytes > 0) {
        llhttp_execute(&c->parser, query, c->query_bytes);
    }
    return used;
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
    if (c->phase == PHASE_HEAD && c->wire_bytes > MAX_HEAD_BYTES) /* blanks are not kept */
        request_refuse_size(c->request);
    if (c->phase == PHASE_BODY && !c->is_complete &&
        c->wire_bytes > FRAMING_BYTES + FRAMING_FACTOR * c->body_bytes)
        request_refuse(c->request, 400, "bad_framing",
                       "Malformed request: expected chunks of data, found chunk heads");
    return used;
}

static void hand_over(struct connection *c)
{
    connection_enter(c, PHASE_REPLYING);
    if (c->request->is_dropped)
        body_refuse_size(c);
    if (c->request->refusal.status)
        send_refusal(c);
    else
        c->http->options.handler(c->request, c->http->options.user);
}

/* RFC 9112, 2.2: empty lines before a request are no part of it, and do not begin one. */
static size_t count_empty_lines(const char *data, size_t n)
{
    size_t i = 0;

    while (i < n && (data[i] == '\r' || data[i] == '\n'))
        i++;
    return i;
}

/* Parses what came, up to the end of one request: others shall not wait for the rest. Bytes used:
 * what is left is for another turn, or for nobody. */
static size_t take(struct connection *c, const char *data, size_t n)
{
    size_t used = c->request ? 0 : count_empty_lines(data, n);

    if (used == n)
        return n;
    if (!c->request && begin_request(c) != 0) {
        connection_close(c); /* UNTESTED: no memory; closing is all that can be done */
        return n;
    }
    used += take_query(c, data + used, n - used);
    used += parse(c, data + used, n - used);
    if (c->is_complete) {
        hand_over(c);
    } else if (c->request->refusal.status) {
        c->keeps_alive = false;
        send_refusal(c);
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
        connection_make_ready(c);
}

void connection_take_pending(struct connection *c)
{
    const size_t used = take(c, c->pending + c->pending_at, c->pending_bytes);

    if (c->is_closed || c->phase == PHASE_LINGERING)
        return;
    c->pending_at += used;
    c->pending_bytes -= used;
    if (c->pending_bytes == 0)
        connection_drop_pending(c);
    else if (c->phase <= PHASE_BODY)
        connection_make_ready(c);
    else
        connection_leave_ready(c);
}

static void discard(struct connection *c, size_t n)
{
    c->discarded_bytes += n;
    if (c->discarded_bytes / DROP_FACTOR > c->http->options.max_body_bytes)
        connection_close(c);
    else if (n >= READ_BYTES)
        connection_make_ready(c);
}

/* A signature of RSA takes a millisecond. Where handshakes have had their time in this turn of
 * the loop, a connection is called again in the next: what came is still in the socket. */
static ssize_t shake_hands(struct connection *c)
{
    struct http *http = c->http;
    const uint64_t now_ms = uv_now(http->loop), begun_ns = uv_hrtime();
    ssize_t n;
    int why;

    if (http->handshakes_ms != now_ms) {
        http->handshakes_ms = now_ms;
        http->handshakes_ns = 0;
    }
    if (http->handshakes_ns > HANDSHAKES_NS) {
        errno = EAGAIN;
        return -1;
    }
    n = tls_read(c->tls, http->scratch, SCRATCH_BYTES);
    why = errno;
    http->handshakes_ns += uv_hrtime() - begun_ns;
    errno = why;
    return n;
}

/* What comes while a connection lingers is for nobody. TCP throws it away without copying it, all
 * at once: a client that sends much before it reads would cost others many turns. */
static ssize_t read_piece(struct connection *c)
{
    ssize_t n;

    if (c->phase == PHASE_LINGERING) {
        n = recv(c->fd, NULL, DISCARD_BYTES, MSG_DONTWAIT | MSG_TRUNC);
        if (n >= 0 || errno != EFAULT) /* of what is not TCP */
            return n;
    }
    if (!c->tls)
        return recv(c->fd, c->http->scratch, READ_BYTES, MSG_DONTWAIT);
    if (tls_is_established(c->tls))
        return tls_read(c->tls, c->http->scratch, SCRATCH_BYTES);
    return shake_hands(c);
}

void connection_receive(struct connection *c)
{
    char *scratch = c->http->scratch;
    ssize_t n;
    size_t used;

    if (c->phase == PHASE_REPLYING || c->phase == PHASE_STREAMING || c->phase == PHASE_SENDING ||
        c->previous_ready) {
        c->has_unread = true;
        return;
    }
    if (c->proxy) {
        client_read_proxy(c);
        return;
    }
    n = read_piece(c);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        connection_on_end(c);
        return;
    }
    if (c->phase == PHASE_LINGERING) {
        discard(c, (size_t)n);
        return;
    }
    used = take(c, scratch, (size_t)n);
    if (used < (size_t)n)
        keep(c, scratch + used, (size_t)n - used);
    else if (n >= READ_BYTES && !c->is_closed && c->phase <= PHASE_BODY)
        connection_make_ready(c); /* there is more, most likely */
}
