/* Finds model directories and opens them, several at once.
 *
 * Happy path: open_found() -> find_each() -> open_all(), where threads take one directory after the
 * other; what has not changed since the last load is kept -> take_models().
 * Failure modes: the first directory that cannot be opened is the one that is told; what was opened
 * beside it is closed again, unless bad ones are to be left out. */
#include "serve/models.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/hash.h"
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
    uint64_t state; /* of its files */
    struct acre_model *model;
    int rc;
    struct acre_err err;
};

/* Openings that several threads take one after the other. */
struct openings {
    struct acre_engine *engine;
    const struct models *before; /* or NULL */
    struct opening *items;       /* owned */
    size_t n_items;
    atomic_size_t next;
};

static uint64_t mix_text(uint64_t state, const char *text)
{
    for (; *text; text++)
        state = hash_number(state, (unsigned char)*text);
    return hash_number(state, 0);
}

/* A number that changes when a file of the directory does, or the directory's place. Links to one
 * directory have numbers of their own: each is a model. 0: unknown. */
static uint64_t state_of(const char *path)
{
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    char file[PATH_MAX], *real = realpath(path, NULL);
    uint64_t state = mix_text(mix_text(1, path), real ? real : "");
    struct acre_err ignored;

    free(real);
    for (int i = 0; i < n; i++) {
        struct stat found;

        if (join(file, path, entries[i]->d_name, &ignored) == 0 && stat(file, &found) == 0 &&
            S_ISREG(found.st_mode)) {
            state = hash_number(mix_text(state, entries[i]->d_name), found.st_ino);
            state = hash_number(hash_number(state, found.st_dev), (uint64_t)found.st_size);
            state = hash_number(hash_number(state, (uint64_t)found.st_mtim.tv_sec),
                                (uint64_t)found.st_mtim.tv_nsec);
            state = hash_number(hash_number(state, (uint64_t)found.st_ctim.tv_sec),
                                (uint64_t)found.st_ctim.tv_nsec);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return n < 0 ? 0 : state;
}

static struct acre_model *find_state(const struct models *models, uint64_t state)
{
    for (size_t i = 0; models && state && i < models->n_items; i++)
        if (models->states[i] == state)
            return models->items[i];
    return NULL;
}

/* Its state is taken before it is read: what changes meanwhile is noticed by the next reload. */
static void open_one(const struct openings *openings, struct opening *opening)
{
    opening->state = state_of(opening->path);
    opening->model = find_state(openings->before, opening->state);
    if (!opening->model)
        opening->rc =
            acre_model_open(openings->engine, opening->path, &opening->model, &opening->err);
}

static void *open_next(void *user)
{
    struct openings *openings = user;
    size_t i;

    while ((i = atomic_fetch_add(&openings->next, 1)) < openings->n_items)
        open_one(openings, &openings->items[i]);
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

static int make_room(struct models *models, size_t n, struct acre_err *err)
{
    models->items = calloc(n + 1, sizeof(models->items[0]));
    models->states = calloc(n + 1, sizeof(models->states[0]));
    return models->items && models->states ? 0 : error_set_no_memory(err);
}

/* Takes what was opened, in order; the first error is the one that is told. */
static int take_models(struct models *models, const struct openings *openings, bool skips_bad,
                       struct acre_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < openings->n_items; i++) {
        const struct opening *opening = &openings->items[i];

        if (opening->rc == 0) {
            models->states[models->n_items] = opening->state;
            models->items[models->n_items++] = opening->model;
            continue;
        }
        if (rc == 0)
            *err = opening->err;
        rc = opening->rc;
        if (skips_bad)
            log_warning("left out: %s", opening->err.text);
    }
    return rc == 0 || (skips_bad && models->n_items > 0) ? 0 : err->code;
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

/* Opens what is in `openings`, which it frees. */
static int open_and_take(struct models *models, struct openings *openings, bool skips_bad,
                         struct acre_err *err)
{
    int rc = make_room(models, openings->n_items, err);

    if (rc == 0) {
        open_all(openings);
        rc = take_models(models, openings, skips_bad, err);
    }
    free(openings->items);
    return rc;
}

static int open_folder_itself(struct models *models, struct openings *openings, const char *folder,
                              struct acre_err *err)
{
    /* is_model() has seen that a longer path fits. */
    snprintf(openings->items[0].path, PATH_MAX, "%s", folder);
    openings->n_items = 1;
    return open_and_take(models, openings, false, err);
}

static int open_subfolders(struct models *models, struct openings *openings, const char *folder,
                           struct dirent **entries, int n_entries, bool skips_bad,
                           struct acre_err *err)
{
    int rc = find_each(openings, folder, entries, n_entries, err);

    if (rc != 0) {
        free(openings->items);
        return rc;
    }
    return open_and_take(models, openings, skips_bad, err);
}

/* The first of them is the one models_find_pair() finds. */
static void warn_of_doubles(const struct models *models)
{
    for (size_t i = 1; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);
        struct acre_model *model = NULL;
        const char *name;

        if (info->n_sources != 1 || info->n_targets != 1)
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

static int open_found(struct models *models, struct openings *openings, const char *folder,
                      bool skips_bad, struct acre_err *err)
{
    struct dirent **entries = NULL;
    const int is_one = is_model(folder, err);
    int n_entries, rc;

    if (is_one < 0)
        return is_one;
    n_entries = is_one ? 1 : scandir(folder, &entries, NULL, alphasort);
    if (n_entries < 0)
        return error_set(err, ACRE_EIO, "%s: expected a folder of models, found: %s", folder,
                         strerror(errno));
    openings->items = calloc((size_t)n_entries + 1, sizeof(openings->items[0]));
    if (!openings->items)
        rc = error_set_no_memory(err);
    else if (is_one)
        rc = open_folder_itself(models, openings, folder, err);
    else
        rc = open_subfolders(models, openings, folder, entries, n_entries, skips_bad, err);
    for (int i = 0; entries && i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return rc;
}

int models_load(struct models *models, struct acre_engine *engine, const char *folder,
                bool skips_bad, const struct models *before, struct acre_err *err)
{
    struct openings openings = {.engine = engine, .before = before};
    int rc;

    *models = (struct models){.items = NULL};
    rc = open_found(models, &openings, folder, skips_bad, err);
    if (rc == 0 && models->n_items == 0)
        rc = error_set(err, ACRE_EMODEL, "%s: expected a subfolder with a config.json, found none",
                       folder);
    if (rc == 0 && pairs_init(&models->pairs, models->items, models->n_items) != 0)
        rc = error_set_no_memory(err);
    if (rc == 0) {
        warn_of_doubles(models);
        return 0;
    }
    for (size_t i = 0; before && i < models->n_items; i++)
        if (!models_have(before, models->items[i]))
            acre_model_close(models->items[i]);
    models_fini(models);
    return rc;
}
