/* pairs.h - which languages a server's models translate from and to, each once.
 *
 * By BCP 47 tag, in the order of the models. Made when models are loaded, so that to list them
 * on the loop thread is to walk an array. Borrows the tags from the models.
 */
#ifndef SERVER_SERVE_PAIRS_H
#define SERVER_SERVE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

struct pairs {
    const char **sources, **targets; /* owned arrays */
    size_t n_sources, n_targets;
    bool *are_pairs; /* owned array, [n_sources][n_targets] */
};

/* 0 or ACRE_ENOMEM; pairs_fini() either way. */
int pairs_init(struct pairs *pairs, struct acre_model *const *models, size_t n_models);
void pairs_fini(struct pairs *pairs);

/* Whether a model translates from sources[source] to targets[target]. */
static inline bool pairs_have(const struct pairs *pairs, size_t source, size_t target)
{
    return pairs->are_pairs[source * pairs->n_targets + target];
}

/* Models of many languages do not translate one to itself. By tags of the model. */
bool pairs_allow(const struct acre_model_info *info, const char *source, const char *target);

/* Whether a model translates from one to the other, by their tags. */
bool pairs_have_tags(const struct pairs *pairs, const char *source, const char *target);

/* The pair that is chosen where nobody says one: from English, or the first source, to the first
 * target there is. "" without models. */
void pairs_default(const struct pairs *pairs, const char **source, const char **target);

/* Whether there is such a source, or target. */
bool pairs_have_source(const struct pairs *pairs, const char *tag);
bool pairs_have_target(const struct pairs *pairs, const char *tag);

#endif
