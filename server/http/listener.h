/* listener.h - the sockets the server accepts connections on: one for every address of a name.
 *
 * "localhost" is an IPv4 and an IPv6 address, and clients may try either. Opened before models are
 * loaded, so that a taken port is reported at once; nobody is accepted until listener_listen().
 * Main thread only.
 */
#ifndef SERVER_HTTP_LISTENER_H
#define SERVER_HTTP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

#define LISTENER_EXPECTED "HOST:PORT or [IPV6]:PORT"

enum { LISTENER_BACKLOG = 1024, LISTENER_SOCKETS = 8, LISTENER_NAME_BYTES = 64 };

struct listener {
    int fds[LISTENER_SOCKETS];
    size_t n_fds;
};

/* Whether `address` looks like HOST:PORT; the name is not looked up. */
bool listener_valid(const char *address);

/* Whether it is an address of some machine: the name is looked up, nothing is bound. */
int listener_check(const char *address, struct acre_err *err);

/* Binds sockets to `address`, all to the same port. On success the caller owns them. */
int listener_open(const char *address, struct listener *listener, struct acre_err *err);
void listener_close(struct listener *listener);

/* Lets clients connect. */
int listener_listen(const struct listener *listener, struct acre_err *err);

/* The address of a socket as it appears in a URL. */
void listener_name(const struct listener *listener, size_t i, char name[LISTENER_NAME_BYTES]);

#endif
