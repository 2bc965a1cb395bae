/* routes.h - the one table of paths and methods, and the handlers in it.
 *
 * Handlers, of dialects and of the server itself, are declared here and listed in routes.c.
 * Loop thread only.
 */
#ifndef SERVER_API_ROUTES_H
#define SERVER_API_ROUTES_H

#include "http/http.h"
#include "api/server.h"

/* Replies, or awaits. `rest` is the path from where the table has a '*', else NULL. */
typedef void route_fn(struct server *server, struct http_request *request, const char *rest);

/* Makes server->routes. */
int routes_open(struct server *server, struct acre_err *err);
void routes_close(struct server *server);

/* The handler of every request, and who counts its reply; `user` is the struct server. */
void routes_handle(struct http_request *request, void *user);
http_replied_fn routes_count;

/* X-Trace-ID where DeepL's calls are, whatever becomes of them. */
http_second_id_fn routes_second_id;

/* libre.c: LibreTranslate's calls. */
route_fn api_libre_translate, api_libre_languages;

/* attention.c: what a model looked at. */
route_fn api_attention;

/* libre_service.c: what LibreTranslate answers beside. */
route_fn api_libre_detect, api_libre_settings, api_libre_suggest;

/* libre_file.c: its files. */
route_fn api_libre_translate_file, api_libre_download;

/* deepl.c, deepl_languages.c, deepl_usage.c: DeepL's. */
route_fn api_deepl_translate, api_deepl_languages, api_deepl_languages_v3, api_deepl_usage;
route_fn api_deepl_resources;
route_fn api_deepl_glossary_pairs;

/* glossaries.c: DeepL's glossaries. */
route_fn api_glossaries_v2, api_glossary_v2, api_glossary_make_v2, api_glossary_entries_v2;
route_fn api_glossaries_v3, api_glossary_v3, api_glossary_make_v3, api_glossary_entries_v3;
route_fn api_glossary_patch, api_glossary_put_part, api_glossary_drop, api_glossary_drop_part;

/* deepl_document.c: its files. */
route_fn api_deepl_upload, api_deepl_document, api_deepl_result;

/* status.c: what this server is and how it is. */
route_fn api_status_models, api_status_health, api_status_live, api_status_ready;

/* page.c: what browsers show, and what this interface is. pages_open() makes server->pages. */
int pages_open(struct server *server, struct acre_err *err);
void pages_close(struct server *server);
route_fn api_page, api_page_translate, api_page_docs, api_page_openapi, api_page_spec;

/* metrics.c: what the server counts. */
route_fn api_metrics;

#endif
