/* models.h - the models a server has loaded, and which of them answers a request.
 *
 * In the order of their names. A reload puts a new list in the place of the old one, between two
 * events of the loop; a model that it leaves out is closed when no translate uses it. So the loop
 * thread may use what is listed until its handler returns, and longer while a translate of that
 * model is not closed. The engine owns the models. Levels compare without case.
 */
#ifndef SERVER_SERVE_MODELS_H
#define SERVER_SERVE_MODELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "serve/pairs.h"

/* A reply that is the same for everybody, kept once somebody has asked. */
struct models_text {
    char *text; /* owned; NULL: not made yet */
    size_t bytes;
};

struct models {
    struct acre_model **items; /* owned array, sorted by name */
    uint64_t *states;          /* owned array: of the files each was loaded from */
    size_t n_items;
    struct pairs pairs;
    struct models_text languages, glossary_pairs;
};

/* Loads `folder` if it is a model directory, else every model directory in it. With `skips_bad`
 * those that cannot be loaded are left out, with a line in the log, unless none can. Models of
 * `before`, which may be NULL, are kept whose files have not changed. Any thread. */
int models_load(struct models *models, struct acre_engine *engine, const char *folder,
                bool skips_bad, const struct models *before, struct acre_err *err);
void models_fini(struct models *models);

/* Whether it is one of them. */
bool models_have(const struct models *models, const struct acre_model *model);

/* NULL if there is none. */
struct acre_model *models_find_name(const struct models *models, const char *name);

/* Whether a model translates from one language to another, whatever they are called. */
bool models_translate(const struct acre_model *model, const char *source, const char *target);

enum models_match {
    MODELS_FOUND,
    MODELS_NO_SOURCE, /* no model translates from or to `source` */
    MODELS_NO_TARGET, /* likewise `target` */
    MODELS_NO_PAIR,
    MODELS_NO_LEVEL /* the pair exists on another level */
};

/* The model of a pair, whatever the languages are called; of several the one for fewest languages.
 * `level` NULL is "token" if the pair has it, else what there is. */
enum models_match models_find_pair(const struct models *models, const char *source,
                                   const char *target, const char *level,
                                   struct acre_model **model);

/* Lists for error texts: "en-de-token, en-fr-token", and "en, sv" of one model or, with NULL, of
 * all. */
void models_list_names(const struct models *models, char *text, size_t text_bytes);
void models_list_sources(const struct models *models, const struct acre_model *model, char *text,
                         size_t text_bytes);

/* A copy of `kept`, one of those of `models`; `make` makes it, where it is not there yet: of models
 * of many languages it is large. NULL without memory. The caller owns it. */
char *models_copy_text(const struct models *models, struct models_text *kept,
                       json_t *(*make)(const struct models *models), size_t *bytes);

/* What GET /models tells about one model. NULL without memory. The caller owns it. */
json_t *models_describe(const struct acre_model_info *info);

#endif
