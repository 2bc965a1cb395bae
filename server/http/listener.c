#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"

enum { HOST_BYTES = 256, PORT_BYTES = 6 };

/* Splits "host:port" or "[host]:port". */
static bool split(const char *address, char host[HOST_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(address, ':');
    size_t host_bytes, port_bytes;

    if (!colon)
        return false;
    host_bytes = (size_t)(colon - address);
    port_bytes = strlen(colon + 1);
    if (address[0] == '[') {
        if (host_bytes < 3 || colon[-1] != ']')
            return false;
        address++;
        host_bytes -= 2;
    } else if (memchr(address, ':', host_bytes)) {
        return false; /* IPv6 without brackets: which colon starts the port? */
    }
    if (host_bytes == 0 || host_bytes >= HOST_BYTES || port_bytes == 0 || port_bytes >= PORT_BYTES)
        return false;
    memcpy(host, address, host_bytes);
    host[host_bytes] = '\0';
    memcpy(port, colon + 1, port_bytes + 1);
    return strspn(port, "0123456789") == port_bytes && strtol(port, NULL, 10) <= 65535;
}

bool listener_valid(const char *address)
{
    char host[HOST_BYTES], port[PORT_BYTES];

    return split(address, host, port);
}

static int look_up(const char *address, struct addrinfo **list, struct acre_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char host[HOST_BYTES], port[PORT_BYTES];
    int rc;

    if (!split(address, host, port))
        return error_set(err, ACRE_EOPTION, "listen: expected %s, found \"%s\"", LISTENER_EXPECTED,
                         address);
    rc = getaddrinfo(host, port, &hints, list);
    if (rc != 0)
        return error_set(err, ACRE_EIO, "listen: expected an address of this machine, found %s: %s",
                         address, gai_strerror(rc));
    return 0;
}

int listener_check(const char *address, struct acre_err *err)
{
    struct addrinfo *list;
    int rc = look_up(address, &list, err);

    if (rc == 0)
        freeaddrinfo(list);
    return rc;
}

/* -1 with errno. */
static int bind_one(const struct addrinfo *info, int *fd)
{
    const int on = 1, off = 0;
    int saved;

    *fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return -1;
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6) /* [::] serves IPv4 too */
        setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(*fd, info->ai_addr, info->ai_addrlen) == 0)
        return 0;
    saved = errno;
    close(*fd);
    errno = saved;
    return -1;
}

/* The port that the kernel chose for the first is that of the others too. */
static void take_port(int fd, struct addrinfo *list)
{
    struct sockaddr_storage bound = {0};
    socklen_t bound_bytes = sizeof(bound);
    in_port_t port;

    if (getsockname(fd, (struct sockaddr *)&bound, &bound_bytes) != 0)
        return;
    port = bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                       : ((struct sockaddr_in *)&bound)->sin_port;
    for (; list; list = list->ai_next) {
        if (list->ai_family == AF_INET6)
            ((struct sockaddr_in6 *)(void *)list->ai_addr)->sin6_port = port;
        else if (list->ai_family == AF_INET)
            ((struct sockaddr_in *)(void *)list->ai_addr)->sin_port = port;
    }
}

/* A family this machine does not have is left out, unless there is no other. -1 with errno. */
static int bind_all(struct addrinfo *list, struct listener *listener)
{
    int why = EADDRNOTAVAIL;

    listener->n_fds = 0;
    for (const struct addrinfo *info = list; info && listener->n_fds < LISTENER_SOCKETS;
         info = info->ai_next) {
        if (bind_one(info, &listener->fds[listener->n_fds]) == 0) {
            if (listener->n_fds++ == 0)
                take_port(listener->fds[0], list);
            continue;
        }
        why = errno;
        if (why != EAFNOSUPPORT && why != EADDRNOTAVAIL) {
            listener_close(listener);
            break;
        }
    }
    errno = why;
    return listener->n_fds > 0 ? 0 : -1;
}

int listener_open(const char *address, struct listener *listener, struct acre_err *err)
{
    struct addrinfo *list;
    int rc = look_up(address, &list, err);

    if (rc != 0)
        return rc;
    rc = bind_all(list, listener);
    if (rc != 0)
        error_set(err, ACRE_EIO, "listen: expected a free address and port, found %s: %s", address,
                  strerror(errno));
    freeaddrinfo(list);
    return rc == 0 ? 0 : ACRE_EIO;
}

void listener_close(struct listener *listener)
{
    while (listener->n_fds > 0)
        close(listener->fds[--listener->n_fds]);
}

int listener_listen(const struct listener *listener, struct acre_err *err)
{
    /* Linux lets two processes bind with SO_REUSEADDR; only one of them may listen. */
    for (size_t i = 0; i < listener->n_fds; i++)
        if (listen(listener->fds[i], LISTENER_BACKLOG) != 0)
            return error_set(err, ACRE_EIO, "listen: expected a free address and port, found: %s",
                             strerror(errno));
    return 0;
}

void listener_name(const struct listener *listener, size_t i, char name[LISTENER_NAME_BYTES])
{
    struct sockaddr_storage bound = {0};
    socklen_t bound_bytes = sizeof(bound);
    char host[INET6_ADDRSTRLEN], port[PORT_BYTES];

    if (getsockname(listener->fds[i], (struct sockaddr *)&bound, &bound_bytes) != 0 ||
        getnameinfo((struct sockaddr *)&bound, bound_bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(name, LISTENER_NAME_BYTES, "?");
        return;
    }
    snprintf(name, LISTENER_NAME_BYTES, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
             port);
}
