/* listener.h - the sockets the server accepts connections on.
 *
 * "localhost" is an IPv4 and an IPv6 address, and clients may try either: a name has one socket for
 * each, and so has [::]. Opened before models are loaded, so that a taken port is reported at once;
 * nobody is accepted until listener_listen(). Main thread only.
 */
#ifndef SERVER_HTTP_LISTENER_H
#define SERVER_HTTP_LISTENER_H

#include <stddef.h>

#include "acre.h"
#include "http/endpoint.h"

enum { LISTENER_BACKLOG = 1024, LISTENER_SOCKETS = ENDPOINT_MOST, LISTENER_NAME_BYTES = 128 };

struct listener {
    int fds[LISTENER_SOCKETS];
    char *paths[LISTENER_SOCKETS]; /* owned: of files to remove; or NULL */
    size_t n_fds;
};

/* Binds sockets, those of one name to the same port. On success the caller owns them. */
int listener_open(const char *addresses, struct listener *listener, struct acre_err *err);
void listener_close(struct listener *listener);

/* Takes the sockets that systemd has opened for this process (sd_listen_fds(3)); maybe none. */
int listener_inherit(struct listener *listener, struct acre_err *err);

/* Lets clients connect. */
int listener_listen(const struct listener *listener, struct acre_err *err);

/* The address of a socket: as it appears in a URL, or unix:/PATH. */
void listener_name(const struct listener *listener, size_t i, char name[LISTENER_NAME_BYTES]);

#endif
