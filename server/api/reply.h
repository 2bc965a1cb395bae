/* reply.h - JSON replies: keys sorted, UTF-8 as it is, a newline at the end.
 *
 * Every error is {"code":"snake_case","error":"text","message":"text"}: LibreTranslate's clients
 * read `error`, DeepL's `message`, programs `code`. Loop thread only.
 */
#ifndef SERVER_API_REPLY_H
#define SERVER_API_REPLY_H

#include "common/error.h"
#include "common/json.h"
#include "http/http.h"

/* Takes `body`; NULL (no memory for it) replies 503. */
void reply_json(struct http_request *request, int status, json_t *body);

/* Takes `body`, JSON with its newline, from malloc; likewise. */
void reply_text(struct http_request *request, char *body, size_t bytes);

void reply_error(struct http_request *request, const struct srv_error *error);

/* The object alone; NULL is no memory. */
json_t *reply_error_body(const struct srv_error *error);

/* 405 with the methods a path has; 200 without a body for OPTIONS. */
void reply_method_not_allowed(struct http_request *request, const char *allow);
void reply_options(struct http_request *request, const char *allow);

#endif
