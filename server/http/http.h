/* http.h - HTTP/1.1 on the event loop: llhttp reads requests from sockets that libuv watches.
 *
 * Each request is read whole (or refused), then given to the one handler, which either replies
 * before it returns or calls http_await() and replies later. Everything here runs on the loop
 * thread; nothing here is thread-safe, but that the body of a request that is awaited may be read
 * by another thread until the reply.
 * Invariants: one reply per request, in the order of requests; an awaited request has a deadline;
 * a handler that called http_await() replies exactly once, also after it was told to give up.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "acre.h"
#include "http/identity.h"
#include "http/listener.h"
#include "http/networks.h"

struct http;
struct http_request;
struct tls_context;

typedef void http_handler_fn(struct http_request *request, void *user);

/* A reply that goes out. Strings are "" where there is none. */
struct http_record {
    void *label; /* what http_set_label() set, or NULL where no handler was reached */
    int status;
    double seconds;
    size_t body_bytes;
    const char *code; /* of an error; static */
    const char *client, *method, *path;
    const struct identity *identity;
};
typedef void http_replied_fn(void *user, const struct http_record *record);

/* The header that replies to a path have the request's id in, beside X-Request-ID; or NULL. */
typedef const char *http_second_id_fn(const char *path);

struct http_options {
    struct listener *listener; /* listening; its sockets are closed when draining starts */
    size_t max_body_bytes;
    size_t max_bodies_bytes;  /* of all requests together, and of heads that are long; or replies */
    unsigned max_connections; /* beyond it those that idle, then those that are slow are closed */
    unsigned max_connections_per_address; /* 0: as many as max_connections */
    unsigned idle_timeout_s;              /* until the headers of a request are complete */
    unsigned read_timeout_s;              /* from there until its body is */
    unsigned send_timeout_s;              /* for a client to take its reply */
    struct networks trusted;              /* proxies, whose word for clients counts */
    bool proxy_protocol; /* connections from there, or all if none is, begin with a PROXY header */
    struct tls_context *tls; /* borrowed; NULL: connections are plain */
    const char *cors_origin; /* "" for no CORS headers; borrowed for the server's life */
    http_handler_fn *handler;
    http_replied_fn *replied;
    http_second_id_fn *second_id;
    void *user;
};

int http_open(uv_loop_t *loop, const struct http_options *options, struct http **http,
              struct acre_err *err);

/* Takes other limits, times and CORS headers; all else of `options` is not looked at. */
int http_configure(struct http *http, const struct http_options *options, struct acre_err *err);

/* Accepts whatever has already connected, then no more; replies ask clients to disconnect. */
void http_drain(struct http *http);

/* Serves as before, but replies ask clients to disconnect; true also while it drains. */
void http_retire(struct http *http);
bool http_is_retiring(const struct http *http);

/* Requests whose headers are complete and whose reply is not sent yet. */
size_t http_active(const struct http *http);

/* Open connections; bytes of the bodies of requests that are not replied to, or of their copies. */
size_t http_connections(const struct http *http);
size_t http_bodies_bytes(const struct http *http);

/* Open connections by what they do. */
enum { HTTP_STATES = 7 };
extern const char *const http_state_names[HTTP_STATES];
void http_count_states(const struct http *http, size_t n[HTTP_STATES]);

/* Connections closed so that others could be let in, or for want of memory, since the start. */
uint64_t http_evicted(const struct http *http);

/* How much later than due the loop comes round to its timers, now: 0 in a healthy one. And the most
 * that it was late in the last minute or two: who asks is answered when it has come round. */
uint64_t http_lag_ms(const struct http *http);
uint64_t http_worst_lag_ms(const struct http *http);

/* Tells every awaited request to give up. Returns how many there were. */
size_t http_give_up_all(struct http *http);

/* Closes every connection. Handlers that await are told to give up, and must reply at once. Run the
 * loop to its end, then http_free(). */
void http_close(struct http *http);
void http_free(struct http *http);

/* ---- The request, until it is replied to ----------------------------------------------------- */

const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);  /* decoded, without the query */
const char *http_query(const struct http_request *request); /* as it came; "" if there is none */
const char *http_header(const struct http_request *request, const char *name); /* or NULL */
const char *http_body(const struct http_request *request, size_t *bytes);      /* not terminated */
bool http_is_secure(const struct http_request *request); /* came through TLS */

/* The body has been read, and is gone: what was copied of it is counted in its place until the
 * reply, as far as it is no more than the body was. */
void http_forget_body(struct http_request *request, size_t copied_bytes);

/* So much more is held for the request, after that: it counts likewise, and slow requests leave for
 * it. False: others take all memory, and it does not count. */
bool http_hold(struct http_request *request, size_t bytes);

/* Tells clients apart: where the client is, of IPv6 the first 64 bits; 0: on this machine, or
 * nobody knows. */
uint64_t http_client(const struct http_request *request);
/* A number for that, which no client can choose; 0 likewise. */
uint64_t http_caller(const struct http_request *request);

/* What the reply is counted under. */
void http_set_label(struct http_request *request, void *label);

/* ---- The reply ------------------------------------------------------------------------------- */

struct http_reply {
    int status;
    const char *code; /* of an error, for logs; static, or NULL */
    char *body;       /* owned, from malloc; taken by http_reply() */
    size_t body_bytes;
    bool is_stream;              /* the length is not known, see http_stream_begin() */
    bool is_chunked;             /* then: the client knows chunks */
    const char *content_type;    /* NULL if there is no body */
    void (*release)(char *body); /* what becomes of `body` once it is sent; NULL: free() */
    const char *allow;           /* Allow header, or NULL */
    const char *lines;           /* further header lines, each with its CRLF; or NULL */
    int retry_after_s;           /* Retry-After header, or 0 */
};

/* Replies; the request is gone when this returns. To HEAD, and with 304, the body is left out. */
void http_reply(struct http_request *request, const struct http_reply *reply);

/* A reply in parts instead, of an awaited request: it stays awaited until the end. What is written
 * goes out at once, or is kept until the client takes it; the writer stops while much is
 * unsent, until `room` is called with the user of http_await(), when all is sent. A client that
 * takes nothing for as long as it may take a reply counts as having left. */
typedef void http_room_fn(void *user);
void http_stream_begin(struct http_request *request, const char *content_type, http_room_fn *room);
void http_stream_write(struct http_request *request, const char *data, size_t bytes);
size_t http_stream_unsent(const struct http_request *request);

/* The request is gone when this returns. If what was written is not whole, the connection closes
 * in a way that tells the client. It has read 200 long before: how the reply ended, `status` and
 * the code of an error, static or NULL, is for the record. */
void http_stream_end(struct http_request *request, bool is_whole, int status, const char *code);

enum http_give_up { HTTP_DEADLINE, HTTP_LEFT, HTTP_SHUTDOWN };
typedef void http_give_up_fn(void *user, enum http_give_up why);

/* Says, inside the handler, that the reply comes later. `give_up` is called at most once, from the
 * loop, and means that the reply is due now: nobody waits for the result any more. False: as many
 * await as may, of all or of this address; reply now. */
bool http_await(struct http_request *request, uint64_t timeout_ms, http_give_up_fn *give_up,
                void *user);

/* Moves the deadline: `timeout_ms` after http_await(). */
void http_set_deadline(struct http_request *request, uint64_t timeout_ms);

#endif
