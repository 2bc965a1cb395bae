/* http.h - HTTP/1.1 on the event loop: libmicrohttpd's sockets driven by libuv.
 *
 * Each request is read whole (or refused by its size), then given to the one handler, which either
 * replies before it returns or calls http_await() and replies later; its connection is suspended
 * meanwhile. Everything here runs on the loop thread; nothing here is thread-safe.
 * Invariants: one reply per request; a suspended connection always has a deadline; whoever called
 * http_await() replies exactly once, also after it was told to give up.
 */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "acre.h"

struct http;
struct http_request;
struct MHD_Connection;

typedef void http_handler_fn(struct http_request *request, void *user);

struct http_options {
    int fd; /* a listening socket; owned by the server from http_open() on, if that succeeds */
    size_t max_body_bytes;
    unsigned max_connections; /* for one more, the one idle longest is closed */
    unsigned read_timeout_s;
    unsigned idle_timeout_s;
    const char *cors_origin; /* "" for no CORS headers; borrowed for the server's life */
    http_handler_fn *handler;
    void *user;
};

int http_open(uv_loop_t *loop, const struct http_options *options, struct http **http,
              struct acre_err *err);

/* Accepts what has already connected, then no more; replies ask clients to disconnect. */
void http_drain(struct http *http);
bool http_is_draining(const struct http *http);

/* Requests whose reply is not sent yet. */
size_t http_active(const struct http *http);

/* Tells every suspended request to give up. Returns how many there were. */
size_t http_give_up_all(struct http *http);

/* Closes every connection. No request may be suspended. Run the loop to its end, then
 * http_free(). */
void http_close(struct http *http);
void http_free(struct http *http);

/* ---- The request, until it is replied to ----------------------------------------------------- */

const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request); /* decoded, without the query */
const char *http_header(const struct http_request *request, const char *name); /* or NULL */
const char *http_body(const struct http_request *request, size_t *bytes);      /* not terminated */

/* The request in libmicrohttpd's terms, for fields.c, which uses its parsers. */
struct MHD_Connection *http_connection(const struct http_request *request);

/* ---- The reply ------------------------------------------------------------------------------- */

struct http_reply {
    int status;
    char *body; /* owned, from malloc; taken by http_reply() */
    size_t body_bytes;
    const char *content_type; /* NULL if there is no body */
    const char *allow;        /* Allow header, or NULL */
    int retry_after_s;        /* Retry-After header, or 0 */
};

/* Replies, now or as soon as the connection is awake again. */
void http_reply(struct http_request *request, const struct http_reply *reply);

enum http_give_up { HTTP_DEADLINE, HTTP_LEFT, HTTP_SHUTDOWN };
typedef void http_give_up_fn(void *user, enum http_give_up why);

/* Suspends the connection, from inside the handler. `give_up` is called at most once, and must
 * reply. ACRE_ENOMEM if that is not possible; the handler then replies itself. */
int http_await(struct http_request *request, uint64_t timeout_ms, http_give_up_fn *give_up,
               void *user);

#endif
