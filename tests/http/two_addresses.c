/* Loaded into a program: the name two.test has two addresses, and nobody is at the first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    int rc;

    if (!node || strcmp(node, "two.test") != 0)
        return real(node, service, hints, list);
    rc = real("127.0.0.2", service, hints, list);
    return rc != 0 ? rc : real("127.0.0.1", service, hints, &(*list)->ai_next);
}
