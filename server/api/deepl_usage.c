/* DeepL's GET /v2/usage: what a key has used, as other replicas count it, too. They are asked, so
 * the call may wait.
 *
 * Happy path: ask() -> limits_admit() -> on_admitted() replies. Without a key the reply is what
 * this server has counted, at once. Failure modes: where the others do not answer in time, the
 * reply is what is known here. */
#include <stdlib.h>

#include "api/deepl.h"
#include "api/reply.h"
#include "api/routes.h"

/* What DeepL states where there is no limit. */
#define NO_LIMIT 1000000000000

static json_t *render(const struct server *server, struct key *key)
{
    const int64_t limit = key ? key->characters_per_month : 0;
    const int64_t n = key ? key_used(key) : (int64_t)server->n_characters;

    return json_pack("{s:I, s:I}", "character_count", (json_int_t)n, "character_limit",
                     (json_int_t)(limit ? limit : NO_LIMIT));
}

struct usage_call {
    struct server *server;
    struct http_request *request;
    struct grant grant;
    bool is_replied;
};

static void reply(struct usage_call *call)
{
    if (!call->is_replied)
        reply_json(call->request, 200, render(call->server, call->grant.key));
    call->is_replied = true;
}

/* Nobody waits any more; the answer of the others comes all the same. */
static void on_give_up(void *user, enum http_give_up why)
{
    (void)why;
    reply(user);
}

static void on_admitted(void *user, int rc, const struct srv_error *error)
{
    struct usage_call *call = user;

    (void)rc; /* without characters nothing is refused */
    (void)error;
    reply(call);
    call->server->n_working--;
    free(call);
}

static void ask(struct server *server, struct http_request *request, struct key *key)
{
    struct usage_call *call = calloc(1, sizeof(*call));
    struct srv_error error;

    if (!call || !http_await(request, 1000, on_give_up, call)) {
        reply_json(request, 200, render(server, key));
        free(call);
        return;
    }
    *call = (struct usage_call){.server = server, .request = request, .grant = {.key = key}};
    server->n_working++;
    if (limits_admit(&server->limits, &call->grant, 0, on_admitted, call, &error) != LIMITS_LATER)
        on_admitted(call, 0, NULL);
}

void api_deepl_usage(struct server *server, struct http_request *request, const char *rest)
{
    struct fields fields;
    struct srv_error error;
    struct key *key;

    (void)rest;
    if (deepl_read_field(server, request, &fields, NULL, NULL, &key, &error) != 0)
        reply_error(request, &error);
    else if (key)
        ask(server, request, key);
    else
        reply_json(request, 200, render(server, NULL));
    fields_fini(&fields);
}
