/* DeepL's documents: POST /v2/document takes one and replies when its work is queued, POST
 * /v2/document/ID tells how it is, POST /v2/document/ID/result gives the translation, once. Id and
 * key are the file's (files.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/access.h"
#include "api/deepl.h"
#include "api/blob.h"
#include "api/files.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/texts.h"

/* ---- Taking one ------------------------------------------------------------------------------ */

static const char *const field_names[] = {
    "filename",
    "source_lang",
    "target_lang",
    "formality",
    "output_format",
    "glossary_id",
    "glossary_ids",
    "style_id",
    "translation_memory_id",
    "auth_key",
    NULL,
};

static const char *const repeated[] = {"glossary_ids", NULL};

/* What comes out is what went in. */
static int parse_output(const struct call *call, struct srv_error *error)
{
    const char *wanted = NULL;

    if (fields_text(&call->fields, "output_format", &wanted, error) != 0)
        return -1;
    if (wanted && strcasecmp(wanted, call->upload->kind->extension + 1) != 0)
        return deepl_refuse_value(error, "output_format", "expected the format of the file");
    return 0;
}

static int make_room(const struct call *call, size_t bytes, struct srv_error *error)
{
    return files_make_room(call->pending.server,
                           access_caller(call->pending.http, &call->pending.grant), bytes, error);
}

static int parse(struct call *call, struct srv_error *error)
{
    struct server *server = call->pending.server;

    if (!files_are_on(server))
        return error_http(error, 400, "files_disabled",
                          "This server translates no documents (max_files is 0)");
    if (texts_parse_file(call, error) != 0 || deepl_parse_options(call, error) != 0 ||
        parse_output(call, error) != 0)
        return -1;
    call->request.timeout_ms = (uint64_t)server->settings->file_lifetime_s * 1000;
    return make_room(call, call->upload->text.bytes, error);
}

static void phrase(const struct call *call, struct srv_error *error)
{
    char text[sizeof(error->text)];

    (void)call;
    memcpy(text, error->text, sizeof(text));
    if (strncmp(error->code, "file_not_", 9) == 0 || strncmp(error->code, "file_format_", 12) == 0)
        snprintf(error->text, sizeof(error->text), "Invalid file data: %.480s", text);
    else
        deepl_phrase(error);
}

/* From here on its jobs count with the file, as no request is left to count them with. */
static int accept_call(struct call *call, struct srv_error *error)
{
    const size_t bytes = call->upload->text.bytes + translate_jobs_bytes(call->translate);
    struct file *file;

    if (make_room(call, bytes, error) != 0 || files_add(call, bytes, &file, error) != 0)
        return -1;
    file->call = call;
    call->file = file;
    reply_json(call->pending.http, 200,
               json_pack("{s:s, s:s}", "document_id", file->id, "document_key", file->key));
    call->pending.http = NULL;
    return 0;
}

static void finish(struct call *call, const struct srv_error *error)
{
    struct srv_error failure;

    if (error) {
        files_fail(call->pending.server, call->file, error);
    } else if (files_finish(call->pending.server, call->file, call, &failure) != 0) {
        files_fail(call->pending.server, call->file, &failure);
    } else {
        call->pending.is_charged = true;
        call->pending.server->n_characters += call->file->n_chars;
    }
}

static const struct dialect dialect = {
    .fields = field_names,
    .key_field = "auth_key",
    .form = {.repeated = repeated, .file = "file"},
    .parse = parse,
    .accept = accept_call,
    .finish = finish,
    .phrase = phrase,
};

void api_deepl_upload(struct server *server, struct http_request *request, const char *rest)
{
    (void)rest;
    call_start(server, request, NULL, &dialect);
}

/* ---- One that is there ----------------------------------------------------------------------- */

/* Of the id in `rest`, which `end` follows. NULL: there is none, and the reply is sent. */
static struct file *find(struct server *server, struct http_request *request, const char *rest,
                         const char *end)
{
    const size_t id_bytes = strcspn(rest, "/");
    const char *key = NULL;
    struct fields fields;
    struct srv_error error;
    struct file *file = NULL;
    struct key *owner;

    if (deepl_read_field(server, request, &fields, "document_key", &key, &owner, &error) == 0) {
        if (!key)
            error_field(&error, "missing_parameter", "document_key", "expected one, found none");
        else if (strcmp(rest + id_bytes, end) != 0 ||
                 !(file = files_find(server, rest, id_bytes, key, strlen(key))))
            error_http(&error, 404, "document_not_found",
                       "No such document: wrong id or key, already downloaded, or too old");
    }
    fields_fini(&fields);
    if (file)
        return file;
    deepl_phrase(&error);
    reply_error(request, &error);
    return NULL;
}

void api_deepl_document(struct server *server, struct http_request *request, const char *rest)
{
    static const char *const names[] = {"translating", "done", "error"};
    const struct file *file = find(server, request, rest, "");
    json_t *body;

    if (!file)
        return;
    body = json_pack("{s:s, s:s}", "document_id", file->id, "status", names[file->state]);
    if (file->state == FILE_DONE)
        json_object_set_new(body, "billed_characters", json_integer((json_int_t)file->n_chars));
    if (file->state == FILE_FAILED)
        json_object_set_new(body, "error_message", json_string(file->error));
    reply_json(request, 200, body);
}

void api_deepl_result(struct server *server, struct http_request *request, const char *rest)
{
    struct file *file = find(server, request, rest, "/result");
    struct srv_error error;

    if (!file)
        return;
    if (file->state == FILE_DONE) {
        blob_reply(file->result, request);
        files_remove(server, file);
        return;
    }
    if (file->state == FILE_FAILED)
        error_http(&error, 400, "document_failed", "The document could not be translated: %.400s",
                   file->error);
    else
        error_http(&error, 503, "document_not_ready", "The document is still being translated");
    reply_error(request, &error);
}
