/* access.h - where clients put their API keys, and what a request may do with the one it has.
 *
 * DeepL's send `Authorization: DeepL-Auth-Key KEY`, LibreTranslate's the field `api_key`, others
 * `Authorization: Bearer KEY`; DeepL knows the field `auth_key`, too. Each is taken in any dialect;
 * only the field has the dialect's name. Without a store keys mean nothing, and any is taken. Loop
 * thread.
 */
#ifndef SERVER_API_ACCESS_H
#define SERVER_API_ACCESS_H

#include "api/fields.h"
#include "api/server.h"

/* Whether the request may go on: its key is good, or not needed, and its turn has come. `field` is
 * where its key may stand, or NULL. Not 0 in `rc` says that something else is wrong, of which
 * `error` tells: that stays, and the request takes its token all the same. The grant is settled
 * when the request ends. */
int access_identify(struct server *server, const struct http_request *request,
                    const struct fields *fields, const char *field, struct grant *grant, int rc,
                    struct srv_error *error);

/* The caller as a number: of the grant's key or, without one, of the client's address. */
uint64_t access_caller(const struct http_request *request, const struct grant *grant);

/* Likewise, as far as the head of a request tells: it may have its key in the body. */
uint64_t access_guess_caller(struct server *server, const struct http_request *request);

/* For requests that cost nothing: checks the key alone. *key is NULL if there is none. */
int access_check_key(struct server *server, const struct http_request *request,
                     const struct fields *fields, const char *field, struct key **key,
                     struct srv_error *error);

#endif
