/* body.h - the body of a request while it comes in: announced, collected within its bounds,
 * dropped.
 *
 * A body larger than max_body_bytes is read and dropped up to DROP_FACTOR times that, so that who
 * sends before he reads sees the answer. What all bodies take together is counted in struct http.
 * Loop thread; only for input.c, output.c and connection.c.
 */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "http/connection.h"

/* Once the head is complete. A client that asks first gets its answer now, and need not send what
 * nobody takes. -1: refused. */
int body_announce(struct connection *c);

/* Keeps a piece, or drops it. -1: refused. */
int body_add(struct connection *c, const char *at, size_t n);

/* Frees what was collected. */
void body_drop(struct connection *c);

/* Likewise, but `kept_bytes` of it, if it had as many, are counted until body_drop(). */
void body_shrink(struct connection *c, size_t kept_bytes);

/* See http_hold(). */
bool body_hold(struct connection *c, size_t bytes);

/* 413; -1. */
int body_refuse_size(struct connection *c);

#endif
