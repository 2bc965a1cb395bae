#include "api/document.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"

struct document {
    size_t n_users; /* its owner, and replies that are not sent yet */
    const char *type;
    char *lines; /* owned */
    char etag[24];
    size_t bytes;
    char text[];
};

static uint64_t hash_of(const char *text, size_t bytes) /* FNV-1a */
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct document *document_open(const char *text, size_t bytes, const char *type, const char *lines)
{
    struct document *document = malloc(sizeof(*document) + bytes);

    if (!document)
        return NULL;
    document->n_users = 1;
    document->type = type;
    document->bytes = bytes;
    memcpy(document->text, text, bytes);
    snprintf(document->etag, sizeof(document->etag), "\"%016llx\"",
             (unsigned long long)hash_of(text, bytes));
    if (asprintf(&document->lines, "ETag: %s\r\nCache-Control: no-cache\r\n%s", document->etag,
                 lines) < 0) {
        free(document);
        return NULL;
    }
    return document;
}

void document_close(struct document *document)
{
    if (!document || --document->n_users > 0)
        return;
    free(document->lines);
    free(document);
}

size_t document_bytes(const struct document *document)
{
    return document->bytes;
}

static void release(char *text)
{
    document_close((struct document *)(text - offsetof(struct document, text)));
}

/* If-None-Match has a list of tags, of which proxies mark some as weak. RFC 9110, 13.1.2: 304 is
 * for GET and HEAD alone; what is fetched by POST may be gone with its reply. */
static bool client_has(const struct document *document, const struct http_request *request)
{
    const char *tags = http_header(request, "If-None-Match"), *method = http_method(request);

    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return false;
    return tags && (strcmp(tags, "*") == 0 || strstr(tags, document->etag));
}

void document_reply(struct document *document, struct http_request *request)
{
    struct http_reply reply = {.status = 200};
    struct srv_error error;

    if (!document) {
        error_no_memory(&error);
        reply_error(request, &error);
        return;
    }
    if (client_has(document, request))
        reply.status = 304;
    reply.body = document->text;
    reply.body_bytes = document->bytes;
    reply.content_type = document->type;
    reply.lines = document->lines;
    reply.release = release;
    document->n_users++;
    http_reply(request, &reply);
}
