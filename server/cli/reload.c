/* Happy path: reload_begin() -> load_in_pool() -> on_loaded() puts settings and models in place ->
 * on_tick() closes models that nobody uses any more, in the pool.
 *
 * Failure modes: a configuration, model or certificate that is not good changes nothing, and the
 * log says why; what was loaded beside it is closed again. */
#include "cli/reload.h"

#include <stdlib.h>
#include <string.h>

#include "cli/notify.h"
#include "common/error.h"
#include "common/log.h"

enum { TICK_MS = 50 };

/* ---- Closing models -------------------------------------------------------------------------- */

static void close_in_pool(uv_work_t *work)
{
    struct reload *reload = work->data;

    acre_model_close(reload->leaving); /* gives back much memory */
}

static void on_model_closed(uv_work_t *work, int status);

/* One at a time; the next when it is closed, or used no more. */
static void close_unused(struct reload *reload)
{
    size_t i = 0;

    if (reload->leaving)
        return;
    while (i < reload->n_retired && translator_uses(reload->server->translator, reload->retired[i]))
        i++;
    if (i < reload->n_retired) {
        reload->leaving = reload->retired[i];
        reload->retired[i] = reload->retired[--reload->n_retired];
        uv_queue_work(reload->server->loop, &reload->closing, close_in_pool, on_model_closed);
    } else if (reload->n_retired == 0) {
        uv_timer_stop(&reload->timer);
    }
}

static void on_model_closed(uv_work_t *work, int status)
{
    struct reload *reload = work->data;

    (void)status;
    reload->leaving = NULL;
    close_unused(reload);
}

static void on_tick(uv_timer_t *timer)
{
    close_unused(timer->data);
}

/* Room for those that leave is made before anything is changed. */
static int make_room(struct reload *reload)
{
    const size_t n = reload->n_retired + reload->server->models.n_items;
    struct acre_model **grown = realloc(reload->retired, (n + 1) * sizeof(struct acre_model *));

    if (!grown)
        return error_set_no_memory(&reload->err);
    reload->retired = grown;
    return 0;
}

static void retire(struct reload *reload, struct acre_model *model)
{
    reload->retired[reload->n_retired++] = model;
    if (!uv_is_active((uv_handle_t *)&reload->timer))
        uv_timer_start(&reload->timer, on_tick, TICK_MS, TICK_MS);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Pool thread. The list of models in use changes only when this has ended. */
static void load_in_pool(uv_work_t *work)
{
    struct reload *reload = work->data;
    const struct server *server = reload->server;

    reload->rc = reload->read(reload->args, &reload->fresh, &reload->err);
    if (reload->rc == 0)
        reload->rc = tls_context_open(reload->fresh.tls_certificate, reload->fresh.tls_key,
                                      &reload->tls, &reload->err);
    if (reload->rc == 0)
        reload->rc = models_load(&reload->models, server->engine, reload->fresh.models,
                                 strcmp(reload->fresh.bad_models, "skip") == 0, &server->models,
                                 &reload->err);
}

/* What the old list has and the new one has not, or the other way round, will be closed. */
static void retire_others(struct reload *reload, const struct models *from,
                          const struct models *kept)
{
    for (size_t i = 0; i < from->n_items; i++)
        if (!models_have(kept, from->items[i]))
            retire(reload, from->items[i]);
}

static int put_in_place(struct reload *reload)
{
    struct server *server = reload->server;
    const struct settings before = *reload->settings;
    const struct models old = server->models;

    if (reload->rc != 0 || make_room(reload) != 0 ||
        settings_keep_fixed(&reload->fresh, reload->settings, &reload->err) != 0)
        return reload->err.code;
    settings_renew(reload->settings, &reload->fresh);
    if (reload->apply(reload->user, reload->tls, &reload->err) != 0) {
        settings_renew(reload->settings, &before);
        return reload->err.code;
    }
    reload->tls = NULL;
    server->models = reload->models;
    reload->models = old;
    retire_others(reload, &old, &server->models);
    return 0;
}

static size_t count_kept(const struct reload *reload)
{
    size_t n = 0;

    for (size_t i = 0; i < reload->models.n_items; i++)
        n += models_have(&reload->server->models, reload->models.items[i]);
    return n;
}

static void start(struct reload *reload);

static void on_loaded(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    const bool is_good = put_in_place(reload) == 0;

    (void)status;
    reload->is_running = false;
    reload->server->n_reloads += is_good;
    reload->server->n_failed_reloads += !is_good;
    if (is_good) {
        const size_t n_kept = count_kept(reload);

        log_info("reloaded: %zu models, %zu of them new, %zu left, in %llu ms",
                 reload->server->models.n_items, reload->server->models.n_items - n_kept,
                 reload->models.n_items - n_kept,
                 (unsigned long long)((uv_hrtime() - reload->begun_ns) / 1000000));
    } else {
        if (reload->rc == 0) /* loaded for nothing */
            for (size_t i = 0; i < reload->models.n_items; i++)
                if (!models_have(&reload->server->models, reload->models.items[i]))
                    acre_model_close(reload->models.items[i]);
        log_error("not reloaded, nothing has changed: %s", reload->err.text);
    }
    models_fini(&reload->models);
    tls_context_close(reload->tls);
    reload->tls = NULL;
    notify_ready();
    if (reload->is_wanted)
        start(reload);
}

static void start(struct reload *reload)
{
    reload->is_wanted = false;
    reload->is_running = true;
    reload->begun_ns = uv_hrtime();
    notify_reloading();
    uv_queue_work(reload->server->loop, &reload->work, load_in_pool, on_loaded);
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

void reload_init(struct reload *reload)
{
    reload->work.data = reload->closing.data = reload->timer.data = reload;
    uv_timer_init(reload->server->loop, &reload->timer);
}

void reload_begin(struct reload *reload)
{
    log_info("reloading configuration and models");
    log_reopen(); /* who moves files away does not ask whether the configuration is good */
    if (reload->is_running)
        reload->is_wanted = true;
    else
        start(reload);
}

bool reload_is_loading(const struct reload *reload)
{
    return reload->is_running;
}

void reload_settle(struct reload *reload)
{
    uv_timer_stop(&reload->timer);
    while (reload->leaving)
        uv_run(reload->server->loop, UV_RUN_ONCE);
}

void reload_fini(struct reload *reload)
{
    uv_close((uv_handle_t *)&reload->timer, NULL);
    free(reload->retired);
}
