/* connection.h - one client's connection, and what all of a server's connections share.
 *
 * connection.c opens, watches and closes a connection, input.c makes requests of what it sends,
 * body.c keeps their bodies, output.c sends replies, stream.c those in parts; http.c decides who
 * is let in and how long a phase may last, evict.c who leaves for others. Loop thread; only for
 * these files. Invariants: a connection in PHASE_REPLYING or PHASE_STREAMING has a request that its
 * handler has; no other phase is left waiting for anybody but the client. A closed connection's
 * memory lives until libuv has closed its handles.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include "http/addresses.h"
#include "http/proxy.h"
#include "http/request.h"
#include "http/tls.h"
#include "http/trim.h"

enum {
    SCRATCH_BYTES = TLS_RECORD_BYTES,
    READ_BYTES = 8192, /* most that one connection is read, and parsed, in a turn of the loop */
    RESERVED_CONNECTIONS = 32, /* beyond http_max_waiting(), for what is replied to at once */
    LARGE_REPLY_BYTES = 16384, /* smaller ones wait for their clients uncounted */
    SLOW_MS = 1000,            /* what a request may take before it may have to leave for others */
    DROP_FACTOR = 8 /* a body too large is read, for its 413, up to so many times the limit */
};

enum phase {
    PHASE_IDLE, /* between requests, or before the first */
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_REPLYING,  /* the handler has the request */
    PHASE_STREAMING, /* likewise, and a part of the reply is out */
    PHASE_SENDING,
    PHASE_LINGERING /* our side is shut; reading what still comes, so that the reply arrives */
};

struct connection {
    struct http *http;
    struct connection *next, **previous_link;        /* of all connections */
    struct connection *next_ready, **previous_ready; /* in http->ready; previous NULL: not there */
    struct sockaddr_storage peer;
    struct proxy *proxy;     /* owned: a PROXY header comes first, and is not whole; or NULL */
    bool is_forwarded;       /* the request's client is another than the peer */
    struct address *address; /* NULL: not counted */
    char client[ADDRESS_TEXT_BYTES]; /* for logs */
    uint64_t client_id;              /* see http_client() */
    int fd;
    struct tls *tls; /* owned; NULL: the connection is plain */
    uv_poll_t poll;
    uv_timer_t deadline; /* while a request is awaited */
    int events;          /* what `poll` watches */
    int n_handles;       /* open ones of libuv */

    enum phase phase;
    uint64_t since_ms; /* when the phase began */
    size_t n_requests; /* replied to */
    bool is_closed;
    bool has_left;    /* the client shut its side */
    bool has_unread;  /* it sent more while it waits for a reply */
    bool keeps_alive; /* after this reply, as the client wants it */
    bool is_complete; /* the request is here, to be handed over */
    bool is_active;   /* counted in http->n_active */

    llhttp_t parser;
    struct http_request *request;
    size_t wire_bytes;                /* of this request */
    size_t query_bytes;               /* of its beginning that are those of "QUERY " */
    size_t line_bytes;                /* of this line of its head */
    size_t body_bytes;                /* of its body, kept or dropped */
    size_t announced_bytes;           /* most that its body can have */
    bool has_line;                    /* its request line is complete */
    char *pending;                    /* owned: received, not parsed yet; or NULL */
    size_t pending_at, pending_bytes; /* what is left of it: from, and how much */

    char *head; /* owned: of the reply */
    size_t head_bytes, sent_bytes;
    size_t swept_bytes; /* what had moved of this request and its reply at the last sweep */
    struct http_reply reply;
    size_t reply_bytes; /* of it, while it waits for the client: counted in http->replies_bytes */
    http_room_fn *room; /* of a stream, whose unsent bytes are the reply's body */
    size_t capacity;    /* of that */
    size_t streamed_bytes;
    size_t discarded_bytes; /* while lingering */
};

struct http {
    struct http_options options;
    uv_loop_t *loop;
    uv_poll_t accepting[LISTENER_SOCKETS]; /* one for each socket of the listener */
    size_t n_accepting;
    uv_timer_t sweep_timer;
    uv_idle_t turn;                 /* runs while connections are ready */
    uv_timer_t pause;               /* or this, when they had their share of the loop */
    uint64_t ready_ns;              /* what they had of it since the last one */
    struct connection *connections; /* latest first */
    size_t n_connections;
    struct connection *ready, **ready_end; /* have more than a piece to read or parse, in turn */
    size_t n_ready;
    struct addresses *addresses; /* owned */
    char *cors;                  /* owned: header lines of every reply */
    size_t n_active, n_awaited;
    size_t bodies_bytes;        /* with long heads */
    struct trim trim;           /* of what they took */
    size_t replies_bytes;       /* of replies that wait for their clients */
    uint64_t swept_ns;          /* when sweep_timer last fired */
    uint64_t lag_ms[2];         /* the most it was late, in this minute and the last */
    uint64_t minute_ns;         /* when this one began */
    uint64_t n_evicted_ever;    /* since the start */
    size_t n_evicted;           /* of these, those that the log has not told of */
    uint64_t told_evicted_ms;   /* when it last did */
    size_t n_bad_proxy;         /* malformed PROXY headers that the log has not told of */
    uint64_t told_bad_proxy_ms; /* when it last did */
    uint64_t complained_ms;     /* when the log last said that descriptors are short */
    bool is_accepting;
    bool is_retiring, is_draining;
    uint64_t handshakes_ms, handshakes_ns; /* a turn of the loop, and what they took in it */
    char scratch[SCRATCH_BYTES];
};

/* Takes `fd`, which does not block. NULL: no memory; fd is closed. */
struct connection *connection_open(struct http *http, int fd, const struct sockaddr *peer);

/* Closes at once. Not while a handler has the request, unless nobody will reply. */
void connection_close(struct connection *connection);

/* Replies without a handler, and closes when the client has the reply; at once where its TLS is not
 * established. Not in PHASE_REPLYING. */
void connection_refuse(struct connection *connection, int status, const char *code,
                       const char *text);

/* So many bytes more, or, modulo 2^64, less, are its request's: for all, and for its address. */
void connection_count(struct connection *connection, size_t more);

/* Tells the handler that has its request to give up, if it awaits. Whether it did. */
bool connection_give_up(struct connection *connection, enum http_give_up why);

/* send(), through TLS where there is. */
ssize_t connection_write(const struct connection *connection, const void *data, size_t bytes);

/* A stream whose client left, or takes nothing: its handler gives up, and ends it. */
void connection_give_up_stream(struct connection *connection);
/* The same, but it hears of it later, from the loop: another's handler may be calling. */
void connection_fail_stream(struct connection *connection);

/* Bytes of the reply that the client has not taken. */
size_t connection_unsent(const struct connection *connection);
/* Counts the memory in which that waits, and has others leave if all is more than there may be. */
void connection_count_waiting(struct connection *connection);

/* ---- Between connection.c, input.c and output.c ---------------------------------------------- */

void connection_enter(struct connection *connection, enum phase phase);

/* Makes libuv watch for what the phase waits for. Costs system calls, so an ordinary request
 * changes nothing. */
void connection_watch(struct connection *connection);

/* Has more to parse or to read, at its next turn; or has not. */
void connection_make_ready(struct connection *connection);
void connection_leave_ready(struct connection *connection);

/* Its turn. */
void connection_take_pending(struct connection *connection);
void connection_drop_pending(struct connection *connection);

/* The socket has something, or takes more. */
void connection_receive(struct connection *connection);
void connection_send(struct connection *connection);

/* Sends what the socket takes. False: the client is gone. */
bool connection_flush(struct connection *connection);

/* Tells of the reply, which is about to be sent; or, in parts, is. */
void connection_tell(const struct connection *connection, const struct http_reply *reply,
                     const struct identity *identity);

/* Makes the head of connection->reply; false without memory. */
bool connection_make_head(struct connection *connection, const struct identity *identity);

/* Its handler has replied: clocks stop. */
void connection_end_waiting(struct connection *connection);

/* The client has left. */
void connection_on_end(struct connection *connection);

/* Frees request and reply: it is sent, or will not be. */
void connection_end_request(struct connection *connection);

void connection_send_error(struct connection *connection, int status, const char *code,
                           const char *text);

/* ---- http.c ---------------------------------------------------------------------------------- */

/* A connection beyond its address's share is refused, if none of the others can leave. */
void http_check_share(struct connection *connection);

/* Another one may be let in. */
void http_on_closed(struct http *http);

/* ---- evict.c --------------------------------------------------------------------------------- */

/* More connections than max_connections: replies ask clients to leave. */
bool http_is_full(const struct http *http);

/* How many may wait for a translation: max_connections, and as many more as the kernel would hold
 * in its queue, where nobody could tell a probe from them. */
size_t http_max_waiting(const struct http *http);

/* Whether it would have to leave for taking so long. */
bool http_is_slow(const struct connection *connection, uint64_t now);

/* Has somebody leave for another connection, or for one of `address` if that is given. */
bool http_evict_one(struct http *http, const struct address *address);

/* Whether a request may take so many bytes more; slow requests of others leave for it, of its own
 * address alone if that has half of all. */
bool http_make_memory(struct http *http, const struct connection *asking, size_t bytes);

/* Where replies that wait take more than all bodies may, those whose clients are slow leave; the
 * latest stays. */
void http_bound_replies(struct http *http, const struct connection *latest);

#endif
