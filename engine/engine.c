/* Opening: options get their defaults and are checked, then a device, then the scheduler with its
 * threads. Whatever is open when something fails is closed in reverse order. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/mem.h"
#include "fallback.h"
#include "job.h" /* job_sentence_finished() */

enum {
    DEFAULT_BATCH_SIZE = 32,
    DEFAULT_QUEUED_TOKENS = 100000, /* per thread: half a minute of a small model's work */
};

void engine_say(const struct acre_options *options, const char *format, ...)
{
    if (!options->log)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    options->log(options->log_user, ACRE_LOG_INFO, line);
}

/* ---- Engine ---------------------------------------------------------------------------------- */

int engine_check_range(const char *name, int value, int max, struct acre_err *err)
{
    if (value >= 1 && value <= max)
        return 0;
    return err_set(err, ACRE_EOPTION, "%s: expected an integer from 1 to %d, found %d", name, max,
                   value);
}

bool acre_has_device(const char *name)
{
    return device_is_known(name);
}

static bool parse_compute_type(const char *name, enum compute_type *type)
{
    *type = COMPUTE_F32;
    return !strcmp(name, "auto") || compute_type_parse(name, type);
}

bool acre_has_compute_type(const char *name)
{
    enum compute_type type;
    return parse_compute_type(name, &type);
}

int engine_compute_type(const struct device *device, const char *name, enum compute_type *type,
                        struct acre_err *err)
{
    bool is_known = parse_compute_type(name, type);
    if (is_known && ((int)*type < COMPUTE_EVERYWHERE || device->has_f16))
        return 0;
    return err_set(err, ACRE_EUNSUPPORTED,
                   "compute_type: expected " ACRE_COMPUTE_TYPES "%s, found \"%s\"",
                   is_known ? " on a CPU" : "", name);
}

static int choose_type(struct acre_engine *engine, struct acre_err *err)
{
    engine->is_type_forced = strcmp(engine->options.compute_type, "auto") != 0;
    return engine_compute_type(engine->devices.all[0], engine->options.compute_type,
                               &engine->compute_type, err);
}

static int fill_options(struct acre_options *options, struct acre_err *err)
{
    if (!options->device)
        options->device = "auto";
    if (!options->compute_type)
        options->compute_type = "auto";
    if (options->batch_size == 0)
        options->batch_size = DEFAULT_BATCH_SIZE;
    if (options->max_queued_tokens == 0)
        options->max_queued_tokens = DEFAULT_QUEUED_TOKENS * (size_t)options->n_threads;
    int status = engine_check_range("threads", options->n_threads, ACRE_MAX_THREADS, err);
    if (status == 0)
        status = engine_check_range("batch_size", options->batch_size, ACRE_MAX_BATCH_SIZE, err);
    if (status == 0 && options->max_beam_size != 0)
        status =
            engine_check_range("max_beam_size", options->max_beam_size, ACRE_MAX_BEAM_SIZE, err);
    return status;
}

static void name_devices(struct acre_engine *engine)
{
    for (size_t i = 0; i < engine->devices.n; i++) {
        size_t n = strlen(engine->name);
        snprintf(engine->name + n, sizeof(engine->name) - n, "%s%s", i > 0 ? ", " : "",
                 engine->devices.all[i]->name);
    }
}

/* Without a fallback, who is lost is told here; else when the first sentence goes there. */
static void say_lost(void *user, const struct acre_err *why, size_t n_well)
{
    const struct acre_engine *engine = user;
    char line[640];
    if (!engine->options.log || (n_well == 0 && engine->fallback))
        return;
    snprintf(line, sizeof(line), "device lost: %s; %zu of %zu go on", why->text, n_well,
             engine->devices.n);
    engine->options.log(engine->options.log_user, ACRE_LOG_WARNING, line);
}

static int default_threads(void)
{
    int n = cpu_count();
    return n < ACRE_MAX_THREADS ? n : ACRE_MAX_THREADS;
}

/* A device that does not say how many threads are to step it has as many as there are. */
static void count_workers(struct acre_engine *engine)
{
    int of_each = engine->devices.all[0]->n_workers;
    if (of_each == 0)
        of_each = engine->options.n_threads == 0 ? default_threads() : engine->options.n_threads;
    engine->options.n_threads = of_each * (int)engine->devices.n;
}

/* A CPU is never lost, and has no f16. */
static int open_fallback(struct acre_engine *engine, struct acre_err *err)
{
    struct acre_options options = engine->options;
    bool is_wanted = options.device_fallback && strcmp(options.device_fallback, "cpu") == 0;
    if (!is_wanted || strncmp(engine->name, "cpu", 3) == 0)
        return 0;
    options.device = "cpu";
    options.device_fallback = NULL;
    options.compute_type = engine->compute_type == COMPUTE_F16 ? "f32" : options.compute_type;
    options.cache_bytes = 0;
    options.n_threads = 0;
    return acre_engine_open(&options, &engine->fallback, err);
}

int engine_open_on(const struct device_set *devices, const struct acre_options *options,
                   struct acre_engine **out, struct acre_err *err)
{
    struct acre_engine *engine = mem_calloc(1, sizeof(*engine));
    if (!engine) {
        devices_close(devices);
        return err_set(err, ACRE_ENOMEM, "no memory for the engine");
    }
    engine->process = getpid();
    engine->options = *options;
    engine->devices = *devices;
    pthread_mutex_init(&engine->lock, NULL);
    name_devices(engine);
    count_workers(engine);
    int status = fill_options(&engine->options, err);
    if (status == 0)
        status = choose_type(engine, err);
    if (status == 0) {
        struct scheduler_options scheduling = {
            .n_devices = engine->devices.n,
            .n_workers = engine->options.n_threads,
            .max_queued_tokens = engine->options.max_queued_tokens,
            .finished = job_sentence_finished,
            .lost = say_lost,
            .lost_user = engine,
        };
        status = scheduler_open(&scheduling, &engine->scheduler, err);
    }
    if (status == 0 && options->cache_bytes > 0 &&
        !(engine->cache = cache_open(options->cache_bytes)))
        status = err_set(err, ACRE_ENOMEM, "no memory for the cache of translations");
    if (status == 0) {
        engine_say(&engine->options, "engine: %s, %d worker thread%s", engine->name,
                   engine->options.n_threads, engine->options.n_threads == 1 ? "" : "s");
        status = open_fallback(engine, err);
    }
    if (status == 0)
        *out = engine;
    else
        acre_engine_close(engine);
    return status;
}

int acre_engine_open(const struct acre_options *options, struct acre_engine **engine,
                     struct acre_err *err)
{
    const char *name = options->device ? options->device : "auto";
    *engine = NULL;
    struct device_set devices;
    struct acre_err why = {.code = 0};
    int status = devices_open(name, &devices, &why);
    if (status != 0)
        return err_set(err, status, "%s", why.text);
    if (why.text[0])
        engine_say(options, "device: %s: %s: %s", name,
                   strcmp(name, "auto") == 0 ? "no GPU" : "without one", why.text);
    return engine_open_on(&devices, options, engine, err);
}

void acre_engine_close(struct acre_engine *engine)
{
    if (!engine || engine->process != getpid())
        return;
    scheduler_stop(engine->scheduler);
    acre_engine_close(engine->fallback); /* what it is at is of these models' jobs: their `done` may
                                          * ask the first scheduler, or submit to it */
    scheduler_close(engine->scheduler);
    for (struct acre_model *model = engine->models, *next; model; model = next) {
        next = model->next;
        model_free(model);
    }
    devices_close(&engine->devices);
    cache_close(engine->cache);
    pthread_mutex_destroy(&engine->lock);
    mem_free(engine);
}

const char *acre_engine_backend(const struct acre_engine *engine)
{
    return fallback_works(engine) ? engine->fallback->name : engine->name;
}

int acre_engine_threads(const struct acre_engine *engine)
{
    return engine->options.n_threads;
}

void acre_engine_devices(struct acre_engine *engine, size_t *n_devices, size_t *n_lost)
{
    *n_devices = engine->devices.n;
    *n_lost = 0;
    for (size_t i = 0; i < engine->devices.n; i++)
        *n_lost += !scheduler_device_is_well(engine->scheduler, i);
}

size_t acre_engine_free_bytes(const struct acre_engine *engine)
{
    const struct device *device = engine->devices.all[0];
    bool is_gpu = device->n_workers > 0; /* CPUs leave it to the options */
    return is_gpu ? SIZE_MAX : device->ops->free_bytes(device);
}

size_t acre_engine_queued_tokens(struct acre_engine *engine)
{
    size_t n = scheduler_queued_tokens(engine->scheduler);
    return engine->fallback ? n + scheduler_queued_tokens(engine->fallback->scheduler) : n;
}

size_t acre_engine_max_queued_tokens(const struct acre_engine *engine)
{
    return engine->options.max_queued_tokens;
}

int acre_engine_health(struct acre_engine *engine, struct acre_err *err)
{
    return engine->fallback ? 0 : scheduler_health(engine->scheduler, err);
}
