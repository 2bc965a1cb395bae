/* LibreTranslate's files: POST /translate_file, whose reply has the address of the translation, and
 * GET /download_file/NAME there. NAME is the file's id and key, and then its name for people, which
 * nothing here looks at. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/blob.h"
#include "api/files.h"
#include "api/libre.h"
#include "api/reply.h"
#include "api/routes.h"
#include "common/percent.h"

static const char *const field_names[] = {
    "filename",
    "source",
    "target",
    "level",
    "model",
    "timeout_ms",
    "beam_size",
    "max_length",
    "length_penalty",
    "beam_threshold",
    "translate_attributes",
    "glossary",
    "glossary_id",
    "api_key",
    NULL,
};

static int parse(struct call *call, struct srv_error *error)
{
    if (!files_are_on(call->pending.server))
        return error_http(error, 403, "files_disabled",
                          "Files translation are disabled on this server.");
    return libre_parse(call, error);
}

/* ---- The address ----------------------------------------------------------------------------- */

/* Of several proxies the first is the one that the client knows. */
static bool is_https(const char *scheme)
{
    return strncasecmp(scheme, "https", 5) == 0 && strchr(" \t,;\"", scheme[5]);
}

/* The scheme is the proxy's, if there is one that says so: it is only told to who said it. */
static const char *scheme_of(const struct http_request *request)
{
    const char *proto = http_header(request, "X-Forwarded-Proto");
    const char *forwarded = http_header(request, "Forwarded");

    if (!proto && forwarded && (proto = strcasestr(forwarded, "proto=")))
        proto += proto[6] == '"' ? 7 : 6;
    return http_is_secure(request) || (proto && is_https(proto)) ? "https" : "http";
}

/* Without the host where the client did not say a proper one. */
static json_t *make_url(const struct http_request *request, const struct file *file)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-_.~:[]";
    const char *host = http_header(request, "Host");
    char encoded[3 * UPLOAD_NAME_BYTES];

    percent_encode(file->name, encoded);
    if (!host || !host[0] || host[strspn(host, letters)])
        return json_sprintf("/download_file/%s%s.%s", file->id, file->key, encoded);
    return json_sprintf("%s://%s/download_file/%s%s.%s", scheme_of(request), host, file->id,
                        file->key, encoded);
}

static void reply(struct call *call)
{
    struct file *file;
    struct srv_error error;

    if (files_add(call, call->upload->text.bytes, &file, &error) != 0) {
        reply_error(call->pending.http, &error);
        return;
    }
    if (files_finish(call->pending.server, file, call, &error) != 0) {
        files_remove(call->pending.server, file);
        reply_error(call->pending.http, &error);
        return;
    }
    call->pending.is_charged = true;
    reply_json(call->pending.http, 200,
               json_pack("{s:o}", "translatedFileUrl", make_url(call->pending.http, file)));
}

static const struct dialect dialect = {
    .fields = field_names,
    .key_field = "api_key",
    .form.file = "file",
    .prepare = libre_prepare,
    .parse = parse,
    .reply = reply,
    .phrase = libre_phrase,
};

void api_libre_translate_file(struct server *server, struct http_request *request, const char *rest)
{
    (void)rest;
    call_start(server, request, NULL, &dialect);
}

/* ---- /download_file -------------------------------------------------------------------------- */

void api_libre_download(struct server *server, struct http_request *request, const char *rest)
{
    const size_t n = strspn(rest, "0123456789ABCDEF");
    struct file *file = NULL;
    struct srv_error error;

    if (!files_are_on(server))
        error_http(&error, 400, "files_disabled", "Files translation are disabled on this server.");
    else if (n != FILE_ID_CHARS + FILE_KEY_CHARS || (rest[n] && rest[n] != '.'))
        error_http(&error, 400, "invalid_filename", "Invalid filename");
    else if (!(file =
                   files_find(server, rest, FILE_ID_CHARS, rest + FILE_ID_CHARS, FILE_KEY_CHARS)) ||
             file->state != FILE_DONE)
        error_http(&error, 404, "file_not_found",
                   "No such file: it was not translated here, or its time is over");
    if (file && file->state == FILE_DONE)
        blob_reply(file->result, request);
    else
        reply_error(request, &error);
}
