#include "http/body.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What every body may have, whatever others take, and what is made of it. */
enum { FIRST_BODY_BYTES = 16384 };

static void set_capacity(struct connection *c, size_t bytes)
{
    connection_count(c, bytes - c->request->body_capacity);
    c->request->body_capacity = bytes;
}

void body_shrink(struct connection *c, size_t kept_bytes)
{
    struct http_request *request = c->request;
    const size_t left = kept_bytes < request->body_capacity ? kept_bytes : request->body_capacity;

    free(request->body);
    request->body = NULL;
    set_capacity(c, left);
    request->body_bytes = 0;
}

void body_drop(struct connection *c)
{
    body_shrink(c, 0);
}

bool body_hold(struct connection *c, size_t bytes)
{
    if (bytes > FIRST_BODY_BYTES && !http_make_memory(c->http, c, bytes))
        return false;
    set_capacity(c, c->request->body_capacity + bytes);
    return true;
}

int body_refuse_size(struct connection *c)
{
    return request_refuse(c->request, 413, "body_too_large",
                          "The request body is larger than %zu bytes",
                          c->http->options.max_body_bytes);
}

int body_announce(struct connection *c)
{
    const size_t most = c->http->options.max_body_bytes;
    const bool asks = c->request->asks_first;

    if (c->parser.content_length > most) {
        if (asks || c->parser.content_length / DROP_FACTOR > most)
            return body_refuse_size(c);
        c->request->is_dropped = true;
    }
    c->announced_bytes = c->parser.flags & F_CHUNKED ? most : c->parser.content_length;
    if (asks && (c->parser.content_length > 0 || (c->parser.flags & F_CHUNKED))) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

        if (connection_write(c, text, sizeof(text) - 1) != sizeof(text) - 1)
            return request_refuse(c->request, 417, "expectation_failed", "Expect: cannot be met");
    }
    return 0;
}

static int grow(struct connection *c, size_t wanted)
{
    struct http_request *request = c->request;
    size_t capacity = request->body_capacity ? 2 * request->body_capacity : FIRST_BODY_BYTES;
    char *grown;

    capacity = capacity > c->announced_bytes ? c->announced_bytes : capacity;
    capacity = capacity < wanted ? wanted : capacity;
    if (capacity > FIRST_BODY_BYTES &&
        !http_make_memory(c->http, c, capacity - request->body_capacity))
        return request_refuse(request, 503, "server_busy", "Other requests take all memory");
    grown = realloc(request->body, capacity);
    if (!grown)
        return request_refuse(request, 503, "out_of_memory", "out of memory");
    set_capacity(c, capacity);
    request->body = grown;
    return 0;
}

int body_add(struct connection *c, const char *at, size_t n)
{
    struct http_request *request = c->request;
    const size_t most = c->http->options.max_body_bytes;

    c->body_bytes += n;
    if (!request->is_dropped && request->body_bytes + n > most) {
        request->is_dropped = true;
        body_drop(c);
    }
    if (request->is_dropped)
        return c->body_bytes / DROP_FACTOR > most ? body_refuse_size(c) : 0;
    if (request->body_bytes + n > request->body_capacity && grow(c, request->body_bytes + n) != 0)
        return -1;
    memcpy(request->body + request->body_bytes, at, n);
    request->body_bytes += n;
    return 0;
}
