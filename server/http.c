/* Happy path: MHD's epoll descriptor is readable -> MHD_run() -> on_request() once for the headers,
 * once per piece of body, once at the end -> the handler -> http_reply(), and MHD sends it.
 * A translation instead suspends: http_await() -> ... -> http_reply() resumes the connection ->
 * on_request() once more, which queues the reply.
 *
 * Failure modes: a body beyond the limit is read and dropped (so that the client reads its 413), up
 * to DROP_FACTOR times the limit, then the connection is closed; a client that asks first (Expect:
 * 100-continue) or announces more than that is refused at once. Slow clients: MHD closes silent
 * connections; sweep() closes those that trickle. Full: one place beyond max_connections admits
 * whoever waits, and the connection idle longest leaves for it. A request whose end two readers
 * could see in two places is refused and its connection closed. Out of memory: a 503 made at
 * start. */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"
#include "watch.h"

enum {
    CONNECTION_MEMORY_BYTES = 65536, /* request line, headers and query together */
    DROP_FACTOR = 8,
    SWEEP_MS = 1000,
    ACCEPT_ROUNDS = 64 /* of MHD_run() to empty the kernel's queue when draining starts */
};

/* One TCP connection, from accept to close: for the clocks MHD does not have, and for watch.h. */
struct connection {
    struct http *http;
    struct connection *next, **previous_link;
    int fd;
    struct http_request *request; /* headers are complete, the reply is not yet sent; or NULL */
    bool in_body;
    bool has_left;     /* the client closed its side */
    uint64_t since_ms; /* when this phase (idle or body) began */
};

enum request_state { RECEIVING, HANDED_OVER, AWAITING, REPLIED };

struct http_request {
    struct http *http;
    struct MHD_Connection *mhd;
    struct connection *connection; /* NULL if memory was short when it was accepted */
    const char *method, *path;     /* MHD's, as long as the request lives */
    enum request_state state;
    char *body; /* owned, created with its maximum */
    size_t body_bytes, body_capacity, dropped_bytes;
    bool is_too_large;
    struct MHD_Response *response; /* owned */
    unsigned status;
    uv_timer_t *deadline; /* owned, while AWAITING */
    http_give_up_fn *give_up;
    void *user;
    struct http_request *next, **previous_link; /* in http->awaiting, while AWAITING */
};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    struct MHD_Response *no_memory; /* the reply that needs no memory */
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t run_timer, sweep_timer;
    struct watch *watch;            /* owned; all connections are in it */
    struct connection *connections; /* latest first */
    size_t n_connections;
    struct http_request *awaiting;
    size_t n_active;
    bool has_closed; /* MHD_run() closed a connection */
    bool is_draining;
};

/* ---- Driving MHD ----------------------------------------------------------------------------- */

static void run(struct http *http);

static void on_run_timer(uv_timer_t *timer)
{
    run(timer->data);
}

static void run(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    http->has_closed = false;
    MHD_run(http->daemon);
    if (http->has_closed) /* only the next run accepts what waited for the free place */
        uv_timer_start(&http->run_timer, on_run_timer, 0, 0);
    else if (MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES)
        uv_timer_start(&http->run_timer, on_run_timer, timeout_ms, 0);
    else
        uv_timer_stop(&http->run_timer);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

/* Whether the client has closed its side and everything it sent is read. MHD overlooks that if the
 * last bytes and the close came together and left a request incomplete. */
static bool has_ended(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Closes the connection that has been idle longest, if at least so long: probes and new clients
 * must get in though others hold every place. MHD sees the end and cleans up. */
static void make_room(const struct http *http, uint64_t idle_ms)
{
    const struct connection *oldest = NULL;

    for (const struct connection *c = http->connections; c; c = c->next)
        if (!c->request && (!oldest || c->since_ms <= oldest->since_ms))
            oldest = c;
    if (oldest && uv_now(http->loop) - oldest->since_ms >= idle_ms)
        shutdown(oldest->fd, SHUT_RDWR);
}

static bool is_full(const struct http *http)
{
    return http->n_connections > http->options.max_connections;
}

/* Closes connections whose request does not get on. MHD's own time-out starts again with every
 * byte; these clocks do not. */
static void sweep(uv_timer_t *timer)
{
    const struct http *http = timer->data;
    const uint64_t now = uv_now(http->loop);

    for (struct connection *c = http->connections; c; c = c->next) {
        uint64_t limit_s = c->in_body ? http->options.read_timeout_s : http->options.idle_timeout_s;

        if (c->request && !c->in_body)
            continue;
        if (now - c->since_ms > limit_s * 1000 || has_ended(c->fd))
            shutdown(c->fd, SHUT_RDWR);
    }
    if (is_full(http))
        make_room(http, SWEEP_MS);
}

static void unlink_connection(struct connection *c)
{
    watch_remove(c->http->watch, c->fd);
    *c->previous_link = c->next;
    if (c->next)
        c->next->previous_link = c->previous_link;
    c->http->n_connections--;
    free(c);
}

static struct connection *link_connection(struct http *http, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->http = http;
    c->fd = fd;
    c->since_ms = uv_now(http->loop);
    c->next = http->connections;
    c->previous_link = &http->connections;
    if (c->next)
        c->next->previous_link = &c->next;
    http->connections = c;
    http->n_connections++;
    watch_add(http->watch, fd, c);
    return c;
}

static void on_connection(void *user, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = user;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (http->n_connections == http->options.max_connections)
            make_room(http, 0);
        *context = link_connection(
            http, MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
        return;
    }
    http->has_closed = true;
    if (*context)
        unlink_connection(*context);
    *context = NULL;
}

/* ---- Receiving a request --------------------------------------------------------------------- */

static enum MHD_Result queue_no_memory(struct http *http, struct MHD_Connection *mhd)
{
    return MHD_queue_response(mhd, MHD_HTTP_SERVICE_UNAVAILABLE, http->no_memory);
}

static enum MHD_Result queue(struct http_request *request)
{
    if (!request->response)
        return queue_no_memory(request->http, request->mhd);
    return MHD_queue_response(request->mhd, request->status, request->response);
}

/* Replies without the handler. `closes`: what follows is, or may be, body and not a request. */
static void refuse(struct http_request *request, int status, const char *code, const char *text,
                   bool closes)
{
    struct http_reply reply = {.status = status, .content_type = "application/json"};
    int n = asprintf(&reply.body, "{\"code\":\"%s\",\"error\":\"%s\",\"message\":\"%s\"}\n", code,
                     text, text);

    if (n < 0)
        reply.body = NULL;
    reply.body_bytes = n < 0 ? 0 : (size_t)n;
    http_reply(request, &reply);
    if (closes && request->response)
        MHD_add_response_header(request->response, MHD_HTTP_HEADER_CONNECTION, "close");
}

static void refuse_too_large(struct http_request *request, bool before_body)
{
    char text[80];

    snprintf(text, sizeof(text), "The request body is larger than %zu bytes",
             request->http->options.max_body_bytes);
    refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "body_too_large", text, before_body);
}

/* What the headers say about where the body ends. */
struct framing {
    unsigned n_lengths, n_codings;
    bool is_malformed; /* a length, or the name of one, that others may read differently */
    bool is_unknown;   /* a transfer coding that is not "chunked" */
};

/* Whether a header is called `name`. MHD leaves a blank before the colon in the name, and appends a
 * value that stands in a line of its own: a name that goes on sets *is_malformed. */
static bool is_called(const char *key, const char *name, bool *is_malformed)
{
    size_t n = strlen(name);

    if (strncasecmp(key, name, n) != 0)
        return false;
    if (key[n])
        *is_malformed = true;
    return true;
}

static enum MHD_Result on_header(void *user, enum MHD_ValueKind kind, const char *key,
                                 size_t key_bytes, const char *value, size_t value_bytes)
{
    struct framing *framing = user;

    (void)kind;
    (void)key_bytes;
    if (is_called(key, MHD_HTTP_HEADER_CONTENT_LENGTH, &framing->is_malformed)) {
        framing->n_lengths++;
        if (!value_bytes || strspn(value, "0123456789") != value_bytes)
            framing->is_malformed = true;
    } else if (is_called(key, MHD_HTTP_HEADER_TRANSFER_ENCODING, &framing->is_malformed)) {
        framing->n_codings++;
        if (!value || strcasecmp(value, "chunked") != 0)
            framing->is_unknown = true;
    }
    return MHD_YES;
}

/* MHD takes the first of several lengths and ignores codings it does not know; a proxy before this
 * server may see the request end elsewhere. Whether the request was refused. */
static bool refuse_framing(struct http_request *request)
{
    struct framing framing = {.n_lengths = 0};

    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, on_header, &framing);
    if (framing.is_malformed || framing.n_lengths + framing.n_codings > 1)
        refuse(request, MHD_HTTP_BAD_REQUEST, "bad_framing",
               "The length of the body is ambiguous: expected one Content-Length or one "
               "Transfer-Encoding header, in one line and without a blank before its colon",
               true);
    else if (framing.is_unknown)
        refuse(request, MHD_HTTP_NOT_IMPLEMENTED, "transfer_coding_not_supported",
               "Transfer-Encoding: expected chunked, found another coding", true);
    return request->state == REPLIED;
}

/* "http://host/health", as to a proxy, is the path of its own (RFC 9112, 3.2.2). */
static const char *without_authority(const char *path)
{
    const char *authority = path[0] == '/' ? NULL : strstr(path, "://");

    if (!authority)
        return path;
    path = strchr(authority + 3, '/');
    return path ? path : "/";
}

static struct http_request *open_request(struct http *http, struct MHD_Connection *mhd)
{
    struct http_request *request = calloc(1, sizeof(*request));
    const union MHD_ConnectionInfo *info;

    if (!request)
        return NULL;
    request->http = http;
    request->mhd = mhd;
    request->body_capacity = http->options.max_body_bytes;
    http->n_active++;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    request->connection = info ? info->socket_context : NULL;
    if (request->connection) {
        request->connection->request = request;
        request->connection->in_body = true;
        request->connection->since_ms = uv_now(http->loop);
    }
    return request;
}

/* The headers are complete. */
static enum MHD_Result begin(struct http *http, struct MHD_Connection *mhd, const char *path,
                             const char *method, void **context)
{
    struct http_request *request = open_request(http, mhd);
    const char *announced, *expect;
    unsigned long long length;

    *context = request;
    if (!request)
        return queue_no_memory(http, mhd);
    request->path = without_authority(path);
    request->method = method;
    if (refuse_framing(request))
        return queue(request);

    announced = http_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!announced)
        return MHD_YES;
    errno = 0;
    length = strtoull(announced, NULL, 10);
    if (errno == 0 && length <= request->body_capacity) {
        request->body_capacity = (size_t)length;
        return MHD_YES;
    }
    request->is_too_large = true;
    expect = http_header(request, MHD_HTTP_HEADER_EXPECT);
    if (errno == 0 && length / DROP_FACTOR <= request->body_capacity && !expect)
        return MHD_YES;
    refuse_too_large(request, true);
    return queue(request);
}

/* A piece of body came. */
static enum MHD_Result receive(struct http_request *request, const char *data, size_t *bytes)
{
    const size_t n = *bytes;

    *bytes = 0;
    if (!request->is_too_large && !request->body && request->body_capacity)
        request->body = malloc(request->body_capacity);
    if (!request->is_too_large && !request->body)
        return MHD_NO; /* UNTESTED: no memory; closing is all that can be done in mid-body */
    if (n > request->body_capacity - request->body_bytes)
        request->is_too_large = true;
    if (!request->is_too_large) {
        memcpy(request->body + request->body_bytes, data, n);
        request->body_bytes += n;
        return MHD_YES;
    }
    free(request->body);
    request->body = NULL;
    request->body_bytes = 0;
    request->dropped_bytes += n;
    if (request->dropped_bytes / DROP_FACTOR > request->http->options.max_body_bytes)
        return MHD_NO;
    return MHD_YES;
}

/* The whole request is here. */
static void hand_over(struct http_request *request)
{
    struct http *http = request->http;

    request->state = HANDED_OVER;
    if (request->connection)
        request->connection->in_body = false;
    if (request->is_too_large)
        refuse_too_large(request, false);
    else
        http->options.handler(request, http->options.user);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_bytes, void **context)
{
    struct http_request *request = *context;

    (void)version;
    if (!request)
        return begin(user, mhd, path, method, context);
    if (*data_bytes)
        return receive(request, data, data_bytes);
    if (request->state == RECEIVING)
        hand_over(request);
    return request->state == AWAITING ? MHD_YES : queue(request);
}

/* The reply is sent, or the connection broke. */
static void on_completed(void *user, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_request *request = *context;
    struct http *http = user;

    (void)mhd;
    (void)code;
    if (!request)
        return;
    http->n_active--;
    if (request->connection) {
        request->connection->request = NULL;
        request->connection->in_body = false;
        request->connection->since_ms = uv_now(http->loop);
    }
    if (request->response)
        MHD_destroy_response(request->response);
    free(request->body);
    free(request);
    *context = NULL;
}

/* ---- Replying -------------------------------------------------------------------------------- */

static void add_headers(const struct http *http, struct MHD_Response *response,
                        const struct http_reply *reply)
{
    static const char *const cors[][2] = {
        {"Access-Control-Allow-Credentials", "true"},
        {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
        {"Access-Control-Allow-Methods", "GET, POST"},
        {"Access-Control-Expose-Headers", "Authorization"},
        {"Access-Control-Max-Age", "1728000"},
    };
    char number[16];

    if (reply->content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    if (reply->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
    if (reply->retry_after_s) {
        snprintf(number, sizeof(number), "%d", reply->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
    }
    if (http->is_draining || is_full(http))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (!http->options.cors_origin[0])
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", http->options.cors_origin);
    for (size_t i = 0; i < sizeof(cors) / sizeof(cors[0]); i++)
        MHD_add_response_header(response, cors[i][0], cors[i][1]);
}

static void free_timer(uv_handle_t *timer)
{
    free(timer);
}

static void leave_awaiting(struct http_request *request)
{
    uv_close((uv_handle_t *)request->deadline, free_timer);
    request->deadline = NULL;
    *request->previous_link = request->next;
    if (request->next)
        request->next->previous_link = request->previous_link;
}

void http_reply(struct http_request *request, const struct http_reply *reply)
{
    struct http *http = request->http;
    bool was_suspended = request->state == AWAITING;

    request->status = (unsigned)reply->status;
    request->response = MHD_create_response_from_buffer(reply->body_bytes, reply->body,
                                                        reply->body ? MHD_RESPMEM_MUST_FREE
                                                                    : MHD_RESPMEM_PERSISTENT);
    if (request->response)
        add_headers(http, request->response, reply);
    else
        free(reply->body); /* queue() replies 503 */
    request->state = REPLIED;
    if (!was_suspended)
        return;
    leave_awaiting(request);
    MHD_resume_connection(request->mhd);
    uv_timer_start(&http->run_timer, on_run_timer, 0, 0);
}

static void give_up(struct http_request *request, enum http_give_up why)
{
    http_give_up_fn *fn = request->give_up;

    request->give_up = NULL;
    if (fn)
        fn(request->user, why);
}

static void on_left(void *user)
{
    struct connection *connection = user;

    connection->has_left = true;
    if (connection->request && connection->request->state == AWAITING)
        give_up(connection->request, HTTP_LEFT);
}

static bool has_left(const struct http_request *request)
{
    return request->connection && request->connection->has_left;
}

static void on_deadline(uv_timer_t *timer)
{
    struct http_request *request = timer->data;

    give_up(request, has_left(request) ? HTTP_LEFT : HTTP_DEADLINE);
}

int http_await(struct http_request *request, uint64_t timeout_ms, http_give_up_fn *fn, void *user)
{
    struct http *http = request->http;

    request->deadline = malloc(sizeof(*request->deadline));
    if (!request->deadline)
        return ACRE_ENOMEM;
    uv_timer_init(http->loop, request->deadline);
    request->deadline->data = request;
    uv_update_time(http->loop); /* parsing a large body may have taken a while */
    uv_timer_start(request->deadline, on_deadline, has_left(request) ? 0 : timeout_ms, 0);
    request->give_up = fn;
    request->user = user;
    request->state = AWAITING;
    request->next = http->awaiting;
    request->previous_link = &http->awaiting;
    if (request->next)
        request->next->previous_link = &request->next;
    http->awaiting = request;
    MHD_suspend_connection(request->mhd);
    return 0;
}

/* ---- Reading a request ----------------------------------------------------------------------- */

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_header(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_request *request, size_t *bytes)
{
    *bytes = request->body_bytes;
    return request->body ? request->body : "";
}

struct MHD_Connection *http_connection(const struct http_request *request)
{
    return request->mhd;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static struct MHD_Daemon *start_daemon(struct http *http)
{
    const struct http_options *o = &http->options;

    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, on_request, http,
        MHD_OPTION_LISTEN_SOCKET, o->fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_CONNECTION_LIMIT,
        o->max_connections + 1, MHD_OPTION_CONNECTION_TIMEOUT, o->idle_timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static struct MHD_Response *make_no_memory(void)
{
    static char text[] = "{\"code\":\"out_of_memory\",\"error\":\"out of memory\","
                         "\"message\":\"out of memory\"}\n";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof(text) - 1, text, MHD_RESPMEM_PERSISTENT);

    if (response)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    return response;
}

static int start_handles(struct http *http, uv_loop_t *loop)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    if (!info || uv_poll_init(loop, &http->poll, info->epoll_fd) != 0)
        return ACRE_EIO;
    uv_timer_init(loop, &http->run_timer);
    uv_timer_init(loop, &http->sweep_timer);
    http->poll.data = http->run_timer.data = http->sweep_timer.data = http;
    uv_poll_start(&http->poll, UV_READABLE, on_readable);
    uv_timer_start(&http->run_timer, on_run_timer, 0, 0);
    uv_timer_start(&http->sweep_timer, sweep, SWEEP_MS, SWEEP_MS);
    return 0;
}

int http_open(uv_loop_t *loop, const struct http_options *options, struct http **out,
              struct acre_err *err)
{
    struct http *http = calloc(1, sizeof(*http));

    if (!http)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    http->options = *options;
    http->loop = loop;
    http->no_memory = make_no_memory();
    if (!http->no_memory)
        goto err_after_alloc;
    http->watch = watch_open(loop, on_left);
    if (!http->watch)
        goto err_after_response;
    http->daemon = start_daemon(http);
    if (!http->daemon)
        goto err_after_watch;
    if (start_handles(http, loop) != 0)
        goto err_after_daemon;
    *out = http;
    return 0;

err_after_daemon:
    MHD_quiesce_daemon(http->daemon); /* the socket stays the caller's */
    MHD_stop_daemon(http->daemon);
err_after_watch:
    watch_close(http->watch);
err_after_response:
    MHD_destroy_response(http->no_memory);
err_after_alloc:
    free(http);
    return error_set(err, ACRE_EIO, "the HTTP server cannot start: %s", strerror(errno));
}

void http_drain(struct http *http)
{
    MHD_socket fd;

    if (http->is_draining)
        return;
    http->is_draining = true;
    for (int i = 0; i < ACCEPT_ROUNDS; i++)
        MHD_run(http->daemon);
    fd = MHD_quiesce_daemon(http->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    uv_timer_start(&http->run_timer, on_run_timer, 0, 0);
}

bool http_is_draining(const struct http *http)
{
    return http->is_draining;
}

size_t http_active(const struct http *http)
{
    return http->n_active;
}

size_t http_give_up_all(struct http *http)
{
    size_t n = 0;

    while (http->awaiting) {
        give_up(http->awaiting, HTTP_SHUTDOWN);
        n++;
    }
    return n;
}

void http_close(struct http *http)
{
    uv_close((uv_handle_t *)&http->poll, NULL);
    uv_close((uv_handle_t *)&http->run_timer, NULL);
    uv_close((uv_handle_t *)&http->sweep_timer, NULL);
    if (!http->is_draining)
        http_drain(http);
    MHD_stop_daemon(http->daemon);
    watch_close(http->watch);
}

void http_free(struct http *http)
{
    if (!http)
        return;
    MHD_destroy_response(http->no_memory);
    free(http);
}
