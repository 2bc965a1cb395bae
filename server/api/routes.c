#include "api/routes.h"

#include <string.h>

#include "api/reply.h"

/* A path ending in '*' matches anything there but nothing. HEAD is answered where GET is, OPTIONS
 * everywhere; lines of one path stand together. A new dialect adds its lines here. */
static const struct route {
    const char *path, *method;
    route_fn *handler;
} routes[] = {
    {"/translate", "POST", api_libre_translate}, {"/translate/*", "POST", api_libre_translate},
    {"/languages", "GET", api_libre_languages},  {"/models", "GET", api_status_models},
    {"/health", "GET", api_status_health},       {"/health/live", "GET", api_status_live},
    {"/health/ready", "GET", api_status_ready},
};

static bool path_matches(const char *pattern, const char *path, const char **rest)
{
    size_t n = strlen(pattern) - 1;

    *rest = NULL;
    if (pattern[n] != '*')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, n) != 0 || !path[n])
        return false;
    *rest = path + n;
    return true;
}

/* The Allow header of a path: its methods in alphabetical order. */
static const char *allowed(bool get, bool post)
{
    if (get && post)
        return "GET, HEAD, OPTIONS, POST";
    return get ? "GET, HEAD, OPTIONS" : "OPTIONS, POST";
}

static void refuse(struct http_request *request, bool get, bool post)
{
    struct srv_error error;

    if (!get && !post) {
        error_reply(&error, 404, "not_found", "No such path: %.100s", http_path(request));
        reply_error(request, &error);
    } else if (strcmp(http_method(request), "OPTIONS") == 0) {
        reply_options(request, allowed(get, post));
    } else {
        reply_method_not_allowed(request, allowed(get, post));
    }
}

void routes_handle(struct http_request *request, void *user)
{
    const char *method = http_method(request), *rest;
    bool get = false, post = false;

    if (strcmp(http_path(request), "*") == 0) { /* the server as a whole; only OPTIONS has it */
        reply_options(request, allowed(true, true));
        return;
    }
    if (strcmp(method, "HEAD") == 0)
        method = "GET"; /* whose reply goes without its body */
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!path_matches(routes[i].path, http_path(request), &rest))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            routes[i].handler(user, request, rest);
            return;
        }
        get = get || strcmp(routes[i].method, "GET") == 0;
        post = post || strcmp(routes[i].method, "POST") == 0;
    }
    refuse(request, get, post);
}
