#include "api/reply.h"

#include <stdlib.h>
#include <string.h>

#include "common/unicode.h" /* texts of errors quote the request */

/* Takes `body`. */
static void send_text(struct http_request *request, struct http_reply *reply, char *body,
                      size_t bytes)
{
    reply->body = body;
    reply->body_bytes = body ? bytes : 0;
    if (!body)
        reply->status = 503;
    reply->content_type = "application/json";
    http_reply(request, reply);
}

/* Takes `body`. */
static void send_json(struct http_request *request, struct http_reply *reply, json_t *body)
{
    size_t bytes;
    char *text = json_line(body, &bytes);

    send_text(request, reply, text, bytes);
}

void reply_text(struct http_request *request, char *body, size_t bytes)
{
    struct http_reply reply = {.status = 200};

    send_text(request, &reply, body, bytes);
}

void reply_json(struct http_request *request, int status, json_t *body)
{
    struct http_reply reply = {.status = status};

    send_json(request, &reply, body);
}

json_t *reply_error_body(const struct srv_error *error)
{
    char text[sizeof(error->text)];

    memcpy(text, error->text, sizeof(text));
    unicode_scrub(text);
    return json_pack("{s:s, s:s, s:s}", "code", error->code, "error", text, "message", text);
}

void reply_error(struct http_request *request, const struct srv_error *error)
{
    struct http_reply reply = {
        .status = error->status, .code = error->code, .retry_after_s = error->retry_after_s};

    send_json(request, &reply, reply_error_body(error));
}

void reply_method_not_allowed(struct http_request *request, const char *allow)
{
    struct http_reply reply = {.status = 405, .code = "method_not_allowed", .allow = allow};
    struct srv_error error;

    error_http(&error, 405, "method_not_allowed", "Method not allowed: expected %s, found %.20s",
               allow, http_method(request));
    send_json(request, &reply, reply_error_body(&error));
}

void reply_options(struct http_request *request, const char *allow)
{
    struct http_reply reply = {.status = 200, .allow = allow};

    http_reply(request, &reply);
}
