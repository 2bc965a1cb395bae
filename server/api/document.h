/* document.h - a text that the server makes once and sends often: a page, its own description.
 *
 * Replies that are being sent share its bytes, so it lives until its owner and the last of them
 * have let go. Clients that have it already get a 304. Any thread may open one; the rest is the
 * loop's.
 */
#ifndef SERVER_API_DOCUMENT_H
#define SERVER_API_DOCUMENT_H

#include "http/http.h"

struct document;

/* Copies `text`. `type` is static; `lines`, header lines each with its CRLF, is copied. NULL: no
 * memory. */
struct document *document_open(const char *text, size_t bytes, const char *type, const char *lines);
void document_close(struct document *document); /* NULL is allowed */
size_t document_bytes(const struct document *document);

/* Replies with it, or with 503 if it is NULL. */
void document_reply(struct document *document, struct http_request *request);

#endif
