/* What a client sends, as bytes, through the server's own loop: sockets, llhttp, requests, replies.
 *
 * The first byte of the input chooses how it is sent and how the handler replies. Whichever way the
 * same bytes are cut, the same requests must arrive, and when the client has left nothing of it may
 * be left behind. */
#include "http/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"
#include "input.h"

enum { REPLIES_LATER = 1, LEAVES_EARLY = 2, CLOSES_BOTH_SIDES = 4, PIECE_SHIFT = 3 };

static uv_loop_t loop;
static struct http *http;

/* ---- The handler ----------------------------------------------------------------------------- */

static bool replies_later;
static struct http_request *awaited;
static uint64_t seen; /* a hash of all requests of one run, in order */
static size_t n_seen;

static void note(const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        seen = (seen ^ (unsigned char)at[i]) * 0x100000001b3u;
}

static void reply(struct http_request *request)
{
    struct http_reply answer = {.status = 200, .content_type = "text/plain", .body_bytes = 2};

    answer.body = strdup("ok");
    http_reply(request, &answer);
}

static void on_give_up(void *user, enum http_give_up why)
{
    struct http_request *request = user;

    (void)why;
    awaited = NULL;
    reply(request);
}

static size_t n_replied;

static void on_replied(void *user, const struct http_record *record)
{
    (void)user;
    if (record->status < 200 || !(record->seconds >= 0) || !record->identity->id[0])
        abort();
    n_replied++;
}

static void handle(struct http_request *request, void *user)
{
    size_t bytes;
    const char *body = http_body(request, &bytes), *host = http_header(request, "Host");

    (void)user;
    n_seen++;
    note(http_method(request), strlen(http_method(request)) + 1);
    note(http_path(request), strlen(http_path(request)) + 1);
    note(http_query(request), strlen(http_query(request)) + 1);
    note(host ? host : "", host ? strlen(host) : 0);
    note(body, bytes);
    if (!replies_later) {
        reply(request);
    } else if (http_await(request, 60000, on_give_up, request)) {
        if (awaited)
            abort(); /* two requests of one connection */
        awaited = request;
    }
}

static void reply_to_awaited(void)
{
    struct http_request *request = awaited;

    awaited = NULL;
    if (request)
        reply(request);
}

/* ---- The client ------------------------------------------------------------------------------ */

struct replies {
    char text[1 << 20];
    size_t bytes;
    bool has_ended;
};

static void receive(int fd, struct replies *replies)
{
    ssize_t n;

    while ((n = recv(fd, replies->text + replies->bytes, sizeof(replies->text) - replies->bytes,
                     MSG_DONTWAIT)) > 0)
        replies->bytes += (size_t)n;
    replies->has_ended = replies->has_ended || n == 0;
    if (replies->bytes == sizeof(replies->text))
        abort();
}

static void turn(int fd, struct replies *replies)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    receive(fd, replies);
}

static void send_pieces(int fd, const uint8_t *data, size_t size, size_t piece,
                        struct replies *replies)
{
    for (size_t at = 0; at < size && !replies->has_ended;) {
        const size_t wanted = size - at < piece ? size - at : piece;
        const ssize_t n = send(fd, data + at, wanted, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            return;
        at += n > 0 ? (size_t)n : 0;
        turn(fd, replies);
        reply_to_awaited();
    }
}

/* Final replies in what came; 100 Continue is none. */
static size_t count_replies(const struct replies *replies)
{
    const char *at = replies->text, *end = at + replies->bytes;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), "HTTP/1.1 ", 9)) && end - at > 12) {
        n += at[9] >= '2' && at[9] <= '5';
        at += 9;
    }
    return n;
}

static void settle(int fd, struct replies *replies)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        const size_t before = replies->bytes;

        turn(fd, replies);
        if (awaited || replies->bytes != before || http->ready)
            quiet = -1;
        reply_to_awaited();
    }
}

static void check_that_nothing_is_left(void)
{
    for (int i = 0; i < 100 && http->n_connections > 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        reply_to_awaited();
    }
    uv_run(&loop, UV_RUN_NOWAIT); /* frees what is closed */
    if (http->n_connections || http->n_active || http->n_awaited || http->bodies_bytes ||
        http->ready || awaited)
        abort();
}

/* Sends it, and returns how many replies came. */
static size_t run(const uint8_t *data, size_t size, size_t piece, unsigned how)
{
    static struct replies replies;
    const struct sockaddr peer = {.sa_family = AF_UNIX};
    int pair[2];

    replies.bytes = 0;
    replies.has_ended = false;
    seen = 0xcbf29ce484222325u;
    n_seen = n_replied = 0;
    replies_later = how & REPLIES_LATER;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0 ||
        !connection_open(http, pair[0], &peer))
        abort();
    send_pieces(pair[1], data, size, piece, &replies);
    if (!(how & LEAVES_EARLY))
        settle(pair[1], &replies);
    shutdown(pair[1], how & CLOSES_BOTH_SIDES ? SHUT_RDWR : SHUT_WR);
    turn(pair[1], &replies);
    if (how & CLOSES_BOTH_SIDES)
        close(pair[1]);
    check_that_nothing_is_left();
    if (!(how & CLOSES_BOTH_SIDES)) {
        receive(pair[1], &replies);
        close(pair[1]);
        if (count_replies(&replies) != n_replied)
            abort();
    }
    return count_replies(&replies);
}

static const char *second_id(const char *path)
{
    return path[1] == 'v' ? "X-Trace-ID" : NULL;
}

static void start(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    static struct listener listener = {.n_fds = 1};
    struct http_options options = {.listener = &listener,
                                   .max_body_bytes = 1024,
                                   .max_bodies_bytes = 4096,
                                   .max_connections = 4,
                                   .idle_timeout_s = 3600,
                                   .read_timeout_s = 3600,
                                   .send_timeout_s = 3600,
                                   .cors_origin = "*",
                                   .handler = handle,
                                   .replied = on_replied,
                                   .second_id = second_id};

    listener.fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (uv_loop_init(&loop) != 0 || bind(listener.fds[0], (const void *)&any, sizeof(any)) != 0 ||
        listen(listener.fds[0], 1) != 0 || http_open(&loop, &options, &http, NULL) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned how;
    uint64_t whole;
    size_t n_whole, n_replies;

    if (size == 0)
        return 0;
    if (!http)
        start();
    how = data[0] & ((1 << PIECE_SHIFT) - 1);
    n_replies = run(data + 1, size - 1, size, how);
    whole = seen;
    n_whole = n_seen;
    if (n_replies < n_whole && !(how & CLOSES_BOTH_SIDES))
        abort(); /* a request without a reply */
    n_replies -= run(data + 1, size - 1, (data[0] >> PIECE_SHIFT) + 1u, how);
    if ((whole != seen || n_whole != n_seen || n_replies != 0) && !(how & LEAVES_EARLY))
        abort(); /* cut another way, it was read as something else */
    return 0;
}
