/* reply.h - JSON replies: keys sorted, UTF-8 as it is, a newline at the end.
 *
 * Every error is {"code":"snake_case","error":"text","message":"text"}: LibreTranslate's clients
 * read `error`, DeepL's `message`, programs `code`. Loop thread only.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <jansson.h>

#include "error.h"
#include "http/http.h"

/* JSON as we print it everywhere; nine digits hold any float. */
#define REPLY_JSON_FLAGS (JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9))

/* Takes `body`; NULL (no memory for it) replies 503. */
void reply_json(struct http_request *request, int status, json_t *body);

void reply_error(struct http_request *request, const struct srv_error *error);

/* Appends `item`, which it takes, and returns the list; or frees both and returns NULL, without
 * memory. A NULL list or item stays NULL: a reply is whole or it is a 503. */
json_t *reply_append(json_t *list, json_t *item);

/* 405 with the methods a path has; 200 without a body for OPTIONS. */
void reply_method_not_allowed(struct http_request *request, const char *allow);
void reply_options(struct http_request *request, const char *allow);

#endif
