/* What proxies write: PROXY headers, lists of addresses, and the networks of the settings. The
 * first byte says which. However a header is cut, it is the same header; of a list the client is
 * one that is not trusted, if any is. */
#include <stdlib.h>
#include <string.h>

#include "http/forwarded.h"
#include "http/proxy.h"
#include "input.h"

static void read_header(const char *data, size_t n)
{
    struct proxy whole = {.n_bytes = 0}, pieces = {.n_bytes = 0};
    size_t used, at = 0, taken;
    const enum proxy_state state = proxy_take(&whole, data, n, &used);
    enum proxy_state piece = PROXY_MORE;

    while (at < n && piece == PROXY_MORE) {
        const size_t most = n - at < 3 ? n - at : 3;

        piece = proxy_take(&pieces, data + at, most, &taken);
        at += taken;
    }
    if (state != piece || used != at || used > n || whole.has_client != pieces.has_client ||
        memcmp(&whole.client, &pieces.client, sizeof(whole.client)) != 0)
        abort();
}

static void read_list(const char *name, const char *value)
{
    static struct http_request request;
    struct networks trusted;
    struct sockaddr_storage client;
    char text[16384];

    if (!networks_parse("10.0.0.0/8,::1", &trusted))
        abort();
    strcpy(text, name);
    strcpy(text + strlen(name) + 1, value);
    request.text = text;
    request.n_headers = 1;
    request.headers[0].name = 0;
    request.headers[0].value = (unsigned)strlen(name) + 1;
    if (forwarded_client(&request, &trusted, &client) && client.ss_family != AF_INET &&
        client.ss_family != AF_INET6)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct networks networks;
    char *text;

    if (size < 1 || size > 8192)
        return 0;
    text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] % 4 == 0)
        read_header(text, size - 1);
    else if (data[0] % 4 == 3)
        networks_parse(text, &networks);
    else
        read_list(data[0] % 4 == 1 ? "X-Forwarded-For" : "Forwarded", text);
    free(text);
    return 0;
}
