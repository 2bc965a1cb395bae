/* Opening: options get their defaults and are checked, then a device, then the scheduler with its
 * threads. A model is read, bound to the device, and served: every worker gets a batch for it. What
 * it holds is how much more its thread has allocated by then (mem_held()).
 *
 * What fails says which file and field, and what was expected and found; whatever is open by then
 * is closed in reverse order. */
#include "engine.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/mem.h"
#include "fallback.h"

enum {
    DEFAULT_BATCH_SIZE = 32,
    DEFAULT_MAX_BEAM = 8,
    LARGE_PARAMETERS = 100000000,   /* whoever loads so many is told that it begins, */
    PROGRESS_SECONDS = 2,           /* and this often how far it is */
    DEFAULT_QUEUED_TOKENS = 100000, /* per thread: half a minute of a small model's work */
};

static void say(const struct acre_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct acre_options *options, const char *format, ...)
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

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
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
    if (options->n_threads == 0)
        options->n_threads = cpu_count();
    if (options->batch_size == 0)
        options->batch_size = DEFAULT_BATCH_SIZE;
    if (options->max_beam_size == 0)
        options->max_beam_size = DEFAULT_MAX_BEAM;
    if (options->max_queued_tokens == 0)
        options->max_queued_tokens = DEFAULT_QUEUED_TOKENS * (size_t)options->n_threads;
    int status = engine_check_range("threads", options->n_threads, ACRE_MAX_THREADS, err);
    if (status == 0)
        status = engine_check_range("batch_size", options->batch_size, ACRE_MAX_BATCH_SIZE, err);
    if (status == 0)
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

/* A device that does not say how many threads are to step it has as many as there are. */
static void count_workers(struct acre_engine *engine)
{
    int of_each = engine->devices.all[0]->n_workers;
    if (of_each == 0)
        of_each = engine->options.n_threads == 0 ? cpu_count() : engine->options.n_threads;
    engine->options.n_threads = of_each * (int)engine->devices.n;
}

int engine_open_on(const struct device_set *devices, const struct acre_options *options,
                   struct acre_engine **out, struct acre_err *err)
{
    struct acre_engine *engine = mem_calloc(1, sizeof(*engine));
    if (!engine) {
        devices_close(devices);
        return err_set(err, ACRE_ENOMEM, "no memory for the engine");
    }
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
    if (status != 0) {
        acre_engine_close(engine);
        return status;
    }
    say(&engine->options, "engine: %s, %d worker thread%s", engine->name, engine->options.n_threads,
        engine->options.n_threads == 1 ? "" : "s");
    *out = engine;
    return 0;
}

/* A CPU is never lost, and has no f16. Closes the engine if there is no memory for the other one.
 */
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
    int status = acre_engine_open(&options, &engine->fallback, err);
    if (status != 0)
        acre_engine_close(engine);
    return status;
}

int acre_engine_open(const struct acre_options *options, struct acre_engine **engine,
                     struct acre_err *err)
{
    const char *name = options->device ? options->device : "auto";
    struct device_set devices;
    struct acre_err why = {.code = 0};
    int status = devices_open(name, &devices, &why);
    if (status != 0)
        return err_set(err, status, "%s", why.text);
    if (why.text[0])
        say(options, "device: %s: %s: %s", name,
            strcmp(name, "auto") == 0 ? "no GPU" : "without one", why.text);
    status = engine_open_on(&devices, options, engine, err);
    return status != 0 ? status : open_fallback(*engine, err);
}

static void model_close(struct acre_model *model)
{
    constraint_close(model->constraint);
    for (size_t i = 0; i < MAX_DEVICES; i++)
        network_close(model->networks[i]);
    tokenizer_close(model->tokenizer);
    language_names_fini(&model->sources);
    language_names_fini(&model->targets);
    config_fini(&model->config);
    mem_free(model->name);
    mem_free(model);
}

void acre_engine_close(struct acre_engine *engine)
{
    if (!engine)
        return;
    scheduler_close(engine->scheduler);
    for (struct acre_model *model = engine->models, *next; model; model = next) {
        next = model->next;
        model_close(model);
    }
    acre_engine_close(engine->fallback);
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

size_t acre_engine_queued_tokens(struct acre_engine *engine)
{
    size_t n = scheduler_queued_tokens(engine->scheduler);
    return engine->fallback ? n + scheduler_queued_tokens(engine->fallback->scheduler) : n;
}

int acre_engine_health(struct acre_engine *engine, struct acre_err *err)
{
    return engine->fallback ? 0 : scheduler_health(engine->scheduler, err);
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* The language whose token every translation begins with, if config.json says so. */
static const struct acre_language *forced_language(const struct acre_model *model)
{
    const struct language_tokens *tokens = tokenizer_languages(model->tokenizer);
    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->items[i].id == model->config.first_token)
            return &model->targets.list[i];
    return NULL;
}

/* A model has tokens for its languages, or is for one pair. */
static int name_languages(struct acre_model *model)
{
    const struct config *config = &model->config;
    const struct language_tokens *tokens = tokenizer_languages(model->tokenizer);
    const char *source = config->source, *target = config->target;
    bool is_pair = tokens->n == 0;
    size_t n = is_pair ? 1 : tokens->n;
    const char **codes = mem_alloc(n * sizeof(*codes));
    if (!codes)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < tokens->n; i++)
        codes[i] = tokens->items[i].code;
    int status = language_names_init(&model->sources, is_pair ? &source : codes, n, is_pair);
    if (status == 0)
        status = language_names_init(&model->targets, is_pair ? &target : codes, n, is_pair);
    mem_free(codes);
    if (status != 0)
        return status;
    model->source = language_names_find(&model->sources, source);
    model->target = language_names_find(&model->targets, target);
    if (!is_pair && !model->target)
        model->target = forced_language(model);
    return 0;
}

static void fill_info(struct acre_model *model)
{
    const struct config *config = &model->config;
    bool has_languages = tokenizer_languages(model->tokenizer)->n > 0;
    model->info = (struct acre_model_info){
        .name = model->name,
        .source = model->source ? model->source->tag : "",
        .target = model->target ? model->target->tag : "",
        .sources = model->sources.list,
        .targets = model->targets.list,
        .n_sources = model->sources.n,
        .n_targets = model->targets.n,
        .level = tokenizer_is_bytes(model->tokenizer) ? "char" : "token",
        .model_type = config->kind->model_type,
        .compute_type = compute_type_name(config->compute_type),
        .parameters = model->parameters,
        .d_model = config->d_model,
        .encoder_layers = config->encoder_layers,
        .decoder_layers = config->decoder_layers,
        .attention_heads = config->decoder_heads,
        .vocab_size = config->decoder_vocab_size,
        .max_area_width = config_max_area_width(config),
        .max_source_tokens = config->max_positions - 1 - has_languages, /* and the end token */
        .decoding = config->decoding,
    };
    struct acre_decoding *decoding = &model->info.decoding;
    if (decoding->max_length > model->info.max_source_tokens)
        decoding->max_length = model->info.max_source_tokens;
    if (decoding->min_length > decoding->max_length)
        decoding->min_length = decoding->max_length;
}

static int serve(struct acre_engine *engine, struct acre_model *model, struct acre_err *err)
{
    const struct config *config = &model->config;
    struct search_model search = {
        .constraint = model->constraint,
        .start_token = config->start_token,
        .end_token = config->end_token,
        .renormalize = config->renormalize,
    };
    struct batch_limits limits = {
        .max_sentences = (size_t)engine->options.batch_size,
        .max_beam_size = (size_t)engine->options.max_beam_size,
    };
    return scheduler_add_model(engine->scheduler, model->networks, &search, &limits, &model->served,
                               err);
}

/* Of the attention that a parameter of keys belongs to. */
static enum area_key_mode key_mode_of(const struct config *config, const char *tensor)
{
    if (!strstr(tensor, ".self_attn."))
        return config->decoder_cross.key;
    return strstr(tensor, ".encoder.") ? config->encoder_self.key : config->decoder_self.key;
}

/* Keys without the dense layers that are there are not those that were trained. The networks of a
 * preset share weights in this way, so that it is not network_open() that refuses them. */
static int check_key_weights(const struct config *config, const struct safetensors *weights,
                             struct acre_err *err)
{
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const char *tensor = safetensors_name(weights, i);
        if (!strstr(tensor, ".area."))
            continue;
        enum area_key_mode mode = key_mode_of(config, tensor);
        if (area_key_inputs(mode, (size_t)config->d_model) == 0)
            return err_set(err, ACRE_EMODEL,
                           "config.json: area.key: expected one with the weights %.100s, found %s",
                           tensor, mode == AREA_KEY_MAX ? "max" : "mean");
    }
    return 0;
}

/* What a device with f16 computes a model in that tells it nothing else: f16, unless the numbers of
 * its matrices are float32 and it was evaluated in that. */
static enum compute_type half_or_f32(const struct config *config, const struct safetensors *weights)
{
    if (config->compute_type != COMPUTE_F32)
        return COMPUTE_F16;
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const struct tensor *tensor = safetensors_find(weights, safetensors_name(weights, i));
        if (tensor->n_dims == 2 && tensor->dtype == DTYPE_F32)
            return COMPUTE_F32;
    }
    return COMPUTE_F16;
}

/* A large model takes a while to load; whoever waits is told how far it is. */
struct loading {
    const struct acre_model *model;
    struct timespec told;
};

static void tell_loading(void *user, uint64_t read_bytes, uint64_t all_bytes)
{
    struct loading *loading = user;
    if (seconds_since(&loading->told) < PROGRESS_SECONDS || read_bytes >= all_bytes)
        return;
    clock_gettime(CLOCK_MONOTONIC, &loading->told);
    say(&loading->model->engine->options, "model %s: %.0f %% of %.0f MiB of weights read",
        loading->model->name, 100.0 * (double)read_bytes / (double)all_bytes,
        (double)all_bytes / (1 << 20));
}

/* Onto one device; the first one's type is that of all. */
static int load_weights(struct acre_engine *engine, const char *directory, struct acre_model *model,
                        size_t device, struct acre_err *err)
{
    struct safetensors *weights;
    int status = safetensors_open(directory, &weights, err);
    if (status != 0)
        return status;
    if (!engine->is_type_forced && device == 0 && engine->devices.all[0]->has_f16)
        model->config.compute_type = half_or_f32(&model->config, weights);
    struct loading loading = {.model = model};
    if (safetensors_parameters(weights) >= LARGE_PARAMETERS)
        say(&engine->options, "model %s: loading %.1f M parameters", model->name,
            1e-6 * (double)safetensors_parameters(weights));
    clock_gettime(CLOCK_MONOTONIC, &loading.told);
    safetensors_watch(weights, tell_loading, &loading);
    status = check_key_weights(&model->config, weights, err);
    if (status == 0)
        status = network_open(engine->devices.all[device], &model->config, weights,
                              &model->networks[device], err);
    model->parameters = safetensors_parameters(weights);
    safetensors_close(weights);
    return status;
}

/* What transformers ends a source with is the tokenizer's, what ends a translation the model's.
 * Where they differ, the files are of two models. */
static int check_end(const struct acre_model *model, struct acre_err *err)
{
    int32_t end = tokenizer_end(model->tokenizer);
    if (end == model->config.end_token)
        return 0;
    return err_set(err, ACRE_EMODEL,
                   "config.json or generation_config.json: eos_token_id: expected %d, the "
                   "tokenizer's </s>, found %d",
                   (int)end, model->config.end_token);
}

static int load(struct acre_engine *engine, const char *directory, struct acre_model *model,
                struct acre_err *err)
{
    struct config *config = &model->config;
    int status = config_load(directory, network_kinds, config, err);
    if (engine->is_type_forced)
        config->compute_type = engine->compute_type;
    if (status == 0)
        status = tokenizer_open(directory, config->vocab_size, config->tokenizer_class,
                                &model->tokenizer, err);
    if (status == 0)
        status = check_end(model, err);
    size_t before = mem_held();
    for (size_t i = 0; status == 0 && i < engine->devices.n; i++)
        status = load_weights(engine, directory, model, i, err);
    if (status != 0)
        return status;
    size_t packed_bytes = mem_held() - before;
    struct constraint_options constraint = {
        .vocab_size = config->decoder_vocab_size,
        .end_token = config->end_token,
        .forbidden = config->forbidden,
        .n_forbidden = config->n_forbidden,
        .bytes = tokenizer_is_bytes(model->tokenizer),
    };
    if (constraint_open(&constraint, &model->constraint) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the constraints");
    if (name_languages(model) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the names of languages");
    fill_info(model);
    model->info.packed_bytes = packed_bytes;
    before = mem_held();
    status = serve(engine, model, err);
    model->info.working_bytes = mem_held() - before;
    return status;
}

static void say_loaded(const struct acre_engine *engine, const struct acre_model_info *info,
                       double ms)
{
    const double mib = 1 << 20;
    char where[48] = "";
    if (engine->devices.n > 1)
        snprintf(where, sizeof(where), " on %zu devices", engine->devices.n);
    say(&engine->options,
        "model %s: %.1f M parameters, areas up to %d wide, %s, %.1f MiB of weights, up to %.1f MiB "
        "to work in%s, loaded in %.0f ms",
        info->name, 1e-6 * (double)info->parameters, info->max_area_width, info->compute_type,
        (double)info->packed_bytes / mib, (double)info->working_bytes / mib, where, ms);
}

/* With the same model for the engine that goes on where this one's device is lost. */
static int load_both(struct acre_engine *engine, const char *path, struct acre_model *model,
                     struct acre_err *err)
{
    int status = 0;
    if (engine->fallback)
        status = acre_model_open(engine->fallback, path, &model->fallback, err);
    if (status == 0)
        status = load(engine, path, model, err);
    if (status == 0 && model->fallback) {
        model->info.packed_bytes += model->fallback->info.packed_bytes;
        model->info.working_bytes += model->fallback->info.working_bytes;
    }
    return status;
}

int acre_model_open(struct acre_engine *engine, const char *directory, struct acre_model **out,
                    struct acre_err *err)
{
    struct timespec start;
    struct stat stat_of;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (stat(directory, &stat_of) != 0 || !S_ISDIR(stat_of.st_mode))
        return err_set(err, ACRE_EIO, "%s: expected a model directory, found %s", directory,
                       stat(directory, &stat_of) == 0 ? "a file" : "nothing");
    struct acre_model *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "%s: no memory for the model", directory);
    model->engine = engine;
    /* The real path has the directory's own name, also where it was given as "." */
    char *path = realpath(directory, NULL);
    if (path)
        model->name = mem_copy_text(strrchr(path, '/') + 1, strlen(strrchr(path, '/') + 1));
    int status = model->name ? load_both(engine, path, model, err)
                             : err_set(err, ACRE_ENOMEM, "no memory for the model");
    free(path);
    if (status != 0) {
        /* Errors of a file begin with its name in the directory. */
        bool is_of_file = status != ACRE_ENOMEM && status != ACRE_EOPTION;
        err_prefix(err, is_of_file ? "%s/" : "%s: ", directory);
        acre_model_close(model->fallback);
        model_close(model);
        return status;
    }
    pthread_mutex_lock(&engine->lock);
    model->serial = engine->n_models++;
    model->next = engine->models;
    engine->models = model;
    pthread_mutex_unlock(&engine->lock);
    say_loaded(engine, &model->info, 1e3 * seconds_since(&start));
    *out = model;
    return 0;
}

void acre_model_close(struct acre_model *model)
{
    if (!model)
        return;
    struct acre_engine *engine = model->engine;
    scheduler_remove_model(engine->scheduler, model->served);
    pthread_mutex_lock(&engine->lock);
    struct acre_model **link = &engine->models;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    pthread_mutex_unlock(&engine->lock);
    acre_model_close(model->fallback);
    model_close(model);
}

const struct acre_model_info *acre_model_info(const struct acre_model *model)
{
    return &model->info;
}

const struct acre_language *acre_model_source(const struct acre_model *model, const char *name)
{
    return language_names_find(&model->sources, name);
}

const struct acre_language *acre_model_target(const struct acre_model *model, const char *name)
{
    return language_names_find(&model->targets, name);
}

/* A sentence that was decoded again counts as failed there, and once more as what became of it. */
/* Every member is a count, or a row of counts. */
static void add_statistics(const struct acre_model *model, struct acre_statistics *sum)
{
    enum { N_COUNTS = sizeof(*sum) / sizeof(uint64_t) };
    static_assert(sizeof(*sum) == N_COUNTS * sizeof(uint64_t), "only counts are added");
    struct acre_statistics other;
    acre_model_statistics(model, &other);
    uint64_t counts[N_COUNTS], more[N_COUNTS];
    memcpy(counts, sum, sizeof(counts));
    memcpy(more, &other, sizeof(more));
    for (int i = 0; i < N_COUNTS; i++)
        counts[i] += more[i];
    memcpy(sum, counts, sizeof(counts));
}

void acre_model_statistics(const struct acre_model *model, struct acre_statistics *statistics)
{
    *statistics = scheduler_statistics(model->engine->scheduler, model->served);
    if (model->fallback)
        add_statistics(model->fallback, statistics);
}
