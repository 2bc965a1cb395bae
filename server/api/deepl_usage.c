/* DeepL's GET /v2/usage: what a key has used, as other replicas count it, too. They are asked, so
 * the call may wait.
 *
 * Happy path: ask() -> pending_admit() -> reply(). Without a key the reply is what this server has
 * counted, at once. Failure modes: where the others do not answer in time, the reply is what is
 * known here. */
#include <stdlib.h>

#include "api/deepl.h"
#include "api/pending.h"
#include "api/reply.h"
#include "api/routes.h"

enum { TIMEOUT_MS = 1000 };

/* What DeepL states where there is no limit. */
#define NO_LIMIT 1000000000000

static json_t *render(const struct server *server, struct key *key)
{
    const int64_t limit = key ? key->characters_per_month : 0;
    const int64_t n = key ? key_used(key) : (int64_t)server->n_characters;

    return json_pack("{s:I, s:I}", "character_count", (json_int_t)n, "character_limit",
                     (json_int_t)(limit ? limit : NO_LIMIT));
}

/* Without characters nothing is refused. */
static void reply(void *user)
{
    struct pending *call = user;

    reply_json(call->http, 200, render(call->server, call->grant.key));
    pending_fini(call);
    free(call);
}

/* Nobody waits any more. */
static void give_up(void *user, enum http_give_up why)
{
    (void)why;
    reply(user);
}

static void ask(struct server *server, struct http_request *request, struct key *key)
{
    struct pending *call = calloc(1, sizeof(*call));

    if (!call || pending_await(call, server, request, TIMEOUT_MS, give_up) != 0) {
        reply_json(request, 200, render(server, key));
        free(call);
        return;
    }
    call->grant.key = key;
    pending_admit(call, 0, reply);
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
