#include "http/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { N_BUCKETS = 4096 };

struct addresses {
    uint64_t seed; /* so that nobody can choose addresses of one bucket */
    struct address *buckets[N_BUCKETS];
};

struct addresses *addresses_open(void)
{
    struct addresses *addresses = calloc(1, sizeof(*addresses));

    if (addresses)
        addresses->seed = hash_seed();
    return addresses;
}

void addresses_close(struct addresses *addresses)
{
    free(addresses);
}

/* An IPv4 address, also one that came mapped into IPv6, stands behind four bytes of 0, with which
 * no network of IPv6 begins that a client may have. ::1 begins so, too, and is this machine as
 * 127.0.0.1 is; so is taken whatever else would have no id, such as ::192.0.2.1. */
uint64_t address_id(const struct sockaddr *peer)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)peer;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)peer;
    const in_addr_t loopback = htonl(INADDR_LOOPBACK);
    uint64_t id = 0;

    if (peer->sa_family == AF_INET)
        memcpy((char *)&id + 4, &v4->sin_addr, 4);
    else if (peer->sa_family != AF_INET6)
        return 0;
    else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        memcpy((char *)&id + 4, v6->sin6_addr.s6_addr + 12, 4);
    else
        memcpy(&id, v6->sin6_addr.s6_addr, 8);
    if (id == 0)
        memcpy((char *)&id + 4, &loopback, 4);
    return id;
}

static struct address **bucket_of(struct addresses *addresses, uint64_t key)
{
    return &addresses->buckets[hash_number(addresses->seed, key) % N_BUCKETS];
}

struct address *addresses_enter(struct addresses *addresses, const struct sockaddr *peer)
{
    const uint64_t key = address_id(peer);
    struct address **bucket, *address;

    if (key == 0)
        return NULL;
    bucket = bucket_of(addresses, key);
    for (address = *bucket; address; address = address->next)
        if (address->key == key)
            break;
    if (!address) {
        address = calloc(1, sizeof(*address));
        if (!address)
            return NULL;
        address->key = key;
        address->next = *bucket;
        *bucket = address;
    }
    address->n_connections++;
    return address;
}

void addresses_leave(struct addresses *addresses, struct address *address)
{
    struct address **link;

    if (!address || --address->n_connections > 0)
        return;
    link = bucket_of(addresses, address->key);
    while (*link != address)
        link = &(*link)->next;
    *link = address->next;
    free(address);
}

void address_text(const struct sockaddr *peer, char text[ADDRESS_TEXT_BYTES])
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)peer;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)peer;

    if (peer->sa_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, text, ADDRESS_TEXT_BYTES);
    else if (peer->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, text, ADDRESS_TEXT_BYTES);
    else if (peer->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, text, ADDRESS_TEXT_BYTES);
    else
        strcpy(text, "local");
}

uint64_t addresses_number(const struct addresses *addresses, uint64_t id)
{
    return id ? hash_number(addresses->seed, id) : 0;
}

size_t address_connections(const struct address *address)
{
    return address ? address->n_connections : 0;
}
