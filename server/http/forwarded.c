#include "http/forwarded.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { MAX_HOPS = 32, NODE_BYTES = 64 };

/* ---- One address ----------------------------------------------------------------------------- */

static void trim(const char **text, size_t *bytes)
{
    while (*bytes > 0 && ((*text)[*bytes - 1] == ' ' || (*text)[*bytes - 1] == '\t'))
        --*bytes;
    while (*bytes > 0 && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*bytes;
    }
}

static bool parse_v4(char *text, struct sockaddr_storage *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)address;

    text[strcspn(text, ":")] = '\0'; /* the port */
    v4->sin_family = AF_INET;
    return inet_pton(AF_INET, text, &v4->sin_addr) == 1;
}

static bool parse_v6(const char *text, struct sockaddr_storage *address)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;

    v6->sin6_family = AF_INET6;
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

/* One address as they write it, maybe with a port, in brackets or quoted: [bytes], no terminator.
 * False: it is none ("unknown", "_hidden"). */
static bool parse_node(const char *text, size_t bytes, struct sockaddr_storage *address)
{
    char node[NODE_BYTES], *end;

    trim(&text, &bytes);
    if (bytes >= 2 && text[0] == '"' && text[bytes - 1] == '"') {
        text++;
        bytes -= 2;
    }
    if (bytes == 0 || bytes >= sizeof(node))
        return false;
    memcpy(node, text, bytes);
    node[bytes] = '\0';
    memset(address, 0, sizeof(*address));
    if (node[0] == '[') {
        end = strchr(node, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
        *end = '\0';
        return parse_v6(node + 1, address);
    }
    end = strchr(node, ':');
    return end && strchr(end + 1, ':') ? parse_v6(node, address) : parse_v4(node, address);
}

/* ---- The list -------------------------------------------------------------------------------- */

/* The value of `for` in an element of Forwarded: "for=192.0.2.60;proto=http". */
static bool find_for(const char **text, size_t *bytes)
{
    const char *at = *text, *end = *text + *bytes;

    while (at < end) {
        const char *semicolon = memchr(at, ';', (size_t)(end - at));
        size_t n = (size_t)((semicolon ? semicolon : end) - at);
        const char *pair = at;

        at += n + 1;
        trim(&pair, &n);
        if (n > 4 && strncasecmp(pair, "for=", 4) == 0) {
            *text = pair + 4;
            *bytes = n - 4;
            return true;
        }
    }
    return false;
}

struct search {
    const struct networks *trusted;
    struct sockaddr_storage *client;
    bool is_pairs; /* of Forwarded */
    int n_hops;
    bool has_found, is_over;
};

/* Elements are taken from the end. A comma within quotes does not count: our own proxies write none
 * there, and what others write must not hide what ours have written. */
static void look_at(struct search *search, const char *value)
{
    size_t end = strlen(value);

    while (!search->is_over) {
        struct sockaddr_storage address;
        const char *text;
        size_t begin = end, bytes;

        while (begin > 0 && value[begin - 1] != ',')
            begin--;
        text = value + begin;
        bytes = end - begin;
        if (++search->n_hops > MAX_HOPS || (search->is_pairs && !find_for(&text, &bytes)) ||
            !parse_node(text, bytes, &address)) {
            search->is_over = true;
            return;
        }
        *search->client = address;
        search->has_found = true;
        search->is_over =
            !networks_have(search->trusted, (const struct sockaddr *)(const void *)&address);
        if (begin == 0)
            return;
        end = begin - 1;
    }
}

static bool search_in(const struct http_request *request, const char *name, struct search *search)
{
    bool is_there = false;

    for (size_t i = request->n_headers; i > 0 && !search->is_over; i--) {
        if (strcasecmp(request->text + request->headers[i - 1].name, name) != 0)
            continue;
        is_there = true;
        look_at(search, request->text + request->headers[i - 1].value);
    }
    return is_there;
}

bool forwarded_client(const struct http_request *request, const struct networks *trusted,
                      struct sockaddr_storage *client)
{
    struct search search = {.trusted = trusted, .client = client};

    if (!search_in(request, "X-Forwarded-For", &search)) {
        search.is_pairs = true;
        search_in(request, "Forwarded", &search);
    }
    return search.has_found;
}
