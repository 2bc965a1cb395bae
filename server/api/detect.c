/* Happy path: detect_look() guesses at each of several texts; detect_source() looks at all as one,
 * and settles what each is in. Failure modes: see refuse(). */
#include "api/detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "common/language.h"
#include "common/unicode.h" /* texts are cut between characters */
#include "serve/languages.h"

/* So much tells the language, and takes the loop some tenths of a millisecond where it is none.
 * Before the first word of a page there is its head. */
enum { ENOUGH_BYTES = 2048, ENOUGH_MARKUP_BYTES = 16384 };

/* Of words. Fewer tell nothing beside other texts: CLD2 is sure that "iPhone 15 Pro Max" is Czech,
 * and "Anna Maria Garcia Lopez" Norwegian. */
enum { TELLING_BYTES = 40 };

static size_t most_bytes(const struct srv_translate *request)
{
    return request->format == SRV_TEXT ? ENOUGH_BYTES : ENOUGH_MARKUP_BYTES;
}

static size_t first_bytes(const struct srv_text *text, size_t most)
{
    return text->bytes < most ? text->bytes : unicode_valid_bytes(text->data, most);
}

/* The beginnings of the texts, a line each. */
static char *join(const struct srv_translate *request, size_t *bytes)
{
    const size_t most = most_bytes(request);
    char *joined = malloc(most);
    size_t used = 0;

    for (size_t i = 0; joined && i < request->n_texts && used + 1 < most; i++) {
        const struct srv_text *text = &request->texts[i];
        const size_t n = first_bytes(text, most - used - 1);

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

/* The texts as one, among codes[n]. */
static int detect_joined(const struct call *call, const struct acre_model *model,
                         const char *const *codes, size_t n, struct detection *detection,
                         struct srv_error *error)
{
    size_t bytes;
    char *joined = join(&call->request, &bytes);

    if (!joined)
        return error_no_memory(error);
    detect_languages(joined, bytes, call->request.format != SRV_TEXT, codes, n, detection);
    if (detection->n == 0 && !detect_has_letters(joined, bytes))
        detect_take_default(call, model, detection);
    free(joined);
    return 0;
}

int detect_texts(const struct call *call, struct detection *detection, struct srv_error *error)
{
    const struct pairs *pairs = &call->pending.server->models.pairs;
    const char **codes = malloc((pairs->n_sources + pairs->n_targets + 1) * sizeof(*codes));
    size_t n = pairs->n_sources;
    int status;

    if (!codes)
        return error_no_memory(error);
    memcpy(codes, pairs->sources, n * sizeof(*codes));
    for (size_t i = 0; i < pairs->n_targets; i++)
        if (!pairs_have_source(pairs, pairs->targets[i]))
            codes[n++] = pairs->targets[i];
    status = detect_joined(call, NULL, codes, n, detection, error);
    free(codes);
    return status;
}

/* ---- Each text ------------------------------------------------------------------------------- */

bool detect_must_look(const struct call *call)
{
    const char *source = call->request.source;

    return call->request.n_texts > 1 && source && strcasecmp(source, "auto") == 0;
}

/* Any thread. */
void detect_look(struct call *call)
{
    const struct srv_translate *request = &call->request;

    call->found = calloc(request->n_texts, sizeof(call->found[0]));
    for (size_t i = 0; call->found && i < request->n_texts; i++)
        detect_guess(request->texts[i].data, first_bytes(&request->texts[i], most_bytes(request)),
                     request->format != SRV_TEXT, &call->found[i].guess);
}

struct search {
    const struct call *call;
    const struct acre_model *model; /* that the call names, or NULL */
    const char *given;              /* the one language that it reads, or NULL */
    const char *target;             /* its tag, or ""; NULL: nobody asked for it yet */
    const char **codes;             /* owned, [n_codes]: what a text may be in */
    size_t n_codes;
    struct detection whole;   /* what all texts look like as one */
    bool is_whole_translated; /* or it is kept, or refused */
    struct detection assumed; /* instead, where a text says nothing itself */
};

static int begin_search(struct search *search, const struct call *call,
                        const struct acre_model *model, struct srv_error *error)
{
    const struct acre_model_info *info = model ? acre_model_info(model) : NULL;
    const struct acre_model *among;

    *search = (struct search){.call = call, .model = model};
    search->given = info && info->n_sources == 1 ? info->source : NULL;
    among = search->given ? NULL : model;
    search->n_codes = n_candidates(call, among);
    search->codes = malloc((search->n_codes + 1) * sizeof(*search->codes));
    if (!search->codes)
        return error_no_memory(error);
    for (size_t i = 0; i < search->n_codes; i++)
        search->codes[i] = candidate(call, among, i);
    return 0;
}

static const char *target_of(struct search *search)
{
    const struct models *models = &search->call->pending.server->models;
    const char *tag = NULL;

    if (search->model && !search->target)
        tag = find_target(search->call, search->model, search->model);
    for (size_t i = 0; !search->model && !search->target && !tag && i < models->n_items; i++)
        tag = find_target(search->call, NULL, models->items[i]);
    if (!search->target)
        search->target = tag ? tag : "";
    return search->target;
}

static bool is_translated(struct search *search, const char *source)
{
    const char *target = target_of(search);

    if (!search->model)
        return pairs_have_tags(&search->call->pending.server->models.pairs, source, target);
    return (!search->given || strcmp(search->given, source) == 0) &&
           pairs_allow(acre_model_info(search->model), source, target);
}

/* As LibreTranslate has it, and clients that send all they have. But models may translate from one
 * script or region to another. */
static bool is_kept(struct search *search, const struct detection *detection)
{
    const char *certain = detection->certain.code;

    return certain[0] && language_is_same(certain, target_of(search)) &&
           !(detection->n > 0 && language_is_same(detection->items[0].code, certain) &&
             is_translated(search, detection->items[0].code));
}

static void take(struct found *found, const char *code, int confidence)
{
    snprintf(found->code, sizeof(found->code), "%s", code);
    found->confidence = confidence;
}

/* Leaves the code alone where it cannot be told. */
static void settle(struct search *search, const struct detection *detection, struct found *found)
{
    found->is_kept = is_kept(search, detection);
    if (found->is_kept) {
        take(found, search->target, detection->certain.confidence);
    } else if (search->given) {
        take(found, search->given, 0);
        for (size_t i = 0; i < detection->n; i++)
            if (strcmp(detection->items[i].code, search->given) == 0)
                found->confidence = detection->items[i].confidence;
    } else if (detection->n > 0) {
        take(found, detection->items[0].code, detection->items[0].confidence);
    }
}

/* `text` is the one that is at fault by itself; NULL: all are. */
static int refuse(const struct search *search, const struct detection *detection,
                  const struct found *text, struct srv_error *error)
{
    const struct call *call = search->call;
    const char *certain = detection->certain.code;
    char sources[128], which[48] = "";

    models_list_sources(&call->pending.server->models, search->model, sources, sizeof(sources));
    if (text)
        snprintf(which, sizeof(which), "%s[%zu]: ", call->texts_field,
                 (size_t)(text - call->found));
    if (certain[0])
        return error_http(error, 400, "language_not_supported",
                          "auto: %sexpected a language that this %s translates from (%s), "
                          "found %s (%s)",
                          which, search->model ? "model" : "server", sources,
                          languages_name(certain), certain);
    return error_http(error, 400, "language_not_detected",
                      "auto: %sthe language cannot be told from this text; give the source "
                      "language (%s)",
                      which, sources);
}

/* Once for all texts. */
static int look_at_whole(struct search *search, struct srv_error *error)
{
    const struct call *call = search->call;
    struct found all = {.code = ""};

    if (detect_joined(call, search->model, search->codes, search->n_codes, &search->whole, error) !=
        0)
        return -1;
    if (call->request.n_texts == 1)
        return 0;
    settle(search, &search->whole, &all);
    search->is_whole_translated = !all.is_kept && is_translated(search, all.code);
    search->assumed.certain.code = "";
    if (!search->is_whole_translated)
        detect_take_default(call, search->model, &search->assumed);
    return 0;
}

/* As if it were the only thing that is known. */
static void settle_own(struct search *search, struct found *found)
{
    struct detection own;

    detect_judge(&found->guess, search->codes, search->n_codes, &own);
    own.certain.code = ""; /* it is too short for that */
    if (own.n == 0 || !is_translated(search, own.items[0].code))
        own = search->assumed;
    settle(search, &own, found);
}

static bool is_wordless(const struct srv_text *text)
{
    return !detect_has_letters(text->data, first_bytes(text, ENOUGH_BYTES));
}

/* From all texts. One that does not look like them itself gets no language's confidence, and is
 * translated all the same where they are not. */
static void borrow(struct search *search, struct found *found)
{
    const struct srv_text *text = &search->call->request.texts[found - search->call->found];
    const struct detect_guess *guess = &found->guess;
    const char *code;

    settle(search, &search->whole, found);
    code = found->code[0] ? found->code : search->whole.certain.code;
    if (language_is_same(guess->codes[0], code))
        found->confidence = guess->percents[0] / (guess->is_reliable ? 1 : 2);
    else if (code[0] && !search->is_whole_translated && !(found->is_kept && is_wordless(text)))
        settle_own(search, found);
    else
        found->confidence = 0;
}

static int settle_text(struct search *search, struct found *found, struct srv_error *error)
{
    struct detection own;

    if (search->call->request.n_texts == 1) {
        settle(search, &search->whole, found);
    } else if (found->guess.is_reliable && found->guess.text_bytes >= TELLING_BYTES) {
        detect_judge(&found->guess, search->codes, search->n_codes, &own);
        settle(search, &own, found);
        return found->code[0] ? 0 : refuse(search, &own, found, error);
    } else {
        borrow(search, found);
    }
    return found->code[0] ? 0 : refuse(search, &search->whole, NULL, error);
}

int detect_source(struct call *call, const struct acre_model *model, struct srv_error *error)
{
    struct search search;
    int status;

    if (!call->found && !detect_must_look(call))
        call->found = calloc(call->request.n_texts, sizeof(call->found[0]));
    if (!call->found)
        return error_no_memory(error);
    if (begin_search(&search, call, model, error) != 0)
        return -1;
    status = look_at_whole(&search, error);
    for (size_t i = 0; status == 0 && i < call->request.n_texts; i++)
        status = settle_text(&search, &call->found[i], error);
    call->is_detected = status == 0;
    free(search.codes);
    return status;
}
