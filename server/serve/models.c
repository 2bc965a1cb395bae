#include "serve/models.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"

enum { MAX_LOADERS = 64 };

static int join(char path[PATH_MAX], const char *folder, const char *name, struct acre_err *err)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);

    if (n < 0 || n >= PATH_MAX)
        return error_set(err, ACRE_EMODEL, "%.200s: expected a shorter path", folder);
    return 0;
}

/* Whether `folder` has a config.json: 1, 0, or an error where that cannot be seen. */
static int is_model(const char *folder, struct acre_err *err)
{
    char path[PATH_MAX];

    if (join(path, folder, "config.json", err) != 0)
        return err->code;
    if (access(path, F_OK) == 0)
        return 1;
    if (errno == ENOENT || errno == ENOTDIR)
        return 0;
    return error_set(err, ACRE_EIO, "%s: expected a folder that can be read, found: %s", folder,
                     strerror(errno));
}

/* One model on its way in. */
struct opening {
    char path[PATH_MAX];
    struct acre_model *model;
    int rc;
    struct acre_err err;
};

/* Openings that several threads take one after the other. */
struct openings {
    struct acre_engine *engine;
    struct opening *items; /* owned */
    size_t n_items;
    atomic_size_t next;
};

static void *open_next(void *user)
{
    struct openings *openings = user;
    size_t i;

    while ((i = atomic_fetch_add(&openings->next, 1)) < openings->n_items) {
        struct opening *opening = &openings->items[i];

        opening->rc =
            acre_model_open(openings->engine, opening->path, &opening->model, &opening->err);
    }
    return NULL;
}

/* On as many threads as will translate; this one is the first of them. */
static void open_all(struct openings *openings)
{
    pthread_t threads[MAX_LOADERS];
    size_t n_threads = 0, wanted = (size_t)acre_engine_threads(openings->engine);

    wanted = wanted < openings->n_items ? wanted : openings->n_items;
    while (n_threads + 1 < wanted && n_threads < MAX_LOADERS &&
           pthread_create(&threads[n_threads], NULL, open_next, openings) == 0)
        n_threads++;
    open_next(openings);
    while (n_threads > 0)
        pthread_join(threads[--n_threads], NULL);
}

/* Takes what was opened, in order; the first error is the one that is told. */
static int take_models(struct models *models, const struct openings *openings, bool skips_bad,
                       struct acre_err *err)
{
    int rc = 0;

    models->items = calloc(openings->n_items + 1, sizeof(models->items[0]));
    if (!models->items)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    for (size_t i = 0; i < openings->n_items; i++) {
        const struct opening *opening = &openings->items[i];

        if (opening->rc == 0) {
            models->items[models->n_items++] = opening->model;
            continue;
        }
        if (rc == 0)
            *err = opening->err;
        rc = opening->rc;
        if (!skips_bad)
            return err->code;
        log_warning("left out: %s", opening->err.text);
    }
    return models->n_items > 0 || rc == 0 ? 0 : err->code;
}

static int find_each(struct openings *openings, const char *folder, struct dirent **entries,
                     int n_entries, struct acre_err *err)
{
    for (int i = 0; i < n_entries; i++) {
        char *path = openings->items[openings->n_items].path;
        int rc;

        if (entries[i]->d_name[0] == '.')
            continue;
        rc = join(path, folder, entries[i]->d_name, err);
        if (rc == 0)
            rc = is_model(path, err);
        if (rc < 0)
            return rc;
        openings->n_items += (size_t)rc;
    }
    return 0;
}

static int open_each(struct models *models, struct acre_engine *engine, const char *folder,
                     struct dirent **entries, int n_entries, bool skips_bad, struct acre_err *err)
{
    struct openings openings = {.engine = engine};
    int rc;

    openings.items = calloc((size_t)n_entries + 1, sizeof(openings.items[0]));
    if (!openings.items)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    rc = find_each(&openings, folder, entries, n_entries, err);
    if (rc == 0) {
        open_all(&openings);
        rc = take_models(models, &openings, skips_bad, err);
    }
    free(openings.items);
    return rc;
}

/* By its real path, whose last part names it and its languages, wherever the process stands. */
static int open_folder_itself(struct models *models, struct acre_engine *engine, const char *folder,
                              struct acre_err *err)
{
    char path[PATH_MAX];
    int rc;

    if (!realpath(folder, path))
        return error_set(err, ACRE_EIO, "%s: expected a folder that can be read, found: %s", folder,
                         strerror(errno));
    models->items = calloc(1, sizeof(models->items[0]));
    if (!models->items)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    rc = acre_model_open(engine, path, &models->items[0], err);
    models->n_items = rc == 0 ? 1 : 0;
    return rc;
}

/* The first of them is the one models_find_pair() finds. */
static void warn_of_doubles(const struct models *models)
{
    for (size_t i = 1; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);
        struct acre_model *model = NULL;
        const char *name;

        if (!info->source[0] || !info->target[0])
            continue;
        models_find_pair(models, info->source, info->target, info->level, &model);
        name = acre_model_info(model)->name;
        if (model != models->items[i])
            log_warning("models %s and %s both translate %s to %s by %s: %s answers, unless a "
                        "request names %s",
                        name, info->name, info->source, info->target, info->level, name,
                        info->name);
    }
}

int models_load(struct models *models, struct acre_engine *engine, const char *folder,
                bool skips_bad, struct acre_err *err)
{
    struct dirent **entries;
    int n_entries, rc;

    *models = (struct models){.items = NULL};
    rc = is_model(folder, err);
    if (rc != 0)
        return rc == 1 ? open_folder_itself(models, engine, folder, err) : rc;
    n_entries = scandir(folder, &entries, NULL, alphasort);
    if (n_entries < 0)
        return error_set(err, ACRE_EIO, "%s: expected a folder of models, found: %s", folder,
                         strerror(errno));
    rc = open_each(models, engine, folder, entries, n_entries, skips_bad, err);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    if (rc == 0 && models->n_items == 0)
        rc = error_set(err, ACRE_EMODEL, "%s: expected a subfolder with a config.json, found none",
                       folder);
    if (rc == 0)
        warn_of_doubles(models);
    return rc;
}

void models_fini(struct models *models)
{
    free(models->items);
    *models = (struct models){.items = NULL};
}

struct acre_model *models_find_name(const struct models *models, const char *name)
{
    for (size_t i = 0; i < models->n_items; i++)
        if (strcmp(acre_model_info(models->items[i])->name, name) == 0)
            return models->items[i];
    return NULL;
}

static bool is_language(const struct models *models, const char *code)
{
    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);

        if (strcasecmp(info->source, code) == 0 || strcasecmp(info->target, code) == 0)
            return true;
    }
    return false;
}

enum models_match models_find_pair(const struct models *models, const char *source,
                                   const char *target, const char *level, struct acre_model **model)
{
    const char *wanted = level ? level : "token";
    struct acre_model *other = NULL;

    if (!is_language(models, source))
        return MODELS_NO_SOURCE;
    if (!is_language(models, target))
        return MODELS_NO_TARGET;
    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);

        if (strcasecmp(info->source, source) != 0 || strcasecmp(info->target, target) != 0)
            continue;
        *model = models->items[i];
        if (strcasecmp(info->level, wanted) == 0)
            return MODELS_FOUND;
        other = other ? other : models->items[i];
    }
    if (!other)
        return MODELS_NO_PAIR;
    *model = other;
    return level ? MODELS_NO_LEVEL : MODELS_FOUND;
}

/* Appends ", item" unless the list has it already. Items that do not fit are left out. */
static void append(char *list, size_t list_bytes, const char *item)
{
    size_t used = strlen(list), n = strlen(item);

    for (const char *at = list; (at = strstr(at, item)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return;
    if (n > 0 && used + n + 3 <= list_bytes)
        snprintf(list + used, list_bytes - used, "%s%s", used ? ", " : "", item);
}

void models_list_names(const struct models *models, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < models->n_items; i++)
        append(text, text_bytes, acre_model_info(models->items[i])->name);
}

void models_list_sources(const struct models *models, char *text, size_t text_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < models->n_items; i++)
        append(text, text_bytes, acre_model_info(models->items[i])->source);
}

static json_t *describe_decoding(const struct acre_decoding *decoding)
{
    json_t *object = json_object();

#define ADD_INT(name, min, max, help)                                                              \
    json_object_set_new(object, #name, json_integer(decoding->name));
#define ADD_REAL(name, min, max, help)                                                             \
    json_object_set_new(object, #name, json_real((double)decoding->name));
    ACRE_DECODING_OPTIONS(ADD_INT, ADD_REAL)
    return object;
}

json_t *models_describe(const struct acre_model_info *info)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
        "name", info->name, "source", info->source, "target", info->target, "level", info->level,
        "model_type", info->model_type, "compute_type", info->compute_type, "parameters",
        (json_int_t)info->parameters, "packed_bytes", (json_int_t)info->packed_bytes,
        "working_bytes", (json_int_t)info->working_bytes, "d_model", info->d_model,
        "encoder_layers", info->encoder_layers, "decoder_layers", info->decoder_layers,
        "attention_heads", info->attention_heads, "vocab_size", info->vocab_size, "max_area_width",
        info->max_area_width, "max_source_tokens", info->max_source_tokens, "decoding",
        describe_decoding(&info->decoding));
}
