/* networks.h - a list of networks, and whether an address is in one of them.
 *
 * In text: addresses and CIDR blocks with commas between, "10.0.0.0/8,2001:db8::/32,192.0.2.7", and
 * "unix", which is all clients of a socket in the file system. No state, any thread.
 */
#ifndef SERVER_HTTP_NETWORKS_H
#define SERVER_HTTP_NETWORKS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define NETWORKS_EXPECTED "addresses or blocks (10.0.0.0/8, fd00::/8) or unix, with commas between"

enum { NETWORKS_MAX = 64, NETWORKS_TEXT_BYTES = 64 };

struct networks {
    struct {
        struct in6_addr address; /* of IPv4, as mapped into IPv6 */
        unsigned bits;
    } items[NETWORKS_MAX];
    size_t n_items;
    bool has_local;
};

bool networks_valid(const char *text);

/* False: it is not such a list. Empty text is an empty list. */
bool networks_parse(const char *text, struct networks *networks);

bool networks_have(const struct networks *networks, const struct sockaddr *address);

/* Whether there is nothing in it. */
bool networks_empty(const struct networks *networks);

#endif
