/* The page at /, which translates with and without JavaScript; /docs, which shows /openapi.json.
 *
 * Happy path: GET / sends the page as it was made for the present settings and models; GET / with a
 * query, and POST /, which translates as /translate does, make one with the client's text in it.
 * The template's variables, @{NAME}, are the table `variables` here.
 *
 * What a client sent stands in the page as text and as values of attributes only, escaped
 * (markup.h), and no script runs that the policy does not name by its hash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/blob.h"
#include "api/form.h"
#include "api/libre.h"
#include "api/openapi.h"
#include "api/reply.h"
#include "api/routes.h"
#include "common/unicode.h"
#include "assets/assets.h"
#include "common/markup.h"
#include "serve/languages.h"

#define HTML "text/html; charset=utf-8"

struct pages {
    uint64_t n_reloads; /* before those settings and models that they were made for */
    char *lines;        /* owned: header lines of all pages */
    struct blob *index, *docs, *openapi, *spec; /* owned; NULL: not made yet */
};

/* What a page is to show; all strings NULL or "" where nothing is known. */
struct view {
    const struct server *server;
    const char *q, *source, *target, *level;
    size_t q_bytes;
    bool wants_alternatives;
    const struct call *call;       /* that was translated; or NULL */
    const struct srv_error *error; /* or NULL */
};

/* ---- Places of the template ------------------------------------------------------------------ */

static void put(FILE *out, const char *text)
{
    markup_text(out, text, strlen(text));
}

static void put_option(FILE *out, const char *value, const char *name, bool is_chosen)
{
    fputs("<option", out);
    markup_attribute(out, "value", value);
    fputs(is_chosen ? " selected>" : ">", out);
    put(out, name);
    fputs("</option>", out);
}

static bool is_same(const char *a, const char *b)
{
    return a && b && strcasecmp(a, b) == 0;
}

static void put_sources(FILE *out, const struct view *view)
{
    const struct pairs *pairs = &view->server->models.pairs;
    const char *source, *target;

    pairs_default(pairs, &source, &target);
    if (view->source && *view->source)
        source = view->source;
    put_option(out, "auto", "Detect language", is_same(source, "auto"));
    for (size_t i = 0; i < pairs->n_sources; i++)
        put_option(out, pairs->sources[i], languages_name(pairs->sources[i]),
                   is_same(source, pairs->sources[i]));
}

static void put_targets(FILE *out, const struct view *view)
{
    const struct pairs *pairs = &view->server->models.pairs;
    const char *source, *target;

    pairs_default(pairs, &source, &target);
    if (view->target && *view->target)
        target = view->target;
    for (size_t i = 0; i < pairs->n_targets; i++)
        put_option(out, pairs->targets[i], languages_name(pairs->targets[i]),
                   is_same(target, pairs->targets[i]));
}

static void put_levels(FILE *out, const struct view *view)
{
    put_option(out, "token", "Tokens", !is_same(view->level, "char"));
    put_option(out, "char", "Characters", is_same(view->level, "char"));
}

/* HTML takes a line end that begins a text for its own. */
static void put_text(FILE *out, const struct view *view)
{
    size_t bytes = view->q_bytes;

    fputc('\n', out);
    if (!view->q)
        return;
    if (unicode_valid_bytes(view->q, bytes) == bytes &&
        unicode_chars(view->q, bytes) > (size_t)view->server->settings->max_text_chars)
        return; /* the notice says why, and the browser has it */
    markup_text(out, view->q, bytes);
}

static void put_max_chars(FILE *out, const struct view *view)
{
    fprintf(out, "%lld", (long long)view->server->settings->max_text_chars);
}

static void put_error(FILE *out, const struct view *view)
{
    char text[sizeof(view->error->text)];

    if (!view->error)
        return;
    memcpy(text, view->error->text, sizeof(text));
    unicode_scrub(text);
    put(out, text);
}

static void put_result_hypothesis(FILE *out, const struct view *view, size_t hypothesis)
{
    const char *text = translate_text(view->call->translate, 0, hypothesis);

    if (text)
        put(out, text);
    else if (hypothesis == 0) /* a blank text stands for itself */
        markup_text(out, view->q, view->q_bytes);
}

static void put_result(FILE *out, const struct view *view)
{
    if (view->call)
        put_result_hypothesis(out, view, 0);
}

static void put_alternatives(FILE *out, const struct view *view)
{
    for (size_t h = 1; view->call && translate_text(view->call->translate, 0, h); h++) {
        fputs("<li dir=\"auto\"", out);
        markup_attribute(out, "lang", view->target);
        fputc('>', out);
        put_result_hypothesis(out, view, h);
        fputs("</li>", out);
    }
}

/* No box where the server gives none. */
static void put_more(FILE *out, const struct view *view)
{
    const int64_t most = view->server->settings->max_beam_size - 1;

    if (most > 0)
        fprintf(out,
                "<label class=\"check\"><input type=\"checkbox\" id=\"more\" "
                "name=\"alternatives\" value=\"%d\"%s> Alternatives</label>\n",
                most < 2 ? 1 : 2, view->wants_alternatives ? " checked" : "");
}

/* It is not given back: who reloads the page writes it again. */
static void put_key(FILE *out, const struct view *view)
{
    if (view->server->store)
        fprintf(out,
                "<label>API key\n<input id=\"key\" name=\"api_key\" type=\"password\" "
                "autocomplete=\"off\" maxlength=\"64\" size=\"12\"%s></label>\n",
                view->server->settings->keys_required ? " required" : "");
}

static void put_target_code(FILE *out, const struct view *view)
{
    if (view->call)
        put(out, view->target ? view->target : "");
}

static void put_detected(FILE *out, const struct view *view)
{
    if (!view->call || !view->call->is_detected)
        return;
    fputs("Detected: ", out);
    put(out, languages_name(view->call->found->code));
}

static const struct {
    const char *name;
    void (*put)(FILE *out, const struct view *view);
} variables[] = {
    {"sources", put_sources},
    {"targets", put_targets},
    {"levels", put_levels},
    {"text", put_text},
    {"max_chars", put_max_chars},
    {"error", put_error},
    {"result", put_result},
    {"alternatives", put_alternatives},
    {"more", put_more},
    {"target_code", put_target_code},
    {"key", put_key},
    {"detected", put_detected},
};

static void put_variable(FILE *out, const char *name, size_t n, const struct view *view)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (strlen(variables[i].name) == n && memcmp(variables[i].name, name, n) == 0)
            variables[i].put(out, view);
}

/* The page, from malloc; NULL: no memory. */
static char *make_page(const struct view *view, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    const char *at = page_index, *next;
    bool is_good;

    if (!out)
        return NULL;
    while ((next = strstr(at, "@{"))) {
        const char *name = next + 2, *end = strchr(name, '}');

        fwrite(at, 1, (size_t)(next - at), out);
        put_variable(out, name, (size_t)(end - name), view);
        at = end + 1;
    }
    fputs(at, out);
    is_good = !ferror(out);
    if (fclose(out) == 0 && is_good)
        return text;
    free(text);
    return NULL;
}

/* ---- What stays the same --------------------------------------------------------------------- */

int pages_open(struct server *server, struct acre_err *err)
{
    struct pages *pages = calloc(1, sizeof(*pages));

    if (pages && asprintf(&pages->lines,
                          "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\n"
                          "Referrer-Policy: no-referrer\r\n",
                          page_policy) < 0)
        pages->lines = NULL;
    server->pages = pages;
    if (!pages || !pages->lines)
        return error_set_no_memory(err);
    return 0;
}

static void forget(struct pages *pages)
{
    blob_close(pages->index);
    blob_close(pages->docs);
    blob_close(pages->openapi);
    blob_close(pages->spec);
    pages->index = pages->docs = pages->openapi = pages->spec = NULL;
}

void pages_close(struct server *server)
{
    if (!server->pages)
        return;
    forget(server->pages);
    free(server->pages->lines);
    free(server->pages);
}

/* Those of the present settings and models. */
static struct pages *pages_now(struct server *server)
{
    if (server->pages->n_reloads != server->n_reloads)
        forget(server->pages);
    server->pages->n_reloads = server->n_reloads;
    return server->pages;
}

static struct blob *make_index(const struct server *server)
{
    const struct view view = {.server = server};
    struct blob *blob;
    size_t bytes;
    char *text = make_page(&view, &bytes);

    blob = text ? blob_open(text, bytes, HTML, server->pages->lines) : NULL;
    free(text);
    return blob;
}

static struct blob *make_openapi(const struct server *server)
{
    json_t *description = openapi_make(server);
    char *text = description ? json_dumps(description, JSON_COMPACT) : NULL;
    struct blob *blob = text ? blob_open(text, strlen(text), "application/json", "") : NULL;

    json_decref(description);
    free(text);
    return blob;
}

/* ---- The calls ------------------------------------------------------------------------------- */

static bool is_off(const struct server *server, struct http_request *request)
{
    struct srv_error error;

    if (server->settings->page)
        return false;
    error_http(&error, 404, "not_found", "This server has no page");
    reply_error(request, &error);
    return true;
}

static void reply_page(struct http_request *request, int status, const char *code,
                       const struct view *view)
{
    struct http_reply reply = {.status = status, .code = code, .content_type = HTML};
    struct srv_error error;
    char *lines = NULL;

    reply.body = make_page(view, &reply.body_bytes);
    if (!reply.body ||
        asprintf(&lines, "Cache-Control: no-store\r\n%s", view->server->pages->lines) < 0) {
        free(reply.body);
        error_no_memory(&error);
        reply_error(request, &error);
        return;
    }
    if (view->error)
        reply.retry_after_s = view->error->retry_after_s;
    reply.lines = lines;
    http_reply(request, &reply);
    free(lines);
}

static const char *form_value(const struct form *form, const char *key, size_t *bytes)
{
    for (size_t i = 0; i < form->n_entries; i++)
        if (strcmp(form->entries[i].key, key) == 0) {
            *bytes = form->entries[i].value_bytes;
            return form->entries[i].value;
        }
    *bytes = 0;
    return NULL;
}

/* As LibreTranslate: ?source=&target=&q= fill the page in. */
static void reply_filled_in(struct server *server, struct http_request *request, const char *query)
{
    struct view view = {.server = server};
    struct form form = {.n_entries = 0};
    size_t bytes;

    form_add_urlencoded(&form, query, strlen(query));
    view.q = form_value(&form, "q", &view.q_bytes);
    view.source = form_value(&form, "source", &bytes);
    view.target = form_value(&form, "target", &bytes);
    view.level = form_value(&form, "level", &bytes);
    reply_page(request, 200, NULL, &view);
    form_fini(&form);
}

void api_page(struct server *server, struct http_request *request, const char *rest)
{
    const char *query = http_query(request);
    struct pages *pages = pages_now(server);

    (void)rest;
    if (is_off(server, request))
        return;
    if (query[0]) {
        reply_filled_in(server, request, query);
        return;
    }
    if (!pages->index)
        pages->index = make_index(server);
    blob_reply(pages->index, request);
}

void api_page_docs(struct server *server, struct http_request *request, const char *rest)
{
    struct pages *pages = pages_now(server);

    (void)rest;
    if (is_off(server, request))
        return;
    if (!pages->docs)
        pages->docs = blob_open(page_docs, strlen(page_docs), HTML, pages->lines);
    blob_reply(pages->docs, request);
}

void api_page_openapi(struct server *server, struct http_request *request, const char *rest)
{
    struct pages *pages = pages_now(server);

    (void)rest;
    if (!pages->openapi)
        pages->openapi = make_openapi(server);
    blob_reply(pages->openapi, request);
}

void api_page_spec(struct server *server, struct http_request *request, const char *rest)
{
    struct pages *pages = pages_now(server);

    (void)rest;
    if (!pages->spec)
        pages->spec = blob_open(page_spec, strlen(page_spec), "application/json", "");
    blob_reply(pages->spec, request);
}

/* ---- POST / ---------------------------------------------------------------------------------- */

static void look_at(const struct call *call, struct view *view)
{
    const json_t *q = fields_find(&call->fields, "q");
    const json_t *level = fields_find(&call->fields, "level");
    const json_t *source = fields_find(&call->fields, "source");
    const json_t *target = fields_find(&call->fields, "target");

    *view = (struct view){
        .server = call->pending.server,
        .q = json_string_value(q),
        .q_bytes = json_string_length(q),
        .source = json_string_value(source),
        .target = json_string_value(target),
        .level = json_string_value(level),
        .wants_alternatives = fields_find(&call->fields, "alternatives") != NULL,
    };
}

static void reply_translated(struct call *call)
{
    struct view view;

    look_at(call, &view);
    view.call = call;
    reply_page(call->pending.http, 200, NULL, &view);
}

static void reply_refused(const struct call *call, const struct srv_error *error)
{
    struct view view;

    look_at(call, &view);
    view.error = error;
    reply_page(call->pending.http, error->status, error->code, &view);
}

/* The page has one text. */
static int parse(struct call *call, struct srv_error *error)
{
    const json_t *q = fields_find(&call->fields, "q");

    if (q && !json_is_string(q))
        return fields_refuse(error, "q", "a string", q);
    return libre_parse(call, error);
}

static const char *const page_fields[] = {"q",       "source", "target", "level", "alternatives",
                                          "api_key", NULL};

static const struct dialect dialect = {
    .fields = page_fields,
    .key_field = "api_key",
    .parse = parse,
    .phrase = libre_phrase,
    .reply = reply_translated,
    .refuse = reply_refused,
};

void api_page_translate(struct server *server, struct http_request *request, const char *rest)
{
    (void)rest;
    if (!is_off(server, request))
        call_start(server, request, NULL, &dialect);
}
