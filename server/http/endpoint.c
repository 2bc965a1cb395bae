#include "http/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
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

const char *endpoint_path(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

int endpoint_fd(const char *address)
{
    const char *digits = address + 3;
    const size_t n = strncmp(address, "fd:", 3) == 0 ? strspn(digits, "0123456789") : 0;

    return n > 0 && n < 6 && !digits[n] ? atoi(digits) : -1;
}

static bool is_address(const char *address)
{
    const char *path = endpoint_path(address);
    char host[HOST_BYTES], port[PORT_BYTES];

    if (path)
        return path[0] && strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path);
    return endpoint_fd(address) >= 0 || split(address, host, port);
}

bool endpoint_next(const char **addresses, char *address, size_t address_bytes)
{
    const size_t n = strcspn(*addresses, ",");

    if (!**addresses)
        return false;
    snprintf(address, address_bytes, "%.*s", (int)n, *addresses);
    *addresses += n + ((*addresses)[n] == ',' && (*addresses)[n + 1]);
    return true;
}

void endpoint_first(const char *addresses, char *address, size_t address_bytes)
{
    if (!endpoint_next(&addresses, address, address_bytes))
        address[0] = '\0';
}

bool endpoint_valid(const char *addresses)
{
    char address[ENDPOINT_BYTES];
    const size_t n = strlen(addresses);
    size_t n_addresses = 0;

    if (n == 0 || addresses[n - 1] == ',')
        return false;
    while (endpoint_next(&addresses, address, sizeof(address)))
        if (!is_address(address) || ++n_addresses > ENDPOINT_MOST)
            return false;
    return true;
}

bool endpoint_any(const char *address)
{
    return strncmp(address, "[::]:", 5) == 0;
}

int endpoint_look_up(const char *address, struct addrinfo **list, struct acre_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char host[HOST_BYTES], port[PORT_BYTES];
    int rc;

    if (!split(address, host, port))
        return error_set(err, ACRE_EOPTION, "expected %s, found \"%s\"", ENDPOINT_EXPECTED,
                         address);
    rc = getaddrinfo(endpoint_any(address) ? NULL : host, port, &hints, list);
    if (rc != 0)
        return error_set(err, ACRE_EIO, "expected an address, found %s: %s", address,
                         gai_strerror(rc));
    return 0;
}

int endpoint_check(const char *addresses, struct acre_err *err)
{
    char address[ENDPOINT_BYTES];
    struct addrinfo *list;

    while (endpoint_next(&addresses, address, sizeof(address))) {
        if (endpoint_path(address) || endpoint_fd(address) >= 0)
            continue;
        if (endpoint_look_up(address, &list, err) != 0)
            return error_prefix(err, "listen: ");
        freeaddrinfo(list);
    }
    return 0;
}

struct sockaddr_un endpoint_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, path, strlen(path)); /* endpoint_valid() saw that it fits */
    return address;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static int connect_one(int family, const struct sockaddr *address, socklen_t bytes, int timeout_s)
{
    const struct timeval timeout = {.tv_sec = timeout_s};
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (fd < 0 || connect(fd, address, bytes) == 0)
        return fd;
    close(fd); /* errno stays: a socket closes well */
    return -1;
}

int endpoint_connect(const char *address, int timeout_s, int *fd, struct acre_err *err)
{
    struct addrinfo *list = NULL;

    *fd = -1;
    if (endpoint_path(address)) {
        const struct sockaddr_un file = endpoint_unix(endpoint_path(address));

        *fd = connect_one(AF_UNIX, (const struct sockaddr *)&file, sizeof(file), timeout_s);
    } else if (endpoint_look_up(address, &list, err) != 0) {
        return err->code;
    }
    for (const struct addrinfo *info = list; info && *fd < 0; info = info->ai_next)
        *fd = connect_one(info->ai_family, info->ai_addr, info->ai_addrlen, timeout_s);
    if (*fd < 0)
        error_set(err, ACRE_EIO, "%s: expected a server, found: %s", address,
                  strerror(errno == EINPROGRESS || errno == EAGAIN ? ETIMEDOUT : errno));
    if (list)
        freeaddrinfo(list);
    return *fd < 0 ? -1 : 0;
}
