/* Happy path: listener_open() -> for each address open_name(), open_path() or adopt().
 *
 * Failure modes: one address that cannot be had closes all. A socket file that nobody listens at is
 * in the way and is removed; one that somebody does is taken. */
#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "http/endpoint.h"

enum { PORT_BYTES = 6, FIRST_INHERITED_FD = 3 };

static long port_of(const char *address)
{
    return strtol(strrchr(address, ':') + 1, NULL, 10);
}

/* Whether the list has a port for IPv4, by an address or a name. */
static bool has_v4_port(const char *addresses, long wanted)
{
    char address[ENDPOINT_BYTES];

    while (endpoint_next(&addresses, address, sizeof(address)))
        if (address[0] != '[' && !endpoint_path(address) && endpoint_fd(address) < 0 &&
            port_of(address) == wanted)
            return true;
    return false;
}

/* -1 with errno. */
static int bind_one(const struct addrinfo *info, int *fd)
{
    const int on = 1;
    int saved;

    *fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return -1;
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6)
        setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
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
static int bind_all(struct addrinfo *list, bool without_v4, struct listener *listener)
{
    const size_t first = listener->n_fds;
    int why = EADDRNOTAVAIL;

    for (const struct addrinfo *info = list; info; info = info->ai_next) {
        if (without_v4 && info->ai_family == AF_INET)
            continue;
        if (listener->n_fds == LISTENER_SOCKETS) {
            errno = EMFILE;
            return -1;
        }
        if (bind_one(info, &listener->fds[listener->n_fds]) == 0) {
            if (listener->n_fds++ == first)
                take_port(listener->fds[first], list);
            continue;
        }
        why = errno;
        if (why != EAFNOSUPPORT && why != EADDRNOTAVAIL)
            return -1;
    }
    errno = why;
    return listener->n_fds > first ? 0 : -1;
}

static int refuse_taken(const char *address, struct acre_err *err)
{
    return error_set(err, ACRE_EIO, "listen: expected a free address and port, found %s: %s",
                     address, strerror(errno));
}

/* [::] is IPv4, too, where no other of `all` addresses is on its port. */
static int open_name(const char *address, const char *all, struct listener *listener,
                     struct acre_err *err)
{
    struct addrinfo *list;
    int rc;

    if (endpoint_look_up(address, &list, err) != 0)
        return error_prefix(err, "listen: ");
    rc = bind_all(list, endpoint_any(address) && has_v4_port(all, port_of(address)), listener);
    if (rc != 0)
        refuse_taken(address, err);
    freeaddrinfo(list);
    return rc;
}

/* Whether a socket file is there at which nobody listens. */
static bool is_left_over(const struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat found;
    bool is_refused;

    if (fd < 0)
        return false;
    is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                 errno == ECONNREFUSED;
    close(fd);
    return is_refused && lstat(address->sun_path, &found) == 0 && S_ISSOCK(found.st_mode);
}

/* Proxies run as other users: who may connect is for the folder to say, not for the umask; unless
 * the file system does not let that be changed. */
static int bind_path(int fd, const struct sockaddr_un *address)
{
    const int rc = bind(fd, (const struct sockaddr *)address, sizeof(*address));

    if (rc == 0)
        (void)!chmod(address->sun_path, 0666);
    return rc;
}

static int open_path(const char *path, struct listener *listener, struct acre_err *err)
{
    const struct sockaddr_un address = endpoint_unix(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? -1 : bind_path(fd, &address);

    if (rc != 0 && fd >= 0 && errno == EADDRINUSE) {
        if (is_left_over(&address) && unlink(path) == 0)
            rc = bind_path(fd, &address);
        else
            errno = EADDRINUSE;
    }
    if (rc != 0) {
        refuse_taken(path, err);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    listener->paths[listener->n_fds] = strdup(path);
    listener->fds[listener->n_fds++] = fd;
    return 0;
}

/* A socket that somebody else has bound. */
static int adopt(int fd, struct listener *listener, struct acre_err *err)
{
    int type = 0;
    socklen_t type_bytes = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0 || type != SOCK_STREAM)
        return error_set(err, ACRE_EIO, "listen: fd:%d: expected a stream socket, found %s", fd,
                         type ? "another kind" : strerror(errno));
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    listener->fds[listener->n_fds++] = fd;
    return 0;
}

static int open_one(const char *address, const char *all, struct listener *listener,
                    struct acre_err *err)
{
    if (listener->n_fds == LISTENER_SOCKETS)
        return error_set(err, ACRE_EOPTION, "listen: expected at most %d sockets, found more",
                         LISTENER_SOCKETS);
    if (endpoint_path(address))
        return open_path(endpoint_path(address), listener, err);
    return endpoint_fd(address) >= 0 ? adopt(endpoint_fd(address), listener, err)
                                     : open_name(address, all, listener, err);
}

int listener_open(const char *addresses, struct listener *listener, struct acre_err *err)
{
    const char *rest = addresses;
    char address[ENDPOINT_BYTES];

    listener->n_fds = 0;
    while (endpoint_next(&rest, address, sizeof(address)))
        if (open_one(address, addresses, listener, err) != 0) {
            listener_close(listener);
            return -1;
        }
    return 0;
}

int listener_inherit(struct listener *listener, struct acre_err *err)
{
    const char *pid = getenv("LISTEN_PID"), *n_text = getenv("LISTEN_FDS");
    const int n = pid && n_text && strtol(pid, NULL, 10) == getpid() ? atoi(n_text) : 0;

    listener->n_fds = 0;
    if (n > LISTENER_SOCKETS)
        return error_set(err, ACRE_EOPTION, "LISTEN_FDS: expected at most %d sockets, found %d",
                         LISTENER_SOCKETS, n);
    for (int i = 0; i < n; i++)
        if (adopt(FIRST_INHERITED_FD + i, listener, err) != 0)
            return err->code;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return 0;
}

void listener_close(struct listener *listener)
{
    while (listener->n_fds > 0) {
        char **path = &listener->paths[--listener->n_fds];

        close(listener->fds[listener->n_fds]);
        if (*path)
            unlink(*path);
        free(*path);
        *path = NULL;
    }
}

int listener_listen(const struct listener *listener, struct acre_err *err)
{
    char name[LISTENER_NAME_BYTES];

    /* Linux lets two processes bind with SO_REUSEADDR; only one of them may listen. */
    for (size_t i = 0; i < listener->n_fds; i++) {
        listener_name(listener, i, name);
        if (listen(listener->fds[i], LISTENER_BACKLOG) != 0)
            return refuse_taken(name, err);
    }
    return 0;
}

static void name_unix(const struct sockaddr_un *bound, char name[LISTENER_NAME_BYTES])
{
    snprintf(name, LISTENER_NAME_BYTES, "unix:%.*s", (int)sizeof(bound->sun_path), bound->sun_path);
}

void listener_name(const struct listener *listener, size_t i, char name[LISTENER_NAME_BYTES])
{
    struct sockaddr_storage bound = {0};
    socklen_t bound_bytes = sizeof(bound);
    char host[INET6_ADDRSTRLEN], port[PORT_BYTES];

    if (getsockname(listener->fds[i], (struct sockaddr *)&bound, &bound_bytes) == 0 &&
        bound.ss_family == AF_UNIX)
        name_unix((const struct sockaddr_un *)(const void *)&bound, name);
    else if (getnameinfo((struct sockaddr *)&bound, bound_bytes, host, sizeof(host), port,
                         sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(name, LISTENER_NAME_BYTES, "?");
    else
        snprintf(name, LISTENER_NAME_BYTES, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
                 port);
}
