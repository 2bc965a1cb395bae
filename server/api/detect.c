#include "api/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/unicode.h" /* texts are cut between characters */
#include "serve/languages.h"

/* So much tells the language, and takes the loop some tenths of a millisecond where it is none.
 * Before the first word of a page there is its head. */
enum { ENOUGH_BYTES = 2048, ENOUGH_MARKUP_BYTES = 16384 };

/* The beginnings of the texts, a line each. */
static char *join(const struct srv_translate *request, size_t *bytes)
{
    const size_t most = request->format == SRV_TEXT ? ENOUGH_BYTES : ENOUGH_MARKUP_BYTES;
    char *joined = malloc(most);
    size_t used = 0;

    for (size_t i = 0; joined && i < request->n_texts && used + 1 < most; i++) {
        const struct srv_text *text = &request->texts[i];
        size_t n = most - used - 1;

        n = text->bytes < n ? text->bytes : unicode_valid_bytes(text->data, n);
        memcpy(joined + used, text->data, n);
        used += n;
        joined[used++] = '\n';
    }
    *bytes = used;
    return joined;
}

/* Among how many languages is chosen, and which they are. */
static size_t n_candidates(const struct call *call, const struct acre_model *model)
{
    return model ? acre_model_info(model)->n_sources : call->pending.server->models.pairs.n_sources;
}

static const char *candidate(const struct call *call, const struct acre_model *model, size_t i)
{
    return model ? acre_model_info(model)->sources[i].tag
                 : call->pending.server->models.pairs.sources[i];
}

/* The tag of the language that `model` is to translate to: of the call, or of the model that the
 * call names (`named`). "" is any, NULL that the model has it not. */
static const char *find_target(const struct call *call, const struct acre_model *named,
                               const struct acre_model *model)
{
    const struct acre_language *language;

    if (!call->request.target)
        return named ? acre_model_info(named)->target : "";
    language = acre_model_target(model, call->request.target);
    return language ? language->tag : NULL;
}

static void look_for_default(const struct acre_model *model, const char *target,
                             const char **default_code)
{
    const struct acre_model_info *info = acre_model_info(model);

    for (size_t i = 0; i < info->n_sources; i++) {
        const char *source = info->sources[i].tag;

        if ((!*default_code || strcasecmp(source, "en") == 0) &&
            (!target[0] || pairs_allow(info, source, target)))
            *default_code = source;
    }
}

/* A model is asked once for a language by its name, which takes time, and not for each pair. */
static const char *find_default(const struct call *call, const struct acre_model *named)
{
    const struct models *models = &call->pending.server->models;
    const char *default_code = NULL;

    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model *model = models->items[i];
        const char *target = named && named != model ? NULL : find_target(call, named, model);

        if (target)
            look_for_default(model, target, &default_code);
    }
    if (!default_code && n_candidates(call, named) > 0)
        default_code = candidate(call, named, 0); /* what cannot be had is said by others */
    return default_code;
}

void detect_take_default(const struct call *call, const struct acre_model *model,
                         struct detection *detection)
{
    const char *default_code = find_default(call, model);

    detection->n = default_code != NULL;
    detection->items[0].code = default_code;
    detection->items[0].confidence = 0;
}

int detect_texts(const struct call *call, const struct acre_model *model,
                 struct detection *detection, struct srv_error *error)
{
    const size_t n = n_candidates(call, model);
    const char **codes = malloc((n + 1) * sizeof(*codes));
    size_t bytes;
    char *joined = join(&call->request, &bytes);
    int status = 0;

    for (size_t i = 0; codes && i < n; i++)
        codes[i] = candidate(call, model, i);
    if (codes && joined)
        detect_languages(joined, bytes, call->request.format != SRV_TEXT, codes, n, detection);
    else
        status = error_from_engine(error, ACRE_ENOMEM, NULL);
    if (status == 0 && detection->n == 0 && !detect_has_letters(joined, bytes))
        detect_take_default(call, model, detection);
    free(joined);
    free(codes);
    return status;
}

static int refuse(const struct models *models, const struct acre_model *model,
                  const struct detection *detection, struct srv_error *error)
{
    char sources[128];

    models_list_sources(models, model, sources, sizeof(sources));
    if (detection->other[0])
        return error_http(error, 400, "language_not_supported",
                          "auto: expected a language that this %s translates from (%s), "
                          "found %s (%s)",
                          model ? "model" : "server", sources, languages_name(detection->other),
                          detection->other);
    return error_http(error, 400, "language_not_detected",
                      "auto: the language cannot be told from this text; give the source language "
                      "(%s)",
                      sources);
}

static void take(struct call *call, const char *source, int confidence)
{
    call->is_detected = true;
    snprintf(call->source, sizeof(call->source), "%s", source);
    call->request.source = call->source;
    call->confidence = confidence;
}

int detect_source(struct call *call, const struct acre_model *model, struct srv_error *error)
{
    struct detection detection;

    if (detect_texts(call, model, &detection, error) != 0)
        return -1;
    if (detection.n == 0)
        return refuse(&call->pending.server->models, model, &detection, error);
    take(call, detection.items[0].code, detection.items[0].confidence);
    return 0;
}

int detect_given(struct call *call, const char *source, struct srv_error *error)
{
    struct detection detection;
    int confidence = 0;

    if (detect_texts(call, NULL, &detection, error) != 0)
        return -1;
    for (size_t i = 0; i < detection.n; i++)
        if (strcmp(detection.items[i].code, source) == 0)
            confidence = detection.items[i].confidence;
    take(call, source, confidence);
    return 0;
}
