/* The models of an engine: opened, described, counted, closed. A model is read and bound to each
 * device (load.h), and served: every worker gets a batch for it. What it holds is how much more its
 * thread has allocated by then (mem_held()).
 *
 * What fails says which file and field, and what was expected and found. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "engine.h"
#include "load.h"
#include "text/utf8.h"

enum {
    DEFAULT_MAX_BEAM = 8,
    LEAST_SPLIT = 64, /* shorter sentences stay whole: so small a max_length is meant to cut */
};

void model_free(struct acre_model *model)
{
    constraint_close(model->constraint);
    for (size_t i = 0; i < MAX_DEVICES; i++)
        network_close(model->networks[i]);
    alphabet_close(model->alphabet);
    tokenizer_close(model->tokenizer);
    language_names_fini(&model->sources);
    language_names_fini(&model->targets);
    config_fini(&model->config);
    mem_free(model->name);
    mem_free(model);
}

/* ---- Languages ------------------------------------------------------------------------------- */

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

/* ---- Limits ---------------------------------------------------------------------------------- */

/* What the engine's options say; if nothing, room for the model's own. */
static int max_beam_size(const struct acre_model *model)
{
    int own = model->config.decoding.beam_size, given = model->engine->options.max_beam_size;
    if (given > 0)
        return given;
    return own > DEFAULT_MAX_BEAM ? own : DEFAULT_MAX_BEAM;
}

/* A sentence is split where its translation, half as long again, might not fit into the model's own
 * max_length. */
static void limit_source(struct acre_model_info *info)
{
    int most = info->decoding.max_length * 2 / 3;
    most = most > LEAST_SPLIT ? most : LEAST_SPLIT;
    if (info->max_source_tokens > most)
        info->max_source_tokens = most;
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
        .packed_bytes = model->packed_bytes,
        .d_model = config->d_model,
        .encoder_layers = config->encoder_layers,
        .decoder_layers = config->decoder_layers,
        .attention_heads = config->decoder_heads,
        .vocab_size = config->decoder_vocab_size,
        .max_area_width = config_max_area_width(config),
        .max_source_tokens = config->max_source - 1 - has_languages, /* and the end token */
        .max_target_tokens = config->max_positions - 1, /* the start token has a position too */
        .decoding = config->decoding,
    };
    struct acre_decoding *decoding = &model->info.decoding;
    if (decoding->beam_size > model->max_beam_size)
        decoding->beam_size = model->max_beam_size;
    if (decoding->max_length > model->info.max_target_tokens)
        decoding->max_length = model->info.max_target_tokens;
    if (decoding->min_length > decoding->max_length)
        decoding->min_length = decoding->max_length;
    limit_source(&model->info);
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
        .max_beam_size = (size_t)model->max_beam_size,
    };
    int status = scheduler_add_model(engine->scheduler, model->networks, &search, &limits,
                                     (size_t)config->decoding.beam_size, &model->served, err);
    if (status != 0 || engine->fallback)
        return status;
    status = scheduler_health(engine->scheduler, err); /* the last may be lost over its batches */
    if (status != 0)
        scheduler_remove_model(engine->scheduler, model->served);
    return status;
}

/* With names and limits, and a batch in every worker. */
static int load(struct acre_engine *engine, const char *directory, struct acre_model *model,
                struct acre_err *err)
{
    int status = model_load(engine, directory, model, err);
    if (status != 0)
        return status;
    if (name_languages(model) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the names of languages");
    if (alphabet_open(model->tokenizer, model->source ? model->source->tag : "",
                      &model->alphabet) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the alphabet");
    model->max_beam_size = max_beam_size(model);
    fill_info(model);
    size_t before = mem_held();
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
    engine_say(
        &engine->options,
        "model %s: %.1f M parameters, areas up to %d wide, %s, %.1f MiB of weights, up to %.1f MiB "
        "to work in%s, loaded in %.0f ms",
        info->name, 1e-6 * (double)info->parameters, info->max_area_width, info->compute_type,
        (double)info->packed_bytes / mib, (double)info->working_bytes / mib, where, ms);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int open_model(struct acre_engine *engine, const char *path, const char *name,
                      struct acre_model **out, struct acre_err *err);

/* With the same model for the engine that goes on where this one's device is lost. */
static int load_both(struct acre_engine *engine, const char *path, struct acre_model *model,
                     struct acre_err *err)
{
    int status = 0;
    if (engine->fallback)
        status = open_model(engine->fallback, path, model->name, &model->fallback, err);
    if (status == 0)
        status = load(engine, path, model, err);
    if (status == 0 && model->fallback) {
        model->info.packed_bytes += model->fallback->info.packed_bytes;
        model->info.working_bytes += model->fallback->info.working_bytes;
    }
    return status;
}

static int open_model(struct acre_engine *engine, const char *path, const char *name,
                      struct acre_model **out, struct acre_err *err)
{
    const uint64_t start_ns = scheduler_now_ns();
    struct acre_model *model = mem_calloc(1, sizeof(*model));
    if (!model)
        return err_set(err, ACRE_ENOMEM, "no memory for the model");
    model->engine = engine;
    model->name = mem_copy_text(name, strlen(name));
    int status = model->name ? load_both(engine, path, model, err)
                             : err_set(err, ACRE_ENOMEM, "no memory for the model");
    if (status != 0) {
        acre_model_close(model->fallback);
        model_free(model);
        return status;
    }
    pthread_mutex_lock(&engine->lock);
    model->serial = engine->n_models++;
    model->next = engine->models;
    engine->models = model;
    pthread_mutex_unlock(&engine->lock);
    say_loaded(engine, &model->info, 1e-6 * (double)(scheduler_now_ns() - start_ns));
    *out = model;
    return 0;
}

static char *last_part(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return mem_copy_text(path + begin, end - begin);
}

/* The last part of the path as it was given: of a link its own name, not its target's, which may be
 * the name of a version. The real path has the name of ".". */
static char *name_of(const char *directory, const char *path)
{
    char *name = last_part(directory);
    if (!name || (name[0] && strcmp(name, ".") && strcmp(name, "..")))
        return name;
    mem_free(name);
    return last_part(path);
}

/* What stands in lists, metrics and logs: what is no UTF-8 or a control character is U+FFFD there.
 * Takes `name`; NULL: no memory. */
static char *as_text(char *name)
{
    const size_t n = name ? strlen(name) : 0;
    char *text = name ? mem_alloc(3 * n + 1) : NULL;
    char *end = text;
    for (size_t at = 0, begin = 0; text && at < n; begin = at) {
        int32_t character = utf8_next(name, n, &at); /* negative where it is none */
        bool is_text = character >= 0x20 && (character < 0x7F || character >= 0xA0);
        size_t bytes = is_text ? at - begin : 3;
        memcpy(end, is_text ? name + begin : "\xEF\xBF\xBD", bytes);
        end += bytes;
    }
    if (text)
        *end = '\0';
    mem_free(name);
    return text;
}

static int check_directory(const char *directory, struct acre_err *err)
{
    struct stat found;
    char reason[128];
    int error = stat(directory, &found) == 0 ? 0 : errno;
    if (error != 0 && error != ENOENT)
        return err_set(err, ACRE_EIO, "%s: cannot be opened: %s", directory,
                       strerror_r(error, reason, sizeof(reason)));
    if (error != 0 || !S_ISDIR(found.st_mode))
        return err_set(err, ACRE_EIO, "%s: expected a model directory, found %s", directory,
                       error == 0 ? "a file" : "nothing");
    return 0;
}

/* All files are read by the real path, so that they are of one version where a link changes. */
int acre_model_open(struct acre_engine *engine, const char *directory, struct acre_model **out,
                    struct acre_err *err)
{
    struct acre_err unwanted = {.code = 0};
    *out = NULL;
    err = err ? err : &unwanted; /* the scheduler wants to know, too, why a device is lost */
    int status = check_directory(directory, err);
    if (status != 0)
        return status;
    char *path = realpath(directory, NULL);
    char *name = path ? as_text(name_of(directory, path)) : NULL;
    status = name ? open_model(engine, path, name, out, err)
                  : err_set(err, ACRE_ENOMEM, "no memory for the model");
    mem_free(name);
    free(path);
    /* Errors of a file begin with its name in the directory. */
    bool is_of_file = status != ACRE_ENOMEM && status != ACRE_EOPTION && status != ACRE_EDEVICE;
    if (status != 0)
        err_prefix(err, is_of_file ? "%s/" : "%s: ", directory);
    return status;
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
    model_free(model);
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

bool acre_model_reads(const struct acre_model *model, const char *character, size_t character_bytes)
{
    return alphabet_has(model->alphabet, character, character_bytes);
}

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

/* A sentence that was decoded again counts as failed there, and once more as what became of it. */
void acre_model_statistics(const struct acre_model *model, struct acre_statistics *statistics)
{
    *statistics = scheduler_statistics(model->engine->scheduler, model->served);
    if (model->fallback)
        add_statistics(model->fallback, statistics);
}
