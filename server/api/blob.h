/* blob.h - bytes that the server makes once and sends as they are: a page, a translated file.
 *
 * Replies that are being sent share its bytes, so it lives until its owner and the last of them
 * have let go. Clients that have it already get a 304. Any thread may open one; the rest is the
 * loop's.
 */
#ifndef SERVER_API_BLOB_H
#define SERVER_API_BLOB_H

#include "http/http.h"

struct blob;

/* Copies `text`. `type` is static; `lines`, header lines each with its CRLF, is copied. NULL: no
 * memory. */
struct blob *blob_open(const char *text, size_t bytes, const char *type, const char *lines);
void blob_close(struct blob *blob); /* NULL is allowed */
size_t blob_bytes(const struct blob *blob);

/* Replies with it, or with 503 if it is NULL. */
void blob_reply(struct blob *blob, struct http_request *request);

#endif
