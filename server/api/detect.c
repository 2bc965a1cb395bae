#include "api/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/unicode.h" /* texts are cut between characters */
#include "serve/languages.h"

/* So much tells the language, and takes the loop a millisecond. */
enum { ENOUGH_BYTES = 16384 };

/* The beginnings of the texts, a line each. */
static char *join(const struct srv_translate *request, size_t *bytes)
{
    char *joined = malloc(ENOUGH_BYTES);
    size_t used = 0;

    for (size_t i = 0; joined && i < request->n_texts && used + 1 < ENOUGH_BYTES; i++) {
        const struct srv_text *text = &request->texts[i];
        size_t n = ENOUGH_BYTES - used - 1;

        n = text->bytes < n ? text->bytes : unicode_valid_bytes(text->data, n);
        memcpy(joined + used, text->data, n);
        used += n;
        joined[used++] = '\n';
    }
    *bytes = used;
    return joined;
}

int detect_texts(const struct call *call, struct detection *detection, struct srv_error *error)
{
    const struct pairs *pairs = &call->server->models.pairs;
    size_t bytes;
    char *joined = join(&call->request, &bytes);

    if (!joined)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    detect_languages(joined, bytes, call->request.format != SRV_TEXT, pairs->sources,
                     pairs->n_sources, detection);
    if (detection->n == 0 && !detect_has_letters(joined, bytes) && pairs->n_sources > 0) {
        detection->items[0].code = pairs->sources[0];
        detection->items[0].confidence = 0;
        detection->n = 1;
    }
    free(joined);
    return 0;
}

static int refuse(const struct models *models, const struct detection *detection,
                  struct srv_error *error)
{
    char sources[128];

    models_list_sources(models, sources, sizeof(sources));
    if (detection->other[0])
        return error_reply(error, 400, "language_not_supported",
                           "auto: expected a language that this server translates from (%s), "
                           "found %s (%s)",
                           sources, languages_name(detection->other), detection->other);
    return error_reply(error, 400, "language_not_detected",
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

int detect_source(struct call *call, struct srv_error *error)
{
    struct detection detection;

    if (detect_texts(call, &detection, error) != 0)
        return -1;
    if (detection.n == 0)
        return refuse(&call->server->models, &detection, error);
    take(call, detection.items[0].code, detection.items[0].confidence);
    return 0;
}

int detect_given(struct call *call, const char *source, struct srv_error *error)
{
    struct detection detection;
    int confidence = 0;

    if (detect_texts(call, &detection, error) != 0)
        return -1;
    for (size_t i = 0; i < detection.n; i++)
        if (strcmp(detection.items[i].code, source) == 0)
            confidence = detection.items[i].confidence;
    take(call, source, confidence);
    return 0;
}
