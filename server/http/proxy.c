/* As of the specification's revision of 2020/03/05,
 * haproxy.org/download/2.6/doc/proxy-protocol.txt. */
#include "http/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD_BYTES = 16, /* of version 2 */
    V1_BYTES = 107,
    V4_BYTES = 12,
    V6_BYTES = 36
};

static const char v2_signature[] = "\r\n\r\n\0\r\nQUIT\n";
enum { SIGNATURE_BYTES = sizeof(v2_signature) - 1 };
static const char v1_signature[] = "PROXY ";

/* ---- Version 1 ------------------------------------------------------------------------------- */

static bool parse_port(const char *text, in_port_t *port)
{
    const size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 5 || text[n] || (n > 1 && text[0] == '0') || atoi(text) > 65535)
        return false;
    *port = htons((uint16_t)atoi(text));
    return true;
}

/* Cuts the next word off: words are parted by one blank each. */
static char *next_word(char **line)
{
    char *word = *line, *blank = strchr(word, ' ');

    if (!blank)
        blank = word + strlen(word);
    *line = blank + (*blank != '\0');
    *blank = '\0';
    return word;
}

/* "TCP4 SOURCE DESTINATION PORT PORT". */
static bool parse_addresses(char *line, struct proxy *proxy)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&proxy->client;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&proxy->client;
    const char *kind = next_word(&line), *source = next_word(&line);
    const char *destination = next_word(&line), *source_port = next_word(&line);
    const bool is_v4 = strcmp(kind, "TCP4") == 0;
    const int family = is_v4 ? AF_INET : AF_INET6;
    struct in6_addr ignored;
    in_port_t port;

    if ((!is_v4 && strcmp(kind, "TCP6") != 0) || !parse_port(source_port, &port) ||
        !parse_port(line, &port) || inet_pton(family, destination, &ignored) != 1)
        return false;
    proxy->client.ss_family = (sa_family_t)family;
    proxy->has_client = true;
    return inet_pton(family, source, is_v4 ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr) == 1;
}

/* The line is there, its end cut off. */
static enum proxy_state parse_v1(struct proxy *proxy)
{
    char *rest = proxy->bytes + sizeof(v1_signature) - 1;

    if (strlen(proxy->bytes) != proxy->n_bytes - 2)
        return PROXY_BAD;
    if (strncmp(rest, "UNKNOWN", 7) == 0 && (rest[7] == '\0' || rest[7] == ' '))
        return PROXY_DONE;
    return parse_addresses(rest, proxy) ? PROXY_DONE : PROXY_BAD;
}

/* ---- Version 2 ------------------------------------------------------------------------------- */

static unsigned byte_at(const struct proxy *proxy, size_t i)
{
    return (unsigned char)proxy->bytes[i];
}

static size_t v2_bytes(const struct proxy *proxy)
{
    return HEAD_BYTES + (byte_at(proxy, 14) << 8 | byte_at(proxy, 15));
}

/* Families that have no address of the internet leave the connection with its own. */
static enum proxy_state parse_v2(struct proxy *proxy)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&proxy->client;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&proxy->client;
    const unsigned command = byte_at(proxy, 12) & 15, family = byte_at(proxy, 13);
    const size_t bytes = v2_bytes(proxy) - HEAD_BYTES;

    if (byte_at(proxy, 12) >> 4 != 2 || command > 1)
        return PROXY_BAD;
    if (command == 0)
        return PROXY_DONE;
    if (family == 0x11) {
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, proxy->bytes + HEAD_BYTES, 4);
    } else if (family == 0x21) {
        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, proxy->bytes + HEAD_BYTES, 16);
    } else {
        return family >> 4 > 3 || (family & 15) > 2 ? PROXY_BAD : PROXY_DONE;
    }
    proxy->has_client = true;
    return bytes >= (family == 0x11 ? V4_BYTES : V6_BYTES) ? PROXY_DONE : PROXY_BAD;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* After each byte. */
static enum proxy_state look(struct proxy *proxy)
{
    const size_t n = proxy->n_bytes;
    const bool is_v2 = proxy->bytes[0] == v2_signature[0];
    const char *signature = is_v2 ? v2_signature : v1_signature;
    const size_t signature_bytes = is_v2 ? SIGNATURE_BYTES : sizeof(v1_signature) - 1;

    if (n <= signature_bytes)
        return proxy->bytes[n - 1] == signature[n - 1] ? PROXY_MORE : PROXY_BAD;
    if (is_v2)
        return n < HEAD_BYTES || n < v2_bytes(proxy) ? PROXY_MORE : parse_v2(proxy);
    if (proxy->bytes[n - 1] == '\n' && proxy->bytes[n - 2] == '\r') {
        proxy->bytes[n - 2] = '\0';
        return parse_v1(proxy);
    }
    return n < V1_BYTES ? PROXY_MORE : PROXY_BAD;
}

enum proxy_state proxy_take(struct proxy *proxy, const char *data, size_t n, size_t *used)
{
    enum proxy_state state = PROXY_MORE;

    for (*used = 0; *used < n && state == PROXY_MORE; ++*used) {
        if (proxy->n_bytes < sizeof(proxy->bytes))
            proxy->bytes[proxy->n_bytes] = data[*used];
        proxy->n_bytes++;
        state = look(proxy);
    }
    return state;
}
