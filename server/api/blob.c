#include "api/blob.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reply.h"

struct blob {
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

struct blob *blob_open(const char *text, size_t bytes, const char *type, const char *lines)
{
    struct blob *blob = malloc(sizeof(*blob) + bytes);

    if (!blob)
        return NULL;
    blob->n_users = 1;
    blob->type = type;
    blob->bytes = bytes;
    memcpy(blob->text, text, bytes);
    snprintf(blob->etag, sizeof(blob->etag), "\"%016llx\"",
             (unsigned long long)hash_of(text, bytes));
    if (asprintf(&blob->lines, "ETag: %s\r\nCache-Control: no-cache\r\n%s", blob->etag, lines) <
        0) {
        free(blob);
        return NULL;
    }
    return blob;
}

void blob_close(struct blob *blob)
{
    if (!blob || --blob->n_users > 0)
        return;
    free(blob->lines);
    free(blob);
}

size_t blob_bytes(const struct blob *blob)
{
    return blob->bytes;
}

static void release(char *text)
{
    blob_close((struct blob *)(text - offsetof(struct blob, text)));
}

/* If-None-Match has a list of tags, of which proxies mark some as weak. RFC 9110, 13.1.2: 304 is
 * for GET and HEAD alone; what is fetched by POST may be gone with its reply. */
static bool client_has(const struct blob *blob, const struct http_request *request)
{
    const char *tags = http_header(request, "If-None-Match"), *method = http_method(request);

    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return false;
    return tags && (strcmp(tags, "*") == 0 || strstr(tags, blob->etag));
}

void blob_reply(struct blob *blob, struct http_request *request)
{
    struct http_reply reply = {.status = 200};
    struct srv_error error;

    if (!blob) {
        error_no_memory(&error);
        reply_error(request, &error);
        return;
    }
    if (client_has(blob, request))
        reply.status = 304;
    reply.body = blob->text;
    reply.body_bytes = blob->bytes;
    reply.content_type = blob->type;
    reply.lines = blob->lines;
    reply.release = release;
    blob->n_users++;
    http_reply(request, &reply);
}
