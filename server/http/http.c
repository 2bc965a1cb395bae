/* Who is let in. Happy path: the listener is readable -> on_client() -> connection_open().
 *
 * Failure modes: max_connections are open: up to twice as many are let in, replies ask clients to
 * leave, and some have to (evict.c); where nobody can leave, new ones wait in the kernel's queue.
 * No descriptors: one leaves, too; if nobody can, accepting pauses until a connection closes or the
 * next sweep. Clocks: sweep() looks at every connection once a second; they run from the beginning
 * of a phase, so that trickling bytes do not stop them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/connection.h"
#include "common/error.h"
#include "common/log.h"

enum {
    SWEEP_MS = 1000,
    ACCEPTS_PER_TURN = 64,
    LINGER_MS = 2000, /* for a client to take its last reply */
    SLOW_BYTES_PER_MS = 16,
};
#define MINUTE_NS UINT64_C(60000000000)

/* ---- Accepting ------------------------------------------------------------------------------- */

static void on_client(uv_poll_t *poll, int status, int events);

static void start_accepting(struct http *http)
{
    if (http->is_accepting || http->is_draining)
        return;
    http->is_accepting = true;
    for (size_t i = 0; i < http->n_accepting; i++)
        uv_poll_start(&http->accepting[i], UV_READABLE, on_client);
}

static void stop_accepting(struct http *http)
{
    http->is_accepting = false;
    for (size_t i = 0; i < http->n_accepting; i++)
        uv_poll_stop(&http->accepting[i]);
}

void http_on_closed(struct http *http)
{
    start_accepting(http);
}

/* Mostly that descriptors or memory are short. */
static void complain(struct http *http)
{
    if (log_is_due(&http->complained_ms, uv_now(http->loop)))
        log_warning("no connection can be accepted with %zu open: %s", http->n_connections,
                    strerror(errno));
}

void http_check_share(struct connection *c)
{
    const unsigned most = c->http->options.max_connections_per_address;

    if (most && address_connections(c->address) > most && !http_evict_one(c->http, c->address))
        connection_refuse(c, 503, "too_many_connections",
                          "Too many connections from this address are open");
}

/* Whether there may be more to accept. */
static bool accept_one(struct http *http, int listening_fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t peer_bytes = sizeof(peer);
    int fd =
        accept4(listening_fd, (struct sockaddr *)&peer, &peer_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c;

    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (fd < 0 && (errno == ECONNABORTED || errno == EINTR || errno == EPROTO || errno == EPERM))
        return true; /* that one is gone already */
    if (fd < 0) {
        complain(http);
        if (http_evict_one(http, NULL))
            return true;
        if (!http->is_draining)
            stop_accepting(http);
        return false;
    }
    c = connection_open(http, fd, (struct sockaddr *)&peer);
    if (c)
        http_check_share(c);
    if (http_is_full(http) && !http->is_draining)
        http_evict_one(http, NULL);
    return true;
}

static void on_client(uv_poll_t *poll, int status, int events)
{
    struct http *http = poll->data;
    const size_t most = http_max_waiting(http) + RESERVED_CONNECTIONS;
    const int fd = http->options.listener->fds[poll - http->accepting];

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        if (http->n_connections >= most && !http_evict_one(http, NULL)) {
            stop_accepting(http);
            return;
        }
        if (!accept_one(http, fd))
            return;
    }
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* How long a phase may last; 0: as long as it likes. */
static uint64_t limit_ms(const struct connection *c)
{
    const struct http_options *o = &c->http->options;

    switch (c->phase) {
    case PHASE_IDLE:
    case PHASE_HEAD:
        return o->idle_timeout_s * 1000;
    case PHASE_BODY:
        return o->read_timeout_s * 1000;
    case PHASE_STREAMING:
    case PHASE_SENDING:
        if (connection_unsent(c) == 0)
            return 0;
        return o->send_timeout_s * 1000 + (c->head_bytes + c->reply.body_bytes) / SLOW_BYTES_PER_MS;
    case PHASE_LINGERING:
        return LINGER_MS;
    case PHASE_REPLYING:
        break;
    }
    return 0;
}

/* A server that stops does not wait for who hardly moves: since the last sweep, a second ago. */
static bool holds_up(struct connection *c, uint64_t now)
{
    const size_t moved_bytes = c->wire_bytes + c->sent_bytes, before = c->swept_bytes;

    c->swept_bytes = moved_bytes;
    return c->http->is_draining && http_is_slow(c, now) &&
           moved_bytes - before < SWEEP_MS * SLOW_BYTES_PER_MS;
}

static void end_phase(struct connection *c)
{
    if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY)
        connection_refuse(c, 408, "request_too_slow", "The request was not complete in time");
    else if (c->phase == PHASE_STREAMING)
        connection_give_up_stream(c);
    else
        connection_close(c);
}

static void tell_of_evicted(struct http *http)
{
    if (http->n_evicted == 0 || !log_is_due(&http->told_evicted_ms, uv_now(http->loop)))
        return;
    log_warning("closed %zu idle or slow connections: too many were open, or memory was short",
                http->n_evicted);
    http->n_evicted = 0;
}

static void note_lag(struct http *http)
{
    const uint64_t now_ns = uv_hrtime(), lag_ms = http_lag_ms(http);

    if (now_ns - http->minute_ns >= MINUTE_NS) {
        http->lag_ms[1] = http->lag_ms[0];
        http->lag_ms[0] = 0;
        http->minute_ns = now_ns;
    }
    if (lag_ms > http->lag_ms[0])
        http->lag_ms[0] = lag_ms;
    http->swept_ns = now_ns;
}

static void sweep(uv_timer_t *timer)
{
    struct http *http = timer->data;
    const uint64_t now = uv_now(http->loop);

    note_lag(http);
    for (struct connection *c = http->connections, *next; c; c = next) {
        const uint64_t limit = limit_ms(c);

        next = c->next;
        if (holds_up(c, now) || (limit && now - c->since_ms > limit))
            end_phase(c);
    }
    while (http_is_full(http) && http_evict_one(http, NULL))
        continue;
    http_bound_replies(http, NULL);
    tell_of_evicted(http);
    trim_sweep(&http->trim, http->bodies_bytes);
    start_accepting(http);
}

uint64_t http_lag_ms(const struct http *http)
{
    const uint64_t passed_ms = (uv_hrtime() - http->swept_ns) / 1000000;

    return passed_ms > SWEEP_MS ? passed_ms - SWEEP_MS : 0;
}

uint64_t http_worst_lag_ms(const struct http *http)
{
    return http->lag_ms[0] > http->lag_ms[1] ? http->lag_ms[0] : http->lag_ms[1];
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Whatever may be sent, and what of a reply browsers hide from scripts if it is not named here;
 * which methods a path has its Allow header says. */
static char *make_cors(const char *origin)
{
    static const char lines[] =
        "Access-Control-Allow-Credentials: true\r\n"
        "Access-Control-Allow-Headers: Authorization, Content-Type, traceparent, X-Request-ID\r\n"
        "Access-Control-Allow-Methods: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\n"
        "Access-Control-Expose-Headers: Authorization, Content-Disposition, Retry-After, "
        "traceparent, X-Request-ID, X-Trace-ID\r\n"
        "Access-Control-Max-Age: 1728000\r\n";
    char *text;

    if (!origin[0])
        return strdup("");
    return asprintf(&text, "Access-Control-Allow-Origin: %s\r\n%s", origin, lines) < 0 ? NULL
                                                                                       : text;
}

static int watch_listener(struct http *http)
{
    const struct listener *listener = http->options.listener;

    for (size_t i = 0; i < listener->n_fds; i++) {
        if (uv_poll_init(http->loop, &http->accepting[i], listener->fds[i]) != 0)
            return -1;
        http->accepting[i].data = http;
        http->n_accepting++;
    }
    return 0;
}

int http_open(uv_loop_t *loop, const struct http_options *options, struct http **out,
              struct acre_err *err)
{
    struct http *http = calloc(1, sizeof(*http));

    if (!http)
        return error_set_no_memory(err);
    http->options = *options;
    http->loop = loop;
    http->ready_end = &http->ready;
    trim_bound_heaps();
    http->addresses = addresses_open();
    http->cors = make_cors(options->cors_origin);
    if (!http->addresses || !http->cors) {
        http_free(http);
        return error_set_no_memory(err);
    }
    if (watch_listener(http) != 0) {
        for (size_t i = 0; i < http->n_accepting; i++)
            uv_close((uv_handle_t *)&http->accepting[i], NULL);
        uv_run(loop, UV_RUN_NOWAIT); /* their memory is ours until the loop has let go of it */
        http_free(http);
        return error_set(err, ACRE_EIO, "the HTTP server cannot start: %s", strerror(errno));
    }
    uv_timer_init(loop, &http->sweep_timer);
    uv_idle_init(loop, &http->turn);
    uv_timer_init(loop, &http->pause);
    http->sweep_timer.data = http->turn.data = http->pause.data = http;
    http->swept_ns = http->minute_ns = uv_hrtime();
    uv_timer_start(&http->sweep_timer, sweep, SWEEP_MS, SWEEP_MS);
    start_accepting(http);
    *out = http;
    return 0;
}

int http_configure(struct http *http, const struct http_options *options, struct acre_err *err)
{
    const struct http_options before = http->options;
    char *cors = make_cors(options->cors_origin);

    if (!cors)
        return error_set_no_memory(err);
    free(http->cors);
    http->cors = cors;
    http->options = *options;
    http->options.listener = before.listener;
    http->options.handler = before.handler;
    http->options.replied = before.replied;
    http->options.second_id = before.second_id;
    http->options.user = before.user;
    return 0;
}

/* However many are open: a connection the kernel has accepted is not to be lost. */
void http_drain(struct http *http)
{
    if (http->is_draining)
        return;
    http->is_draining = http->is_retiring = true;
    for (size_t i = 0; i < http->n_accepting; i++) {
        while (accept_one(http, http->options.listener->fds[i]))
            continue;
        uv_close((uv_handle_t *)&http->accepting[i], NULL);
    }
    listener_close(http->options.listener);
}

void http_retire(struct http *http)
{
    http->is_retiring = true;
}

bool http_is_retiring(const struct http *http)
{
    return http->is_retiring;
}

size_t http_active(const struct http *http)
{
    return http->n_active;
}

size_t http_connections(const struct http *http)
{
    return http->n_connections;
}

const char *const http_state_names[HTTP_STATES] = {
    [PHASE_IDLE] = "idle",          [PHASE_HEAD] = "head",           [PHASE_BODY] = "body",
    [PHASE_REPLYING] = "awaiting",  [PHASE_STREAMING] = "streaming", [PHASE_SENDING] = "sending",
    [PHASE_LINGERING] = "lingering"};
_Static_assert(PHASE_LINGERING + 1 == HTTP_STATES, "a phase without a name");

void http_count_states(const struct http *http, size_t n[HTTP_STATES])
{
    memset(n, 0, HTTP_STATES * sizeof(n[0]));
    for (const struct connection *c = http->connections; c; c = c->next)
        n[c->phase]++;
}

uint64_t http_evicted(const struct http *http)
{
    return http->n_evicted_ever;
}

size_t http_bodies_bytes(const struct http *http)
{
    return http->bodies_bytes;
}

size_t http_give_up_all(struct http *http)
{
    size_t n = 0;

    for (struct connection *c = http->connections, *next; c; c = next) {
        next = c->next;
        n += connection_give_up(c, HTTP_SHUTDOWN);
    }
    return n;
}

void http_close(struct http *http)
{
    http_drain(http);
    http_give_up_all(http);
    uv_close((uv_handle_t *)&http->sweep_timer, NULL);
    uv_close((uv_handle_t *)&http->turn, NULL);
    uv_close((uv_handle_t *)&http->pause, NULL);
    while (http->connections)
        connection_close(http->connections);
}

void http_free(struct http *http)
{
    if (!http)
        return;
    addresses_close(http->addresses);
    free(http->cors);
    free(http);
}
