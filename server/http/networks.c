#include "http/networks.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void map(const struct in_addr *v4, struct in6_addr *v6)
{
    memset(v6, 0, sizeof(*v6));
    v6->s6_addr[10] = v6->s6_addr[11] = 0xff;
    memcpy(v6->s6_addr + 12, v4, 4);
}

/* Cuts a prefix' length off; false: it is none of `most` bits at most. */
static bool take_bits(char *text, unsigned most, unsigned *bits)
{
    char *slash = strchr(text, '/');
    size_t n;

    *bits = most;
    if (!slash)
        return true;
    *slash++ = '\0';
    n = strspn(slash, "0123456789");
    if (n == 0 || n > 3 || slash[n])
        return false;
    *bits = (unsigned)atoi(slash);
    return *bits <= most;
}

static bool parse_one(char *text, struct in6_addr *address, unsigned *bits)
{
    struct in_addr v4;

    if (strchr(text, ':'))
        return take_bits(text, 128, bits) && inet_pton(AF_INET6, text, address) == 1;
    if (!take_bits(text, 32, bits) || inet_pton(AF_INET, text, &v4) != 1)
        return false;
    map(&v4, address);
    *bits += 96;
    return true;
}

bool networks_parse(const char *text, struct networks *networks)
{
    char one[NETWORKS_TEXT_BYTES];

    memset(networks, 0, sizeof(*networks));
    while (*text) {
        const size_t n = strcspn(text, ",");

        snprintf(one, sizeof(one), "%.*s", (int)n, text);
        if (n == 0 || n >= sizeof(one) || (text[n] && !text[n + 1]))
            return false;
        if (strcmp(one, "unix") == 0)
            networks->has_local = true;
        else if (networks->n_items == NETWORKS_MAX ||
                 !parse_one(one, &networks->items[networks->n_items].address,
                            &networks->items[networks->n_items].bits))
            return false;
        else
            networks->n_items++;
        text += n + (text[n] == ',');
    }
    return true;
}

bool networks_valid(const char *text)
{
    struct networks networks;

    return networks_parse(text, &networks);
}

static bool same_bits(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    const unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool networks_have(const struct networks *networks, const struct sockaddr *address)
{
    struct in6_addr v6;

    if (address->sa_family == AF_INET)
        map(&((const struct sockaddr_in *)(const void *)address)->sin_addr, &v6);
    else if (address->sa_family == AF_INET6)
        v6 = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    else
        return networks->has_local && address->sa_family == AF_UNIX;
    for (size_t i = 0; i < networks->n_items; i++)
        if (same_bits(v6.s6_addr, networks->items[i].address.s6_addr, networks->items[i].bits))
            return true;
    return false;
}

bool networks_empty(const struct networks *networks)
{
    return networks->n_items == 0 && !networks->has_local;
}
