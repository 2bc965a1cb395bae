#include "http/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "http/forwarded.h"
#include "http/proxy.h"

static const struct sockaddr *peer_of(const struct connection *c)
{
    return (const struct sockaddr *)(const void *)&c->peer;
}

static bool is_trusted(const struct connection *c)
{
    return networks_have(&c->http->options.trusted, peer_of(c));
}

/* What its request takes so far is the new one's. */
static void set(struct connection *c, const struct sockaddr *client, bool is_counted)
{
    const size_t bytes = c->request ? c->request->counted_bytes : 0;

    if (c->address)
        c->address->bodies_bytes -= bytes;
    addresses_leave(c->http->addresses, c->address);
    c->address = is_counted ? addresses_enter(c->http->addresses, client) : NULL;
    if (c->address)
        c->address->bodies_bytes += bytes;
    address_text(client, c->client);
    c->client_id = address_id(client);
}

/* ---- The connection -------------------------------------------------------------------------- */

/* As in networks.h: where proxies are named, others are plain clients. */
static bool expects_proxy(const struct connection *c)
{
    const struct http_options *o = &c->http->options;

    return o->proxy_protocol && (networks_empty(&o->trusted) || is_trusted(c));
}

int client_begin(struct connection *c, const struct sockaddr *peer)
{
    memcpy(&c->peer, peer,
           peer->sa_family == AF_INET6  ? sizeof(struct sockaddr_in6)
           : peer->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                        : sizeof(peer->sa_family));
    if (expects_proxy(c)) {
        c->proxy = calloc(1, sizeof(*c->proxy));
        if (!c->proxy)
            return -1;
    }
    set(c, peer, !c->proxy && !is_trusted(c));
    return 0;
}

void client_end(struct connection *c)
{
    free(c->proxy);
    c->proxy = NULL;
    addresses_leave(c->http->addresses, c->address);
    c->address = NULL;
}

static void tell_of_bad(struct connection *c)
{
    struct http *http = c->http;

    http->n_bad_proxy++;
    if (!log_is_due(&http->told_bad_proxy_ms, uv_now(http->loop)))
        return;
    log_warning("closed %zu connections, the last from %s: expected a PROXY header, found "
                "something else",
                http->n_bad_proxy, c->client);
    http->n_bad_proxy = 0;
}

static void take_header(struct connection *c)
{
    struct proxy *proxy = c->proxy;

    c->proxy = NULL;
    if (proxy->has_client) {
        c->peer = proxy->client;
        set(c, peer_of(c), !is_trusted(c));
        http_check_share(c);
    }
    free(proxy);
}

void client_read_proxy(struct connection *c)
{
    char *data = c->http->scratch;
    const ssize_t n = recv(c->fd, data, READ_BYTES, MSG_PEEK | MSG_DONTWAIT);
    enum proxy_state state;
    size_t used;

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        connection_close(c);
        return;
    }
    state = proxy_take(c->proxy, data, (size_t)n, &used);
    if (state == PROXY_BAD || recv(c->fd, data, used, MSG_DONTWAIT) != (ssize_t)used) {
        tell_of_bad(c);
        connection_close(c);
    } else if (state == PROXY_DONE) {
        take_header(c);
    }
}

/* ---- One request ----------------------------------------------------------------------------- */

int client_begin_request(struct connection *c)
{
    const unsigned most = c->http->options.max_connections_per_address;
    struct sockaddr_storage client;

    if (!is_trusted(c) || !forwarded_client(c->request, &c->http->options.trusted, &client))
        return 0;
    c->is_forwarded = true;
    set(c, (const struct sockaddr *)(const void *)&client, true);
    if (most && address_connections(c->address) > most)
        return request_refuse(c->request, 503, "too_many_connections",
                              "Too many connections from this address are open");
    return 0;
}

void client_end_request(struct connection *c)
{
    if (c->is_forwarded)
        set(c, peer_of(c), false);
    c->is_forwarded = false;
}
