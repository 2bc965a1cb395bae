/* Loaded into a program: its kernel has no IPv6, as with ipv6.disable=1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket(int family, int type, int protocol)
{
    int (*real)(int, int, int) = dlsym(RTLD_NEXT, "socket");

    if (family != AF_INET6)
        return real(family, type, protocol);
    errno = EAFNOSUPPORT;
    return -1;
}
