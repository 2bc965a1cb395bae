/* head.h - the head of a reply, as it goes over the wire. Loop thread only. */
#ifndef SERVER_HTTP_HEAD_H
#define SERVER_HTTP_HEAD_H

#include "http/http.h"

/* `connection` is that header's value, or NULL; `lines` are further headers, each with its end.
 * What `reply` and `connection` hold is static and short. The caller owns it; NULL: no memory. */
char *head_make(const struct http_reply *reply, const struct identity *identity,
                const char *connection, const char *lines, size_t *bytes);

#endif
