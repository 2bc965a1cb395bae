/* Happy path: exchange_send() on an idle connection or a new one -> on_read() -> llhttp ->
 * on_message_complete() -> judge() -> done. Failure modes: a connection that ends or stays silent
 * ends its request with what went wrong; nothing is ever sent again. */
#include "exchange.h"

#include <jansson.h>
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BODY_BYTES = 1 << 14,
    MAX_CONNECTIONS = 30000,
    IDLE_MS = 3000, /* an idle connection is closed before the other side does it */
};

struct connection {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    llhttp_t parser;
    const struct test_case *asked; /* NULL: idle */
    double due_s;
    uint64_t since_ms; /* it asks, or idles */
    bool is_closing, wants_close, says_when;
    size_t header_bytes; /* of "Retry-After" that the name under way has matched */
    size_t body_bytes;
    char body[MAX_BODY_BYTES];
    struct connection *next, *previous; /* of all */
    struct connection *next_idle;
};

static struct exchange exchange;
static size_t n_open;
static struct connection *all, *idle;
static char read_buffer[1 << 16];

/* ---- A connection ---------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;

    if (c->previous)
        c->previous->next = c->next;
    else
        all = c->next;
    if (c->next)
        c->next->previous = c->previous;
    free(c);
    n_open--;
}

static void close_connection(struct connection *c)
{
    struct connection **at = &idle;

    if (c->is_closing)
        return;
    while (*at && *at != c)
        at = &(*at)->next_idle;
    if (*at)
        *at = c->next_idle;
    c->is_closing = true;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void finish(struct connection *c, const char *outcome)
{
    if (!c->asked)
        return;
    c->asked = NULL;
    c->since_ms = uv_now(exchange.loop);
    exchange.done(c->due_s, outcome);
}

static void end_connection(struct connection *c, const char *outcome)
{
    close_connection(c);
    finish(c, outcome);
}

/* No reply came: while it did what, and what libuv or llhttp says. */
static void end_with_error(struct connection *c, const char *doing, const char *error)
{
    char outcome[64];

    snprintf(outcome, sizeof(outcome), "%s-%s", doing, error);
    end_connection(c, outcome);
}

/* ---- The reply ------------------------------------------------------------------------------- */

static const char *judge_text(const struct connection *c)
{
    static const char *const names[MAX_ANSWERS] = {"0", "1", "2", "3"};
    json_t *reply = json_loadb(c->body, c->body_bytes, 0, NULL);
    const char *text = json_string_value(json_object_get(reply, "translatedText"));
    const char *found = "wrong";

    for (size_t i = 0; text && i < c->asked->n_answers; i++)
        if (strcmp(text, c->asked->answers[i]) == 0)
            found = names[i];
    json_decref(reply);
    return found;
}

static const char *judge(const struct connection *c)
{
    static char name[32];

    if (c->parser.status_code == 200)
        return judge_text(c);
    if ((c->parser.status_code == 429 || c->parser.status_code == 503) && c->says_when)
        return "refused";
    snprintf(name, sizeof(name), "status-%d", c->parser.status_code);
    return name;
}

static int on_message_begin(llhttp_t *parser)
{
    struct connection *c = parser->data;

    c->body_bytes = c->header_bytes = 0;
    c->says_when = false;
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t bytes)
{
    static const char wanted[] = "retry-after";
    struct connection *c = parser->data;

    for (size_t i = 0; i < bytes; i++, c->header_bytes++)
        if (c->header_bytes >= sizeof(wanted) - 1 || (at[i] | 0x20) != wanted[c->header_bytes])
            c->header_bytes = sizeof(wanted);
    return 0;
}

static int on_header_field_complete(llhttp_t *parser)
{
    struct connection *c = parser->data;

    c->says_when = c->says_when || c->header_bytes == strlen("retry-after");
    c->header_bytes = 0;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t bytes)
{
    struct connection *c = parser->data;

    if (c->body_bytes + bytes > sizeof(c->body))
        return -1;
    memcpy(c->body + c->body_bytes, at, bytes);
    c->body_bytes += bytes;
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct connection *c = parser->data;
    const char *outcome = c->asked ? judge(c) : NULL;

    if (!outcome)
        return -1; /* a reply that nobody asked for, such as 408 */
    if (llhttp_should_keep_alive(parser)) {
        c->next_idle = idle;
        idle = c;
    } else {
        c->wants_close = true;
    }
    finish(c, outcome);
    return 0;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    (void)handle;
    (void)wanted;
    *room = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
    struct connection *c = stream->data;

    if (n < 0) {
        end_with_error(c, "read", uv_err_name((int)n));
        return;
    }
    if (n > 0 && llhttp_execute(&c->parser, data->base, (size_t)n) != HPE_OK)
        end_with_error(c, "parse", llhttp_errno_name(llhttp_get_errno(&c->parser)));
    else if (c->wants_close)
        close_connection(c);
}

/* ---- The request ----------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status)
{
    if (status < 0 && status != UV_ECANCELED)
        end_with_error(request->handle->data, "write", uv_err_name(status));
}

static void write_request(struct connection *c)
{
    const uv_buf_t data = uv_buf_init(c->asked->request, (unsigned)c->asked->bytes);

    uv_write(&c->writing, (uv_stream_t *)&c->tcp, &data, 1, on_written);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct connection *c = request->handle->data;

    if (status == UV_ECANCELED)
        return;
    if (status < 0) {
        end_with_error(c, "connect", uv_err_name(status));
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read);
    write_request(c);
}

static void connect_to(struct connection *c)
{
    int status = uv_tcp_connect(&c->connecting, &c->tcp, (const struct sockaddr *)&exchange.address,
                                on_connected);

    if (status != 0)
        end_with_error(c, "connect", uv_err_name(status));
}

static struct connection *open_connection(void)
{
    struct connection *c = n_open < MAX_CONNECTIONS ? calloc(1, sizeof(*c)) : NULL;

    if (!c) {
        fprintf(stderr, "load: too many connections are open\n");
        exit(1);
    }
    uv_tcp_init(exchange.loop, &c->tcp);
    c->tcp.data = c;
    llhttp_init(&c->parser, HTTP_RESPONSE, &settings);
    c->parser.data = c;
    c->next = all;
    if (all)
        all->previous = c;
    all = c;
    n_open++;
    return c;
}

static struct connection *take_idle(void)
{
    struct connection *c = idle;

    if (c)
        idle = c->next_idle;
    return c;
}

void exchange_send(const struct test_case *test_case, double due_s)
{
    struct connection *c = take_idle();
    const bool is_new = !c;

    if (is_new)
        c = open_connection();
    c->asked = test_case;
    c->due_s = due_s;
    c->since_ms = uv_now(exchange.loop);
    if (!is_new)
        write_request(c);
    else
        connect_to(c);
}

/* ---- All of them ----------------------------------------------------------------------------- */

void exchange_open(const struct exchange *wanted)
{
    exchange = *wanted;
}

void exchange_sweep(uint64_t timeout_ms)
{
    const uint64_t now = uv_now(exchange.loop);
    struct connection *next;

    for (struct connection *c = all; c; c = next) {
        next = c->next;
        if (c->asked && now - c->since_ms > timeout_ms)
            end_connection(c, "timeout");
        else if (!c->asked && now - c->since_ms > IDLE_MS)
            close_connection(c);
    }
}

void exchange_close(void)
{
    struct connection *next;

    for (struct connection *c = all; c; c = next) {
        next = c->next;
        close_connection(c);
    }
}
