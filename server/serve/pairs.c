#include "serve/pairs.h"

#include <stdlib.h>
#include <strings.h>

static size_t find(const char *const *tags, size_t n, const char *tag)
{
    size_t i = 0;

    while (i < n && strcasecmp(tags[i], tag) != 0)
        i++;
    return i;
}

static void add_all(const char **tags, size_t *n_tags, const struct acre_language *languages,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (find(tags, *n_tags, languages[i].tag) == *n_tags)
            tags[(*n_tags)++] = languages[i].tag;
}

bool pairs_allow(const struct acre_model_info *info, const char *source, const char *target)
{
    return info->n_targets == 1 || strcasecmp(source, target) != 0;
}

static void add_pairs(struct pairs *pairs, const struct acre_model_info *info)
{
    for (size_t s = 0; s < info->n_sources; s++) {
        const char *source = info->sources[s].tag;
        bool *row =
            pairs->are_pairs + find(pairs->sources, pairs->n_sources, source) * pairs->n_targets;

        for (size_t t = 0; t < info->n_targets; t++)
            if (pairs_allow(info, source, info->targets[t].tag))
                row[find(pairs->targets, pairs->n_targets, info->targets[t].tag)] = true;
    }
}

int pairs_init(struct pairs *pairs, struct acre_model *const *models, size_t n_models)
{
    size_t n_sources = 0, n_targets = 0;

    *pairs = (struct pairs){.n_sources = 0};
    for (size_t i = 0; i < n_models; i++) {
        n_sources += acre_model_info(models[i])->n_sources;
        n_targets += acre_model_info(models[i])->n_targets;
    }
    pairs->sources = calloc(n_sources + 1, sizeof(pairs->sources[0]));
    pairs->targets = calloc(n_targets + 1, sizeof(pairs->targets[0]));
    if (!pairs->sources || !pairs->targets)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < n_models; i++) {
        const struct acre_model_info *info = acre_model_info(models[i]);

        add_all(pairs->sources, &pairs->n_sources, info->sources, info->n_sources);
        add_all(pairs->targets, &pairs->n_targets, info->targets, info->n_targets);
    }
    pairs->are_pairs = calloc(pairs->n_sources * pairs->n_targets + 1, sizeof(bool));
    if (!pairs->are_pairs)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < n_models; i++)
        add_pairs(pairs, acre_model_info(models[i]));
    return 0;
}

void pairs_fini(struct pairs *pairs)
{
    free(pairs->sources);
    free(pairs->targets);
    free(pairs->are_pairs);
    *pairs = (struct pairs){.n_sources = 0};
}

void pairs_default(const struct pairs *pairs, const char **source, const char **target)
{
    size_t s = find(pairs->sources, pairs->n_sources, "en"), t = 0;

    s = s < pairs->n_sources ? s : 0;
    *source = *target = "";
    if (pairs->n_sources == 0)
        return;
    *source = pairs->sources[s];
    while (t < pairs->n_targets && !pairs_have(pairs, s, t))
        t++;
    if (t < pairs->n_targets)
        *target = pairs->targets[t];
}

bool pairs_have_source(const struct pairs *pairs, const char *tag)
{
    return find(pairs->sources, pairs->n_sources, tag) < pairs->n_sources;
}

bool pairs_have_target(const struct pairs *pairs, const char *tag)
{
    return find(pairs->targets, pairs->n_targets, tag) < pairs->n_targets;
}

bool pairs_have_tags(const struct pairs *pairs, const char *source, const char *target)
{
    const size_t s = find(pairs->sources, pairs->n_sources, source);
    const size_t t = find(pairs->targets, pairs->n_targets, target);

    return s < pairs->n_sources && t < pairs->n_targets && pairs_have(pairs, s, t);
}
