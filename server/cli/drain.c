#include "cli/drain.h"

#include "common/log.h"

/* When nothing is unfinished for QUIET_TICKS, requests that were still on the wire have come too.
 */
enum { TICK_MS = 50, QUIET_TICKS = 4, FLUSH_TICKS = 20 };

void drain_init(struct drain *drain, struct server *server)
{
    *drain = (struct drain){.server = server};
    uv_timer_init(server->loop, &drain->timer);
    drain->timer.data = drain;
}

void drain_fini(struct drain *drain)
{
    uv_close((uv_handle_t *)&drain->timer, NULL);
}

static void cancel_rest(struct drain *drain)
{
    if (drain->is_cancelled)
        return;
    drain->is_cancelled = true;
    http_drain(drain->server->http);
    log_warning("cancelled %zu unfinished requests", http_give_up_all(drain->server->http));
}

static void on_tick(uv_timer_t *timer)
{
    struct drain *drain = timer->data;
    struct http *http = drain->server->http;
    const uint64_t now = uv_now(drain->server->loop);

    if (now < drain->grace_until_ms && !drain->is_cancelled)
        return;
    http_drain(http);
    drain->quiet_ticks = http_active(http) == 0 ? drain->quiet_ticks + 1 : 0;
    if (now >= drain->drain_until_ms)
        cancel_rest(drain);
    if (drain->is_cancelled) {
        http_give_up_all(http); /* those that came since */
        drain->flush_ticks++;
    }
    if (drain->quiet_ticks >= QUIET_TICKS || drain->flush_ticks >= FLUSH_TICKS)
        uv_stop(drain->server->loop);
}

void drain_begin(struct drain *drain, const char *name)
{
    const struct settings *settings = drain->server->settings;
    struct http *http = drain->server->http;

    if (drain->is_begun) {
        log_info("%s again: stopping now", name);
        cancel_rest(drain);
        return;
    }
    drain->is_begun = true;
    if (settings->drain_grace_s > 0)
        log_info("%s: not ready any more; closing in %lld s", name,
                 (long long)settings->drain_grace_s);
    else
        log_info("%s: draining %zu requests", name, http_active(http));
    uv_update_time(drain->server->loop);
    drain->grace_until_ms = uv_now(drain->server->loop) + (uint64_t)settings->drain_grace_s * 1000;
    drain->drain_until_ms = drain->grace_until_ms + (uint64_t)settings->drain_timeout_s * 1000;
    http_retire(http);
    if (settings->drain_grace_s == 0)
        http_drain(http);
    uv_timer_start(&drain->timer, on_tick, TICK_MS, TICK_MS);
}
