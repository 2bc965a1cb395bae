/* listener.h - the socket the server accepts connections on.
 *
 * Opened before models are loaded, so that a taken port is reported at once; nobody is accepted
 * until listener_listen(). Main thread only.
 */
#ifndef SERVER_HTTP_LISTENER_H
#define SERVER_HTTP_LISTENER_H

#include <stdbool.h>

#include "acre.h"

enum { LISTENER_BACKLOG = 1024 };

#define LISTENER_EXPECTED "HOST:PORT or [IPV6]:PORT"

/* Whether `address` looks like HOST:PORT; the name is not looked up. */
bool listener_valid(const char *address);

/* Binds a socket to `address`. On success the caller owns *fd. */
int listener_open(const char *address, int *fd, struct acre_err *err);

/* Lets clients connect, and tells the address in use, as it appears in a URL. */
int listener_listen(int fd, char name[64], struct acre_err *err);

#endif
