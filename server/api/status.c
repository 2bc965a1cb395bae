/* What this server is and how it is: GET /models, /health, /health/live, /health/ready.
 *
 * live: the process answers, and its loop comes round to its timers; restart it if it does not.
 * ready: it takes new translations, and its device is well; a load balancer sends none while it
 * does not. None of these waits for a translation. */
#include "api/reply.h"
#include "api/routes.h"

void api_status_models(struct server *server, struct http_request *request, const char *rest)
{
    json_t *list = json_array();

    (void)rest;
    for (size_t i = 0; i < server->models.n_items; i++)
        list = json_list_append(list, models_describe(acre_model_info(server->models.items[i])));
    reply_json(request, 200, json_pack("{s:o}", "models", list));
}

void api_status_health(struct server *server, struct http_request *request, const char *rest)
{
    (void)server;
    (void)rest;
    reply_json(request, 200, json_pack("{s:s}", "status", "ok"));
}

enum { STALLED_MS = 5000 };

void api_status_live(struct server *server, struct http_request *request, const char *rest)
{
    const uint64_t lag_ms = http_lag_ms(server->http);
    struct srv_error error;

    if (lag_ms < STALLED_MS) {
        api_status_health(server, request, rest);
        return;
    }
    error_http(&error, 503, "stalled", "stalled: the event loop is %llu ms behind",
               (unsigned long long)lag_ms);
    reply_error(request, &error);
}

void api_status_ready(struct server *server, struct http_request *request, const char *rest)
{
    struct srv_error error;
    struct acre_err err;
    int status = acre_engine_health(server->engine, &err);

    if (status == 0 && !http_is_retiring(server->http)) {
        api_status_health(server, request, rest);
        return;
    }
    if (status == 0)
        error_http(&error, 503, "draining", "draining: this server is shutting down");
    else /* the device is lost: see tests/http/test_http_cuda.py */
        error_http(&error, acre_status_http(status), acre_status_name(status), "%s", err.text);
    reply_error(request, &error);
}
