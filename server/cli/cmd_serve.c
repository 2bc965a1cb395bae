/* acre serve: reads the configuration, loads the models, runs the loop until it is told to stop.
 *
 * Happy path: settings -> sockets -> engine -> models -> loop; on signals, which signals.c hears,
 * drain.c ends it and reload.c renews it.
 * Failure modes: anything wrong before the loop ends the command with one message. */
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "api/files.h"
#include "api/refusals.h"
#include "api/routes.h"
#include "api/stream.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/drain.h"
#include "cli/notify.h"
#include "cli/reload.h"
#include "cli/signals.h"
#include "common/error.h"
#include "common/log.h"
#include "http/endpoint.h"
#include "http/listener.h"

struct serve_args {
    char config[OPTION_TEXT_BYTES];
    char listen[OPTION_TEXT_BYTES];
    char models[OPTION_TEXT_BYTES];
    struct option_list set;
    bool check_config;
    bool help_config;
    bool is_misused; /* what is wrong with the settings stands on the command line */
};

static const struct option options[] = {
    ARGS_FILLED("config", struct serve_args, config, "FILE", "a file",
                "settings in JSON (--help-config lists them)"),
    {.key = "listen",
     .type = OPTION_TEXT,
     .offset = offsetof(struct serve_args, listen),
     .value = "HOST:PORT",
     .help = "address to serve on (default: 127.0.0.1:5000), or several with commas; port 0 "
             "picks a free one",
     .valid = endpoint_valid,
     .expected = ENDPOINT_EXPECTED},
    ARGS_FILLED("models", struct serve_args, models, "DIR", "a folder",
                "folder of model directories (default: models)"),
    ARGS_LIST("set", struct serve_args, set, "KEY=VALUE",
              "set one key of the configuration; may be repeated"),
    ARGS_FLAG("check_config", struct serve_args, check_config,
              "check settings, certificates, store, logs and models, and exit; no port is opened"),
    ARGS_FLAG("help_config", struct serve_args, help_config,
              "explain every key of the configuration and exit"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "serve",
    .synopsis = "[--config FILE] [--listen HOST:PORT] [--models DIR] [--set KEY=VALUE]...",
    .about =
        "Serves models over HTTP (POST /translate as LibreTranslate). Command-line options win\n"
        "over the configuration file. SIGTERM finishes what was accepted, then exits with 0; a\n"
        "second one exits at once. SIGHUP reloads configuration, models and certificates.\n",
    .options = options,
};

/* ---- Settings -------------------------------------------------------------------------------- */

/* Defaults, then the file, then --set in order, then --listen and --models. */
static int read_settings(void *user, struct settings *settings, struct acre_err *err)
{
    struct serve_args *args = user;

    options_init(settings_table, settings);
    if (args->config[0] && options_load(settings_table, settings, args->config, err) != 0)
        return err->code;
    for (size_t i = 0; i < args->set.n_items; i++)
        if (settings_assign(settings, args->set.items[i], err) != 0) {
            args->is_misused = true;
            return err->code;
        }
    if (args->listen[0])
        strcpy(settings->listen, args->listen);
    if (args->models[0])
        strcpy(settings->models, args->models);
    return settings_check(settings, err);
}

/* What is not a connection has 128; those beyond max_connections, and those that the kernel holds
 * when draining starts, the rest. */
enum { OTHER_DESCRIPTORS = 128 + 2 * LISTENER_BACKLOG };

static void raise_descriptor_limit(struct settings *settings)
{
    const rlim_t wanted = (rlim_t)settings->max_connections + OTHER_DESCRIPTORS;
    struct rlimit limit;
    int64_t most;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted)
        return;
    most = limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? (int64_t)limit.rlim_cur - OTHER_DESCRIPTORS
                                                  : (int64_t)limit.rlim_cur / 2;
    if (settings->max_connections <= most)
        return;
    settings->max_connections = most;
    log_warning("max_connections lowered to %lld: this process may open %llu files",
                (long long)settings->max_connections, (unsigned long long)limit.rlim_cur);
}

struct serve {
    struct server server;
    struct settings *settings;
    struct listener listener;
    struct tls_context *tls; /* owned; NULL: connections are plain */
    uv_loop_t loop;
    uv_timer_t watchdog;
    struct drain drain;
    struct reload reload;
    struct signals signals;
};

/* ---- The parts of a server ------------------------------------------------------------------- */

static struct acre_options engine_options(const struct settings *s)
{
    return (struct acre_options){
        .device = s->device,
        .device_fallback = s->device_fallback,
        .compute_type = s->compute_type,
        .n_threads = (int)s->threads,
        .batch_size = (int)s->batch_size,
        .max_beam_size = (int)s->max_beam_size,
        .max_queued_tokens = (size_t)s->max_queued_tokens,
        .cache_bytes = (size_t)s->cache_bytes,
    };
}

static int open_engine(struct server *server, acre_log_fn *log, struct acre_err *err)
{
    struct acre_options chosen = engine_options(server->settings);

    chosen.log = log;
    if (acre_engine_open(&chosen, &server->engine, err) != 0)
        return error_prefix(err, "engine: ");
    return models_load(&server->models, server->engine, server->settings->models,
                       strcmp(server->settings->bad_models, "skip") == 0, NULL, err);
}

static int open_store(struct server *server, struct acre_err *err)
{
    if (!server->settings->store[0])
        return 0;
    return store_open(server->settings->store, &server->store, err) == 0
               ? 0
               : error_prefix(err, "store: ");
}

static int check_store(const char *path, struct acre_err *err)
{
    return !path[0] || store_check(path, err) == 0 ? 0 : error_prefix(err, "store: ");
}

/* All that starting needs but the port, which a running server may hold. Makes and changes no file,
 * but that of a store which a crash left half written: see store_check(). */
static int check_config(const struct settings *settings)
{
    struct server server = {.settings = settings};
    struct acre_err err;
    struct tls_context *tls = NULL;
    int rc = endpoint_check(settings->listen, &err);

    if (rc == 0)
        rc = tls_context_open(settings->tls_certificate, settings->tls_key, &tls, &err);
    tls_context_close(tls);
    if (rc == 0)
        rc = check_store(settings->store, &err);
    if (rc == 0)
        rc = open_engine(&server, NULL, &err);
    acre_engine_close(server.engine);
    models_fini(&server.models);
    return rc == 0 ? EXIT_DONE : args_failed("%s", err.text);
}

static struct http_options http_options(struct serve *serve)
{
    const struct settings *s = serve->settings;
    struct http_options chosen = {
        .listener = &serve->listener,
        .max_body_bytes = (size_t)s->max_body_bytes,
        .max_bodies_bytes = (size_t)(s->max_bodies_bytes < s->max_body_bytes ? s->max_body_bytes
                                                                             : s->max_bodies_bytes),
        .max_connections = (unsigned)s->max_connections,
        .max_connections_per_address = (unsigned)s->max_connections_per_address,
        .idle_timeout_s = (unsigned)s->idle_timeout_s,
        .read_timeout_s = (unsigned)s->read_timeout_s,
        .send_timeout_s = (unsigned)s->send_timeout_s,
        .tls = serve->tls,
        .cors_origin = s->cors_origin,
        .handler = routes_handle,
        .replied = routes_count,
        .second_id = routes_second_id,
        .user = &serve->server,
        .proxy_protocol = s->proxy_protocol,
    };

    networks_parse(s->trusted_proxies, &chosen.trusted);
    return chosen;
}

static bool logs_json(const struct settings *settings)
{
    return strcmp(settings->log_format, "json") == 0;
}

static int configure_log(const struct settings *settings, struct acre_err *err)
{
    return log_configure(logs_json(settings), settings->access_log, err);
}

/* What a reload has read counts from now on. */
static int apply_settings(void *user, struct tls_context *tls, struct acre_err *err)
{
    struct serve *serve = user;
    struct tls_context *before = serve->tls;
    struct http_options renewed;

    if (configure_log(serve->settings, err) != 0)
        return err->code;
    raise_descriptor_limit(serve->settings);
    serve->tls = tls;
    renewed = http_options(serve);
    if (http_configure(serve->server.http, &renewed, err) != 0) {
        serve->tls = before;
        return err->code;
    }
    tls_context_close(before);
    return 0;
}

/* ---- What the loop waits for ----------------------------------------------------------------- */

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    notify_watchdog(); /* that the loop comes round is what it tells */
}

static void init_handles(struct serve *serve)
{
    struct server *server = &serve->server;

    stream_init(server);
    turns_init(&server->heavy, &serve->loop, 1, &server->n_working);
    turns_init(&server->bodies, &serve->loop, TURNS_HALF, &server->n_working);
    turns_init(&server->glossary_work, &serve->loop, 1, &server->n_working);
    drain_init(&serve->drain, server);
    reload_init(&serve->reload);
    signals_init(&serve->signals, &serve->loop, &serve->drain, &serve->reload);
    uv_timer_init(&serve->loop, &serve->watchdog);
}

static void start_handles(struct serve *serve)
{
    const uint64_t watchdog_ms = notify_watchdog_ms();

    signals_start(&serve->signals);
    if (watchdog_ms > 0)
        uv_timer_start(&serve->watchdog, on_watchdog, 0, watchdog_ms);
}

static void close_handles(struct serve *serve)
{
    uv_close((uv_handle_t *)&serve->watchdog, NULL);
    signals_fini(&serve->signals);
    reload_fini(&serve->reload);
    drain_fini(&serve->drain);
    stream_fini(&serve->server);
}

/* ---- Taking it down -------------------------------------------------------------------------- */

/* Nobody waits for a load when the rest is done: what is to be kept is written, and the process
 * ends with the thread that loads. */
static void leave_loading(struct server *server)
{
    limits_close(&server->limits);
    store_close(server->store);
    refusals_flush();
    log_info("stopped while a reload was loading");
    log_finish();
    _exit(EXIT_DONE);
}

static void let_work_end(struct server *server)
{
    while (server->n_working > 0)
        uv_run(server->loop, UV_RUN_ONCE);
}

/* Whoever awaits is told, and replies when what works for him is done. */
static void stop_http(struct server *server)
{
    if (!server->http)
        return;
    http_give_up_all(server->http);
    let_work_end(server);
    http_close(server->http);
}

/* Closes what has been opened, in reverse; also after a start that failed half way. First what
 * works is stopped; signals are heard until the engine is closed; then the memory is freed. */
static void close_server(struct serve *serve)
{
    struct server *server = &serve->server;

    stop_http(server);
    files_close(server); /* also ends calls that no client waits for */
    let_work_end(server);
    glossaries_stop(&server->glossaries);
    limits_stop(&server->limits);
    store_stop(server->store);
    if (reload_is_loading(&serve->reload))
        leave_loading(server);
    reload_settle(&serve->reload);
    translator_settle(server->translator);
    acre_engine_close(server->engine);
    translator_close(server->translator);
    close_handles(serve);
    uv_run(&serve->loop, UV_RUN_DEFAULT);

    http_free(server->http);
    translator_free(server->translator);
    models_fini(&server->models);
    pages_close(server);
    routes_close(server);
    glossaries_close(&server->glossaries);
    limits_close(&server->limits); /* writes into the store what is not there yet */
    store_close(server->store);
    tls_context_close(serve->tls);
    uv_loop_close(&serve->loop);
    listener_close(&serve->listener);
}

/* ---- Building it, running it ----------------------------------------------------------------- */

/* What full batches of long sentences would take is reserved, not checked: most servers never see
 * them, but who does would be killed without a word. */
static void warn_of_memory(const struct server *server)
{
    const size_t free_bytes = acre_engine_free_bytes(server->engine);
    uint64_t weights = 0, working = 0;

    for (size_t i = 0; i < server->models.n_items; i++) {
        weights += acre_model_info(server->models.items[i])->packed_bytes;
        working += acre_model_info(server->models.items[i])->working_bytes;
    }
    if (working + (weights + working) / 5 > free_bytes) /* what allocators add: README, Memory */
        log_warning("memory: besides %llu MiB of weights models may take %llu MiB to work in, and "
                    "%zu MiB are free: lower max_beam_size, batch_size or threads, or serve fewer "
                    "models",
                    (unsigned long long)(weights >> 20), (unsigned long long)(working >> 20),
                    free_bytes >> 20);
}

static void say_ready(const struct serve *serve, uint64_t start_ns)
{
    char text[LISTENER_SOCKETS * (LISTENER_NAME_BYTES + 16)] = "", name[LISTENER_NAME_BYTES];
    const struct server *server = &serve->server;
    const int n_threads = acre_engine_threads(server->engine);

    for (size_t i = 0; i < serve->listener.n_fds; i++) {
        listener_name(&serve->listener, i, name);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s", i > 0 ? " and " : "",
                 strncmp(name, "unix:", 5) == 0 ? ""
                 : serve->tls                   ? "https://"
                                                : "http://",
                 name);
    }
    log_info("serving %zu model%s on %s with %d thread%s", server->models.n_items,
             server->models.n_items == 1 ? "" : "s", acre_engine_backend(server->engine), n_threads,
             n_threads == 1 ? "" : "s");
    warn_of_memory(server);
    log_info("listening on %s, ready in %llu ms", text,
             (unsigned long long)((uv_hrtime() - start_ns) / 1000000));
}

static int open_server(struct serve *serve, struct acre_err *err)
{
    struct server *server = &serve->server;
    struct http_options chosen;

    if (tls_context_open(serve->settings->tls_certificate, serve->settings->tls_key, &serve->tls,
                         err) != 0 ||
        open_store(server, err) != 0 ||
        limits_open(&server->limits, server->settings, server->store, err) != 0 ||
        glossaries_open(&server->glossaries, server->settings, server->store,
                        server->limits.keyring, err) != 0 ||
        (server->store && store_start(server->store, &serve->loop, err) != 0) ||
        routes_open(server, err) != 0 || pages_open(server, err) != 0 ||
        files_open(server, err) != 0 || open_engine(server, log_engine, err) != 0 ||
        translator_open(&serve->loop, server->engine, &server->translator, err) != 0)
        return err->code;
    chosen = http_options(serve);
    if (listener_listen(&serve->listener, err) != 0 ||
        http_open(&serve->loop, &chosen, &server->http, err) != 0)
        return err->code;
    if (limits_start(&server->limits, &serve->loop, err) != 0 ||
        glossaries_start(&server->glossaries, &serve->loop, err) != 0)
        log_error("%s", err->text); /* UNTESTED: no memory */
    start_handles(serve);
    return 0;
}

/* After what the log has, the reason for leaving; who reads JSON gets no other line. */
static int stop_log(const struct settings *settings, int rc, const struct acre_err *err)
{
    log_stop();
    if (rc == 0)
        return EXIT_DONE;
    if (!logs_json(settings))
        return args_failed("%s", err->text);
    log_error("%s", err->text);
    return EXIT_FAILED;
}

/* Of systemd, or our own. */
static int open_listener(struct serve *serve, struct acre_err *err)
{
    if (listener_inherit(&serve->listener, err) != 0)
        return err->code;
    return serve->listener.n_fds > 0
               ? 0
               : listener_open(serve->settings->listen, &serve->listener, err);
}

static int run_server(struct settings *settings, struct serve_args *args)
{
    const uint64_t start_ns = uv_hrtime();
    struct serve serve = {.server = {.settings = settings, .started_s = time(NULL)},
                          .settings = settings,
                          .reload = {.server = &serve.server,
                                     .settings = settings,
                                     .read = read_settings,
                                     .args = args,
                                     .apply = apply_settings,
                                     .user = &serve}};
    struct acre_err err = {.code = 0};
    int rc;

    signals_before_start();
    if (log_start(&err) != 0 || configure_log(settings, &err) != 0)
        return stop_log(settings, err.code, &err);
    raise_descriptor_limit(settings);
    if (open_listener(&serve, &err) != 0)
        return stop_log(settings, err.code, &err);
    if (uv_loop_init(&serve.loop) != 0) {
        listener_close(&serve.listener);
        rc = error_set(&err, ACRE_ENOMEM, "the event loop cannot be set up");
        return stop_log(settings, rc, &err);
    }
    serve.server.loop = &serve.loop;
    init_handles(&serve);
    rc = open_server(&serve, &err);
    if (rc == 0) {
        say_ready(&serve, start_ns);
        notify_ready();
        uv_run(&serve.loop, UV_RUN_DEFAULT); /* until it is drained */
    }
    close_server(&serve);
    if (rc == 0) {
        refusals_flush();
        log_info("stopped");
    }
    return stop_log(settings, rc, &err);
}

int cmd_serve(int argc, char **argv)
{
    struct serve_args args = {.set = {.n_items = 0}};
    struct settings settings;
    struct acre_err err;
    int rc = args_parse(&command, &args, argc, argv);

    if (rc != ARGS_GO)
        return rc;
    if (args.help_config) {
        settings_print_help();
        return args_done();
    }
    if (read_settings(&args, &settings, &err) != 0)
        return args.is_misused ? args_wrong("%s", err.text) : args_failed("%s", err.text);
    return args.check_config ? check_config(&settings) : run_server(&settings, &args);
}
