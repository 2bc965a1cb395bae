#include "api/routes.h"

#include <stdlib.h>
#include <string.h>

#include "api/refusals.h"
#include "api/reply.h"
#include "common/log.h"

/* A path ending in '*' matches anything there but nothing. HEAD is answered where GET is, OPTIONS
 * everywhere; lines of one path stand together. A new dialect adds its lines here. */
static const struct route {
    const char *path, *method;
    route_fn *handler;
    const char *dialect;
} routes[] = {
    {"/translate", "POST", api_libre_translate, "libretranslate"},
    {"/translate/*", "POST", api_libre_translate, "libretranslate"},
    {"/attention", "GET", api_attention, "acre"},
    {"/attention", "POST", api_attention, "acre"},
    {"/languages", "GET", api_libre_languages, "libretranslate"},
    {"/detect", "POST", api_libre_detect, "libretranslate"},
    {"/frontend/settings", "GET", api_libre_settings, "libretranslate"},
    {"/suggest", "POST", api_libre_suggest, "libretranslate"},
    {"/v2/translate", "GET", api_deepl_translate, "deepl"},
    {"/v2/translate", "POST", api_deepl_translate, "deepl"},
    {"/v2/languages", "GET", api_deepl_languages, "deepl"},
    {"/v2/languages", "POST", api_deepl_languages, "deepl"},
    {"/v3/languages", "GET", api_deepl_languages_v3, "deepl"},
    {"/v2/glossary-language-pairs", "GET", api_deepl_glossary_pairs, "deepl"},
    {"/v2/glossaries", "GET", api_deepl_glossaries, "deepl"},
    {"/v3/glossaries", "GET", api_deepl_glossaries, "deepl"},
    {"/v2/usage", "GET", api_deepl_usage, "deepl"},
    {"/v2/usage", "POST", api_deepl_usage, "deepl"},
    {"/", "GET", api_page, "acre"},
    {"/", "POST", api_page_translate, "acre"},
    {"/docs", "GET", api_page_docs, "acre"},
    {"/openapi.json", "GET", api_page_openapi, "acre"},
    {"/models", "GET", api_status_models, "acre"},
    {"/metrics", "GET", api_metrics, "acre"},
    {"/health", "GET", api_status_health, "acre"},
    {"/health/live", "GET", api_status_live, "acre"},
    {"/health/ready", "GET", api_status_ready, "acre"},
};
enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

int routes_open(struct server *server, struct acre_err *err)
{
    server->routes = calloc(N_ROUTES + 1, sizeof(server->routes[0]));
    if (!server->routes)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    server->n_routes = N_ROUTES + 1;
    for (size_t i = 0; i < N_ROUTES; i++) {
        server->routes[i].path = routes[i].path;
        server->routes[i].method = routes[i].method;
        server->routes[i].dialect = routes[i].dialect;
    }
    server->routes[N_ROUTES].path = server->routes[N_ROUTES].method = "none";
    server->routes[N_ROUTES].dialect = "none";
    return 0;
}

void routes_close(struct server *server)
{
    free(server->routes);
}

void routes_count(void *user, const struct http_record *record)
{
    struct server *server = user;
    struct stats_route *route = record->label ? record->label : &server->routes[N_ROUTES];
    struct log_reply line = {.client = record->client,
                             .method = record->method,
                             .path = record->path,
                             .status = record->status,
                             .bytes = record->body_bytes,
                             .seconds = record->seconds,
                             .request_id = record->identity->id,
                             .code = record->code};
    char trace_id[33];

    identity_trace_id(record->identity, trace_id);
    line.trace_id = trace_id;
    stats_count(route, record->status, record->seconds);
    refusals_note(record, route->path);
    log_reply(&line);
}

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
    struct server *server = user;
    const char *method = http_method(request), *rest;
    bool get = false, post = false;

    if (strcmp(http_path(request), "*") == 0) { /* the server as a whole; only OPTIONS has it */
        reply_options(request, allowed(true, true));
        return;
    }
    if (strcmp(method, "HEAD") == 0)
        method = "GET"; /* whose reply goes without its body */
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!path_matches(routes[i].path, http_path(request), &rest))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            http_set_label(request, &server->routes[i]);
            routes[i].handler(server, request, rest);
            return;
        }
        get = get || strcmp(routes[i].method, "GET") == 0;
        post = post || strcmp(routes[i].method, "POST") == 0;
    }
    refuse(request, get, post);
}
