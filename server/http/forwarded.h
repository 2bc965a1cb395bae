/* forwarded.h - whom a proxy has a request from, as X-Forwarded-For or Forwarded says.
 *
 * Each proxy adds where it has the request from at the end of the list; all before what the first
 * proxy that is ours has added, anybody could have written. So the client is the last address that
 * is not one of ours. X-Forwarded-For is read where there is one, else Forwarded (RFC 7239). No
 * state; loop thread.
 */
#ifndef SERVER_HTTP_FORWARDED_H
#define SERVER_HTTP_FORWARDED_H

#include "http/networks.h"
#include "http/request.h"

/* Whether they say; only for requests from a trusted address. */
bool forwarded_client(const struct http_request *request, const struct networks *trusted,
                      struct sockaddr_storage *client);

#endif
