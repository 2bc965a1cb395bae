#include "api/pending.h"

static void on_give_up(void *user, enum http_give_up why)
{
    struct pending *pending = user;

    pending->why = why;
    atomic_store(&pending->is_given_up, true);
    if (!pending->is_working && !pending->turn.is_working)
        pending->give_up(pending, why);
}

int pending_await(struct pending *pending, struct server *server, struct http_request *request,
                  uint64_t timeout_ms, http_give_up_fn *give_up)
{
    pending->server = server;
    pending->http = request;
    pending->give_up = give_up;
    if (http_await(request, timeout_ms, on_give_up, pending))
        return 0;
    error_http(&pending->error, 503, "server_busy", "Too many requests wait for their replies");
    pending->error.retry_after_s = 1;
    return -1;
}

static void on_admitted(void *user, int rc, const struct srv_error *error)
{
    struct pending *pending = user;

    pending->is_working = false;
    pending->server->n_working--;
    pending->rc = rc;
    if (rc != 0)
        pending->error = *error;
    if (!pending_gives_up(pending))
        pending->admitted(pending);
}

void pending_admit(struct pending *pending, int64_t characters, void (*admitted)(void *call))
{
    struct limits *limits = &pending->server->limits;

    pending->admitted = admitted;
    if (pending->rc == 0)
        pending->rc = limits_admit(limits, &pending->grant, characters, on_admitted, pending,
                                   &pending->error);
    if (pending->rc == LIMITS_LATER) {
        pending->is_working = true;
        pending->server->n_working++;
    } else {
        admitted(pending);
    }
}

bool pending_gives_up(struct pending *pending)
{
    if (!pending->is_given_up)
        return false;
    pending->give_up(pending, pending->why);
    return true;
}

void pending_fini(struct pending *pending)
{
    turn_leave(&pending->turn);
    limits_settle(&pending->server->limits, &pending->grant, pending->is_charged);
}
