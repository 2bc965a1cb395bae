/* request.h - one request as it is received: its head, checked, and its body, bounded.
 *
 * llhttp splits the head and says where a body ends; what RFC 9110 and 9112 want refused and llhttp
 * lets pass is refused here, and so is what this server does not take. A request that is refused
 * has `refusal.status` set, and its connection closes after that reply: where the next request
 * would begin is unknown. Loop thread. Handlers see it only through the accessors in http.h,
 * implemented in request.c.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <llhttp.h>

#include "http/http.h"

enum { MAX_HEADERS = 100, MAX_HEAD_BYTES = 65536 };

struct connection;

struct refusal {
    int status; /* 0: none */
    const char *code;
    char text[160];
};

struct http_request {
    struct connection *connection;
    const char *method; /* static; "" until it is known */
    char *path;         /* in `text`, decoded */
    const char *query;  /* in `text`, or "" */
    struct refusal refusal;

    char *text; /* owned: target, then every name and value, each with its terminator */
    size_t text_bytes, text_capacity;
    struct {
        unsigned name, value; /* offsets into `text` */
    } headers[MAX_HEADERS];
    size_t n_headers;
    bool in_name;    /* of the last header */
    bool asks_first; /* Expect: 100-continue */

    char *body; /* owned */
    size_t body_bytes, body_capacity;
    size_t counted_bytes; /* of a long head and of the body, in http->bodies_bytes */
    bool is_dropped;      /* the body is too large; it is read to its end, and not kept */
    bool is_awaited;
    uint64_t begun_ns; /* when its head was complete */
    struct identity identity;
    void *label;
    http_give_up_fn *give_up; /* NULL once called */
    void *user;
};

struct http_request *request_open(struct connection *connection); /* NULL: no memory */
void request_close(struct http_request *request);

/* Parts of the head as llhttp hands them over, in pieces. -1: refused. */
int request_add_target(struct http_request *request, const char *at, size_t n);
int request_add_name(struct http_request *request, const char *at, size_t n);
int request_end_name(struct http_request *request);
int request_add_value(struct http_request *request, const char *at, size_t n);
int request_end_value(struct http_request *request);

/* Checks the complete head and sets method, path and query. -1: refused. */
int request_end_head(struct http_request *request, const llhttp_t *parser);

/* Its reply is about to go out, for which a client may take its time: target and headers are gone,
 * and count no more. */
void request_drop_head(struct http_request *request);

/* Refuses a head of more than MAX_HEAD_BYTES; -1. */
int request_refuse_size(struct http_request *request);

/* Fills `request->refusal` and returns -1. */
int request_refuse(struct http_request *request, int status, const char *code, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
