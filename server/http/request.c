/* Happy path: llhttp's pieces are appended to one text -> request_end_head() cuts off the last one
 * and checks version, host, framing, target and what the body is coded in, in this order.
 *
 * Failure modes: every check that fails fills `refusal`; the first one stands. */
#include "http/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/percent.h"

enum { FREE_HEAD_BYTES = 4096 }; /* what every head may have, whatever others take */

struct http_request *request_open(struct connection *connection)
{
    struct http_request *request = calloc(1, sizeof(*request));

    if (!request)
        return NULL;
    request->connection = connection;
    request->method = "";
    request->query = "";
    return request;
}

void request_close(struct http_request *request)
{
    if (!request)
        return;
    free(request->text);
    free(request->body);
    free(request);
}

int request_refuse(struct http_request *request, int status, const char *code, const char *format,
                   ...)
{
    struct refusal *refusal = &request->refusal;
    va_list args;

    if (refusal->status)
        return -1;
    refusal->status = status;
    refusal->code = code;
    va_start(args, format);
    vsnprintf(refusal->text, sizeof(refusal->text), format, args);
    va_end(args);
    for (char *c = refusal->text; *c; c++) /* it is put into JSON as it is */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e || *c == '"' || *c == '\\')
            *c = '?';
    return -1;
}

int request_refuse_size(struct http_request *request)
{
    return request_refuse(request, request->n_headers ? 431 : 414,
                          request->n_headers ? "headers_too_large" : "target_too_long",
                          "The request line and headers are larger than %d bytes", MAX_HEAD_BYTES);
}

static int refuse_malformed(struct http_request *request, const char *expected)
{
    return request_refuse(request, 400, "bad_request", "Malformed request: expected %s", expected);
}

static int refuse_framing(struct http_request *request)
{
    return request_refuse(request, 400, "bad_framing",
                          "The length of the body is ambiguous: expected one Content-Length or one "
                          "Transfer-Encoding: chunked header");
}

/* ---- Collecting ------------------------------------------------------------------------------ */

static size_t counted(size_t capacity)
{
    return capacity > FREE_HEAD_BYTES ? capacity : 0;
}

static int grow(struct http_request *request, size_t wanted)
{
    struct connection *c = request->connection;
    const size_t twice = wanted < 256 ? 512 : 2 * wanted;
    const size_t most = wanted > FREE_HEAD_BYTES ? MAX_HEAD_BYTES : FREE_HEAD_BYTES;
    const size_t capacity = twice < most ? twice : most;
    const size_t more = counted(capacity) - counted(request->text_capacity);
    char *grown;

    if (more > 0 && !http_make_memory(c->http, c, more))
        return request_refuse(request, 503, "server_busy", "Other requests take all memory");
    grown = realloc(request->text, capacity);
    if (!grown)
        return request_refuse(request, 503, "out_of_memory", "out of memory");
    connection_count(c, more);
    request->text = grown;
    request->text_capacity = capacity;
    return 0;
}

static int append(struct http_request *request, const char *at, size_t n)
{
    const size_t wanted = request->text_bytes + n;

    if (wanted > MAX_HEAD_BYTES)
        return request_refuse_size(request);
    if (wanted > request->text_capacity && grow(request, wanted) != 0)
        return -1;
    memcpy(request->text + request->text_bytes, at, n);
    request->text_bytes = wanted;
    return 0;
}

void request_drop_head(struct http_request *request)
{
    connection_count(request->connection, 0 - counted(request->text_capacity));
    free(request->text);
    request->text = request->path = NULL;
    request->query = "";
    request->text_bytes = request->text_capacity = request->n_headers = 0;
}

static int end_text(struct http_request *request)
{
    return append(request, "", 1);
}

int request_add_target(struct http_request *request, const char *at, size_t n)
{
    return append(request, at, n);
}

int request_add_name(struct http_request *request, const char *at, size_t n)
{
    if (!request->in_name) {
        if (request->n_headers == MAX_HEADERS)
            return request_refuse(request, 431, "too_many_headers",
                                  "The request has more than %d headers", MAX_HEADERS);
        if (request->n_headers == 0 && end_text(request) != 0) /* the target's */
            return -1;
        request->headers[request->n_headers++].name = (unsigned)request->text_bytes;
        request->in_name = true;
    }
    return append(request, at, n);
}

int request_end_name(struct http_request *request)
{
    const bool is_empty =
        request->in_name && request->text_bytes == request->headers[request->n_headers - 1].name;

    if (!request->in_name || is_empty)
        return refuse_malformed(request, "a name before the colon of every header");
    request->in_name = false;
    if (end_text(request) != 0)
        return -1;
    request->headers[request->n_headers - 1].value = (unsigned)request->text_bytes;
    return 0;
}

int request_add_value(struct http_request *request, const char *at, size_t n)
{
    return append(request, at, n);
}

/* Blanks after a value are none of it: RFC 9112, 5.1. */
int request_end_value(struct http_request *request)
{
    const size_t start = request->headers[request->n_headers - 1].value;

    while (request->text_bytes > start && (request->text[request->text_bytes - 1] == ' ' ||
                                           request->text[request->text_bytes - 1] == '\t'))
        request->text_bytes--;
    return end_text(request);
}

/* ---- Checking -------------------------------------------------------------------------------- */

static const char *name_of(const struct http_request *request, size_t i)
{
    return request->text + request->headers[i].name;
}

static const char *value_of(const struct http_request *request, size_t i)
{
    return request->text + request->headers[i].value;
}

const char *http_header(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->n_headers; i++)
        if (strcasecmp(name_of(request, i), name) == 0)
            return value_of(request, i);
    return NULL;
}

uint64_t http_client(const struct http_request *request)
{
    return request->connection->client_id;
}

uint64_t http_caller(const struct http_request *request)
{
    const struct connection *c = request->connection;

    return addresses_number(c->http->addresses, c->client_id);
}

static size_t count(const struct http_request *request, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < request->n_headers; i++)
        n += strcasecmp(name_of(request, i), name) == 0;
    return n;
}

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* RFC 3986, 3.2: a name or an IPv4 address, or else an address in brackets; then maybe ":port". */
static bool is_host(const char *text)
{
    const bool is_bracketed = *text == '[';
    const size_t n = is_bracketed ? 1 + strspn(text + 1, "0123456789abcdefABCDEFvV:.")
                                  : strspn(text, LETTERS_AND_DIGITS "-._~!$&'()*+,;=%");
    const char *port = text + n;

    if (n < (is_bracketed ? 3 : 1) || (is_bracketed && *port++ != ']'))
        return false;
    return !*port || (*port == ':' && port[1 + strspn(port + 1, "0123456789")] == '\0');
}

/* RFC 9112, 3.2: exactly one Host, but in HTTP/1.0. */
static int check_host(struct http_request *request, const llhttp_t *parser)
{
    const char *host = http_header(request, "Host");

    if (!host && parser->http_minor == 0)
        return 0;
    if (!host || count(request, "Host") != 1)
        return refuse_malformed(request, "one Host header");
    if (!is_host(host))
        return refuse_malformed(request, "Host: a host name or address, and at most a port");
    return 0;
}

/* RFC 9112, 6.1: what another reader could see end elsewhere is refused. */
static int check_framing(struct http_request *request, const llhttp_t *parser)
{
    const char *coding = http_header(request, "Transfer-Encoding");
    const char *last;

    if (!coding)
        return count(request, "Content-Length") > 1 ? refuse_framing(request) : 0;
    if (count(request, "Transfer-Encoding") > 1 || count(request, "Content-Length") > 0 ||
        parser->http_minor == 0)
        return refuse_framing(request);
    if (strcasecmp(coding, "chunked") == 0)
        return 0;
    last = strrchr(coding, ',');
    if (!*coding || (strncasecmp(coding, "chunked", 7) == 0 && last))
        return refuse_framing(request); /* chunked must come last */
    return request_refuse(request, 501, "transfer_coding_not_supported",
                          "Transfer-Encoding: expected chunked, found %.40s", coding);
}

static int check_coding(struct http_request *request)
{
    const char *coding = http_header(request, "Content-Encoding");

    if (!coding || strcasecmp(coding, "identity") == 0)
        return 0;
    return request_refuse(request, 415, "content_encoding_not_supported",
                          "Content-Encoding: expected none, found %.40s", coding);
}

/* RFC 9110, 10.1.1: in HTTP/1.0 it is nothing. */
static int check_expectation(struct http_request *request, const llhttp_t *parser)
{
    const char *expect = parser->http_minor == 0 ? NULL : http_header(request, "Expect");

    request->asks_first = expect != NULL;
    if (!expect || strcasecmp(expect, "100-continue") == 0)
        return 0;
    return request_refuse(request, 417, "expectation_failed",
                          "Expect: expected 100-continue, found %.40s", expect);
}

/* In place; "%" without two digits is itself. False where a control character stands. */
static bool decode_path(char *path)
{
    char *out = path;

    for (const char *in = path; *in; in++) {
        const int byte = percent_byte(in, strnlen(in, 3));

        *out = byte >= 0 ? (char)byte : *in;
        in += byte >= 0 ? 2 : 0;
        if ((unsigned char)*out < 0x20 || *out == 0x7f)
            return false;
        out++;
    }
    *out = '\0';
    return true;
}

/* RFC 9112, 3.2: "/path?query"; "http://host/path" as to a proxy; "*" with OPTIONS. */
static int check_target(struct http_request *request)
{
    char *target = request->text, *query;

    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        const char *host = strchr(target, '/') + 2;

        target += host - target + (ptrdiff_t)strcspn(host, "/?");
        if (target == host)
            return refuse_malformed(request, "a host after http://");
        if (*target != '/') /* no path is the path "/"; the slash before the host is free */
            *--target = '/';
    }
    if (strchr(target, '#') ||
        (*target != '/' && !(strcmp(target, "*") == 0 && strcmp(request->method, "OPTIONS") == 0)))
        return refuse_malformed(request, "a request target that begins with /");
    query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    request->query = query ? query : "";
    request->path = target;
    if (!decode_path(target))
        return refuse_malformed(request, "a path without control characters");
    return 0;
}

int request_end_head(struct http_request *request, const llhttp_t *parser)
{
    if (request->n_headers == 0 && end_text(request) != 0)
        return -1;
    if (!request->method[0])
        request->method = llhttp_method_name((llhttp_method_t)parser->method);
    if (parser->http_major != 1)
        return request_refuse(request, 505, "version_not_supported",
                              "Expected HTTP/1.1 or HTTP/1.0, found HTTP/%d.%d", parser->http_major,
                              parser->http_minor);
    if (check_host(request, parser) != 0 || check_framing(request, parser) != 0 ||
        check_target(request) != 0 || check_coding(request) != 0)
        return -1;
    return check_expectation(request, parser);
}

/* ---- What a handler reads -------------------------------------------------------------------- */

const char *http_method(const struct http_request *request)
{
    return request->method;
}

void http_set_label(struct http_request *request, void *label)
{
    request->label = label;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_query(const struct http_request *request)
{
    return request->query;
}

const char *http_body(const struct http_request *request, size_t *bytes)
{
    *bytes = request->body_bytes;
    return request->body ? request->body : "";
}
