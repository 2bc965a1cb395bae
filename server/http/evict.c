/* Who leaves for others where too many are connected, or memory for bodies or replies is short: who
 * has his last reply, who idles, who is slow; first of the address that has most connections. A
 * request that is being translated never leaves. Each look goes through all connections: it is for
 * when a server is full.
 */
#include <sys/socket.h>

#include "http/connection.h"

enum {
    KEPT_MS = 100, /* how long a connection that was served idles before it leaves for others */
    MOST_LOOKS = 8 /* at all connections, for one that idles indeed */
};

bool http_is_full(const struct http *http)
{
    return http->n_connections > http->options.max_connections;
}

size_t http_max_waiting(const struct http *http)
{
    const size_t most = http->options.max_connections;

    return most + (most < LISTENER_BACKLOG ? most : LISTENER_BACKLOG);
}

/* Who may leave for others, the highest rank first. */
enum { RANK_STAYS, RANK_SLOW, RANK_IDLE, RANK_SERVED };

static int rank_of(const struct connection *c, uint64_t now)
{
    const uint64_t age_ms = now - c->since_ms;

    switch (c->phase) {
    case PHASE_LINGERING:
        return RANK_SERVED;
    case PHASE_IDLE:
        return age_ms >= (c->n_requests ? KEPT_MS : SLOW_MS) && !c->pending ? RANK_IDLE
                                                                            : RANK_STAYS;
    case PHASE_HEAD:
    case PHASE_BODY:
        return age_ms >= SLOW_MS && !c->pending ? RANK_SLOW : RANK_STAYS;
    case PHASE_STREAMING:
        return age_ms >= SLOW_MS && connection_unsent(c) > 0 ? RANK_SLOW : RANK_STAYS;
    case PHASE_SENDING:
        return age_ms >= SLOW_MS ? RANK_SLOW : RANK_STAYS;
    case PHASE_REPLYING:
        break;
    }
    return RANK_STAYS;
}

bool http_is_slow(const struct connection *connection, uint64_t now)
{
    return rank_of(connection, now) == RANK_SLOW;
}

static bool leaves_before(const struct connection *a, int rank, const struct connection *b,
                          int rank_of_b)
{
    const size_t of_a = address_connections(a->address), of_b = address_connections(b->address);

    if (rank != rank_of_b)
        return rank > rank_of_b;
    if (of_a != of_b)
        return of_a > of_b;
    return a->since_ms <= b->since_ms; /* the list has the latest first */
}

typedef bool of_fn(const struct connection *connection, const void *whom);

/* The one to leave of those that are `of` whom; NULL: nobody. */
static struct connection *find_leaving(const struct http *http, of_fn *of, const void *whom)
{
    const uint64_t now = uv_now(http->loop);
    struct connection *found = NULL;
    int best = RANK_STAYS;

    for (struct connection *c = http->connections; c; c = c->next) {
        int rank = of(c, whom) ? rank_of(c, now) : RANK_STAYS;

        if (rank > RANK_STAYS && (!found || leaves_before(c, rank, found, best))) {
            found = c;
            best = rank;
        }
    }
    return found;
}

static bool is_of_address(const struct connection *c, const void *address)
{
    return !address || c->address == address;
}

static bool counts_and_is_not(const struct connection *c, const void *asking)
{
    return c != asking && c->request && c->request->counted_bytes > 0;
}

static bool counts_of_the_same(const struct connection *c, const void *asking)
{
    return counts_and_is_not(c, asking) &&
           c->address == ((const struct connection *)asking)->address;
}

static bool has_reply_and_is_not(const struct connection *c, const void *latest)
{
    return c != latest && c->reply_bytes > 0;
}

/* Whether a request came that is not read yet. */
static bool has_unread(const struct connection *c)
{
    char byte;

    return c->phase == PHASE_IDLE && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void count_evicted(struct http *http)
{
    http->n_evicted++;
    http->n_evicted_ever++;
}

static void evict(struct connection *c)
{
    count_evicted(c->http);
    if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY)
        connection_refuse(c, 408, "request_too_slow",
                          "This server is full, and the request was not complete in time");
    if (c->phase == PHASE_STREAMING)
        connection_give_up_stream(c);
    connection_close(c);
}

bool http_evict_one(struct http *http, const struct address *address)
{
    for (int i = 0; i < MOST_LOOKS; i++) {
        struct connection *leaving = find_leaving(http, is_of_address, address);

        if (!leaving)
            return false;
        if (!has_unread(leaving)) {
            evict(leaving);
            return true;
        }
        leaving->since_ms = uv_now(http->loop); /* it idles no more */
    }
    return false;
}

/* Besides the one that asks. */
static bool has_half_of_memory(const struct http *http, const struct connection *asking)
{
    return asking->address && asking->address->bodies_bytes - asking->request->counted_bytes >
                                  http->options.max_bodies_bytes / 2;
}

bool http_make_memory(struct http *http, const struct connection *asking, size_t bytes)
{
    struct connection *leaving;
    bool is_greedy;

    while ((is_greedy = has_half_of_memory(http, asking)) ||
           http->bodies_bytes + bytes > http->options.max_bodies_bytes) {
        leaving = find_leaving(http, is_greedy ? counts_of_the_same : counts_and_is_not, asking);
        if (!leaving) /* what one request takes is bounded: alone it may have it */
            return http->bodies_bytes == asking->request->counted_bytes;
        evict(leaving);
    }
    return true;
}

void http_bound_replies(struct http *http, const struct connection *latest)
{
    struct connection *leaving;

    while (http->replies_bytes > http->options.max_bodies_bytes &&
           (leaving = find_leaving(http, has_reply_and_is_not, latest)))
        if (leaving->phase == PHASE_STREAMING) {
            count_evicted(http);
            connection_fail_stream(leaving);
        } else {
            evict(leaving);
        }
}
