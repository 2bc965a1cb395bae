#include "http/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEAD_BYTES = 3072 }; /* lines that are given apart */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {456, "Quota Exceeded"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

/* RFC 9110, 5.6.7; made anew once a second. */
static const char *date_now(void)
{
    static char text[40];
    static time_t made;
    const time_t now = time(NULL);
    struct tm utc;

    if (now != made) {
        gmtime_r(&now, &utc);
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        made = now;
    }
    return text;
}

/* Appends "NAME: VALUE" unless there is no value. */
static size_t add_line(char *head, size_t used, const char *name, const char *value)
{
    return value
               ? used + (size_t)snprintf(head + used, HEAD_BYTES - used, "%s: %s\r\n", name, value)
               : used;
}

char *head_make(const struct http_reply *reply, const struct identity *identity,
                const char *connection, const char *lines, size_t *bytes)
{
    const size_t lines_bytes = strlen(lines);
    const char *further = reply->lines ? reply->lines : "";
    char *head = malloc(HEAD_BYTES + strlen(further) + lines_bytes + 3), retry_after[16];
    char length[24];
    size_t n;

    if (!head)
        return NULL;
    n = (size_t)snprintf(head, HEAD_BYTES, "HTTP/1.1 %d %s\r\nDate: %s\r\n", reply->status,
                         reason_of(reply->status), date_now());
    snprintf(length, sizeof(length), "%zu", reply->body_bytes);
    n = add_line(head, n, "Content-Length",
                 reply->is_stream || reply->status == 204 ? NULL : length);
    n = add_line(head, n, "Transfer-Encoding", reply->is_chunked ? "chunked" : NULL);
    /* Proxies, nginx among them, are to hand each part on as it comes. */
    n = add_line(head, n, "Cache-Control", reply->is_stream ? "no-store" : NULL);
    n = add_line(head, n, "X-Accel-Buffering", reply->is_stream ? "no" : NULL);
    snprintf(retry_after, sizeof(retry_after), "%d", reply->retry_after_s);
    n = add_line(head, n, "Content-Type", reply->content_type);
    n = add_line(head, n, "Allow", reply->allow);
    n = add_line(head, n, "Retry-After", reply->retry_after_s ? retry_after : NULL);
    n = add_line(head, n, "Connection", connection);
    n = add_line(head, n, "X-Request-ID", identity->id);
    n = add_line(head, n, identity->second_name, identity->second_name ? identity->id : NULL);
    n = add_line(head, n, "traceparent", identity->traceparent[0] ? identity->traceparent : NULL);
    memcpy(head + n, further, strlen(further));
    n += strlen(further);
    memcpy(head + n, lines, lines_bytes);
    memcpy(head + n + lines_bytes, "\r\n", 3);
    *bytes = n + lines_bytes + 2;
    return head;
}
