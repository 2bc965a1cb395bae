/* Happy path: routes_handle(): the row whose pattern fits the path and whose method is the
 * request's; HEAD is GET without the body.
 *
 * Failure modes: no row: 404; rows, but none with the method: 405 with Allow; OPTIONS is told the
 * same with 200. */
#include "api/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/refusals.h"
#include "api/reply.h"
#include "common/log.h"

/* A '*' in a path is one part of it, up to a slash or the end. HEAD is answered where GET is,
 * OPTIONS everywhere; lines of one path stand together. A new dialect adds its lines here. */
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
    {"/translate_file", "POST", api_libre_translate_file, "libretranslate"},
    {"/download_file/*", "GET", api_libre_download, "libretranslate"},
    {"/spec", "GET", api_page_spec, "libretranslate"},
    {"/v2/translate", "GET", api_deepl_translate, "deepl"},
    {"/v2/translate", "POST", api_deepl_translate, "deepl"},
    {"/v2/languages", "GET", api_deepl_languages, "deepl"},
    {"/v2/languages", "POST", api_deepl_languages, "deepl"},
    {"/v3/languages", "GET", api_deepl_languages_v3, "deepl"},
    {"/v3/languages/resources", "GET", api_deepl_resources, "deepl"},
    {"/v2/glossary-language-pairs", "GET", api_deepl_glossary_pairs, "deepl"},
    {"/v2/glossaries", "GET", api_glossaries_v2, "deepl"},
    {"/v2/glossaries", "POST", api_glossary_make_v2, "deepl"},
    {"/v2/glossaries/*/entries", "GET", api_glossary_entries_v2, "deepl"},
    {"/v2/glossaries/*", "GET", api_glossary_v2, "deepl"},
    {"/v2/glossaries/*", "DELETE", api_glossary_drop, "deepl"},
    {"/v3/glossaries", "GET", api_glossaries_v3, "deepl"},
    {"/v3/glossaries", "POST", api_glossary_make_v3, "deepl"},
    {"/v3/glossaries/*/entries", "GET", api_glossary_entries_v3, "deepl"},
    {"/v3/glossaries/*/dictionaries", "PUT", api_glossary_put_part, "deepl"},
    {"/v3/glossaries/*/dictionaries", "DELETE", api_glossary_drop_part, "deepl"},
    {"/v3/glossaries/*", "GET", api_glossary_v3, "deepl"},
    {"/v3/glossaries/*", "PATCH", api_glossary_patch, "deepl"},
    {"/v3/glossaries/*", "DELETE", api_glossary_drop, "deepl"},
    {"/v2/document", "POST", api_deepl_upload, "deepl"},
    {"/v2/document/", "POST", api_deepl_upload, "deepl"}, /* of its clients for Java and .NET */
    {"/v2/document/*/result", "POST", api_deepl_result, "deepl"},
    {"/v2/document/*", "POST", api_deepl_document, "deepl"},
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
        return error_set_no_memory(err);
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

/* Who knows the path of a translated file has the file. */
static const char *path_to_log(const char *path)
{
    static const char files[] = "/download_file/*";

    return strncmp(path, files, sizeof(files) - sizeof("*")) == 0 ? files : path;
}

void routes_count(void *user, const struct http_record *record)
{
    struct server *server = user;
    struct stats_route *route = record->label ? record->label : &server->routes[N_ROUTES];
    struct log_reply line = {.client = record->client,
                             .method = record->method,
                             .path = path_to_log(record->path),
                             .status = record->status,
                             .bytes = record->body_bytes,
                             .seconds = record->seconds,
                             .request_id = record->identity->id,
                             .code = record->code};
    char trace_id[33];

    identity_trace_id(record->identity, trace_id);
    line.trace_id = trace_id;
    stats_count(route, record->status, record->code, record->seconds);
    refusals_note(record, route->path);
    log_reply(&line);
}

static bool path_matches(const char *pattern, const char *path, const char **rest)
{
    const char *star = strchr(pattern, '*');
    const size_t n = star ? (size_t)(star - pattern) : 0;

    *rest = NULL;
    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, n) != 0 || !path[n] || path[n] == '/')
        return false;
    *rest = path + n;
    return strcmp(star + 1, path + n + strcspn(path + n, "/")) == 0;
}

/* Those that a path has, as bits. */
static const char *const methods[] = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"};
enum { N_METHODS = sizeof(methods) / sizeof(methods[0]), ALLOW_BYTES = 64 };

static unsigned method_bit(const char *method)
{
    for (size_t i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i], method) == 0)
            return 1U << i;
    return 0;
}

/* The Allow header of a path: its methods in alphabetical order. */
static const char *allowed(unsigned of, char allow[ALLOW_BYTES])
{
    of |= method_bit("OPTIONS") | (of & method_bit("GET") ? method_bit("HEAD") : 0);
    allow[0] = '\0';
    for (size_t i = 0; i < N_METHODS; i++)
        if (of & 1U << i)
            snprintf(allow + strlen(allow), ALLOW_BYTES - strlen(allow), "%s%s",
                     allow[0] ? ", " : "", methods[i]);
    return allow;
}

static void refuse(struct http_request *request, unsigned of)
{
    char allow[ALLOW_BYTES];
    struct srv_error error;

    if (of == 0) {
        error_http(&error, 404, "not_found", "No such path: %.100s", http_path(request));
        reply_error(request, &error);
    } else if (strcmp(http_method(request), "OPTIONS") == 0) {
        reply_options(request, allowed(of, allow));
    } else {
        reply_method_not_allowed(request, allowed(of, allow));
    }
}

const char *routes_second_id(const char *path)
{
    return strncmp(path, "/v2/", 4) == 0 || strncmp(path, "/v3/", 4) == 0 ? "X-Trace-ID" : NULL;
}

void routes_handle(struct http_request *request, void *user)
{
    struct server *server = user;
    const char *method = http_method(request), *rest;
    char allow[ALLOW_BYTES];
    unsigned of = 0;

    if (strcmp(http_path(request), "*") == 0) { /* the server as a whole; only OPTIONS has it */
        reply_options(request, allowed(~0U, allow));
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
        of |= method_bit(routes[i].method);
    }
    refuse(request, of);
}
