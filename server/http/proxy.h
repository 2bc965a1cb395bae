/* proxy.h - the PROXY protocol, versions 1 and 2: whose connection a proxy hands on.
 *
 * A header of at most 64 KiB comes before everything else, TLS too. Only what it must have is kept.
 * No state beyond the struct; loop thread.
 */
#ifndef SERVER_HTTP_PROXY_H
#define SERVER_HTTP_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { PROXY_KEPT_BYTES = 108 }; /* a header of version 1, and what is read of version 2 */

struct proxy {
    char bytes[PROXY_KEPT_BYTES];
    size_t n_bytes;
    bool has_client; /* else the proxy speaks for itself, or does not know */
    struct sockaddr_storage client;
};

enum proxy_state { PROXY_MORE, PROXY_DONE, PROXY_BAD };

/* Takes what came, up to the header's end: *used bytes of it. All 0 before the first. */
enum proxy_state proxy_take(struct proxy *proxy, const char *data, size_t n, size_t *used);

#endif
