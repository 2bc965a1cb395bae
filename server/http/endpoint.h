/* endpoint.h - addresses at which a server listens, as they are written; and connecting to one.
 *
 * HOST:PORT, "unix:/path" or "fd:N", a socket that is open already; several have commas between
 * them. No state, any thread; looking up a name and connecting wait.
 */
#ifndef SERVER_HTTP_ENDPOINT_H
#define SERVER_HTTP_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "acre.h"

struct addrinfo;

#define ENDPOINT_EXPECTED "HOST:PORT, [IPV6]:PORT, unix:/PATH or fd:NUMBER, or several with commas"

enum { ENDPOINT_BYTES = 512, ENDPOINT_MOST = 16 }; /* of one; and in a list */

/* Whether they look like addresses; no name is looked up. */
bool endpoint_valid(const char *addresses);

/* Takes the next one off them; false: there is none. */
bool endpoint_next(const char **addresses, char *address, size_t address_bytes);

/* The first of them. */
void endpoint_first(const char *addresses, char *address, size_t address_bytes);

/* Whether they are addresses of some machine: names are looked up, nothing is bound. */
int endpoint_check(const char *addresses, struct acre_err *err);

/* ---- One that is valid ----------------------------------------------------------------------- */

/* The path; NULL: it is of another kind. */
const char *endpoint_path(const char *address);

/* The number of the socket; -1: it is of another kind. */
int endpoint_fd(const char *address);

/* The address of the file at a path. */
struct sockaddr_un endpoint_unix(const char *path);

/* Whether it is [::], which is every address of both families. */
bool endpoint_any(const char *address);

/* Looks up HOST:PORT; freeaddrinfo(*list). */
int endpoint_look_up(const char *address, struct addrinfo **list, struct acre_err *err);

/* Connects a socket to HOST:PORT or unix:/PATH, where each attempt may take so long. */
int endpoint_connect(const char *address, int timeout_s, int *fd, struct acre_err *err);

#endif
