/* client.h - who the client of a connection is: its peer, or whom a proxy speaks for.
 *
 * A PROXY header tells for the connection, X-Forwarded-For for one request; both are believed of
 * trusted addresses only. Connections of those count for nobody's share but while they have a
 * request of somebody's. Loop thread; for connection.c and input.c.
 */
#ifndef SERVER_HTTP_CLIENT_H
#define SERVER_HTTP_CLIENT_H

#include "http/connection.h"

/* -1: no memory. */
int client_begin(struct connection *connection, const struct sockaddr *peer);
void client_end(struct connection *connection);

/* Reads the PROXY header that connection->proxy waits for; nothing else may be read before. It may
 * be gone then. */
void client_read_proxy(struct connection *connection);

/* The request's head is here; and the request is over. -1: refused. */
int client_begin_request(struct connection *connection);
void client_end_request(struct connection *connection);

#endif
