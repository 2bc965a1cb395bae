/* Happy path: frame_init() finds the tokens of the languages, and of a translation that is only to
 * be scored; frame_fill() puts them around each sentence of a document.
 *
 * Failure modes: a language that the model has not, or none where one is needed; a translation of
 * several sentences, or longer than the model takes; no memory. */
#include "frame.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "text/utf8.h"

/* ---- Languages ------------------------------------------------------------------------------- */

/* Some of the names, for messages. */
static void list_names(const struct language_names *names, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->n; i++) {
        size_t n = strlen(names->list[i].tag) + 2;
        if (used + n + 4 >= room) {
            strcpy(text + used, ", ...");
            return;
        }
        used += (size_t)sprintf(text + used, "%s%s", i > 0 ? ", " : "", names->list[i].tag);
    }
}

/* *language is NULL if nothing is asked for, and the model has no default or needs none. */
static int find_language(const struct language_names *names, const char *field, const char *name,
                         const struct acre_language *default_language,
                         const struct acre_language **language, struct acre_err *err)
{
    char some[128];
    *language = name ? language_names_find(names, name) : default_language;
    bool is_missing = !*language && (name || names->n > 1);
    if (!is_missing)
        return 0;
    list_names(names, some, sizeof(some));
    return err_set(err, ACRE_EOPTION, "%s: expected a language of the model (%s), found %.40s",
                   field, names->n > 0 ? some : "it does not tell", name ? name : "none");
}

static int32_t token_of(const struct acre_model *model, const struct language_names *names,
                        const struct acre_language *language)
{
    const struct language_tokens *tokens = tokenizer_languages(model->tokenizer);
    return tokens->n > 0 && language ? tokens->items[language - names->list].id : -1;
}

static int add_token(struct frame *frame, int32_t token, struct acre_err *err)
{
    if (token < 0)
        return 0;
    frame->prefix.n = frame->prefix.n_free = 1;
    return tokens_append(&frame->translation, token)
               ? err_set(err, ACRE_ENOMEM, "no memory for a request")
               : 0;
}

static int set_languages(struct frame *frame, const struct acre_model *model,
                         const struct acre_request *request, struct acre_err *err)
{
    const struct acre_language *source, *target;
    int status =
        find_language(&model->sources, "source", request->source, model->source, &source, err);
    if (status == 0)
        status =
            find_language(&model->targets, "target", request->target, model->target, &target, err);
    if (status != 0)
        return status;
    frame->language = source ? source->tag : "";
    frame->first_source = token_of(model, &model->sources, source);
    frame->is_last = tokenizer_is_language_last(model->tokenizer);
    int32_t first = token_of(model, &model->targets, target);
    return add_token(frame, first >= 0 ? first : model->config.first_token, err);
}

/* ---- Translations that are scored ------------------------------------------------------------ */

static int check_translation(const struct frame *frame, const struct acre_model *model,
                             struct acre_err *err)
{
    int most = model->config.max_positions - 1; /* the start token has a position too */
    if (frame->translation.n > (size_t)most)
        return err_set(err, ACRE_EINPUT, "translation: expected at most %d tokens, found %zu", most,
                       frame->translation.n);
    for (size_t i = 0; i < frame->translation.n; i++)
        if (frame->translation.ids[i] >= model->config.decoder_vocab_size)
            return err_set(err, ACRE_EINPUT,
                           "translation: token %zu: expected one of the %d that the model can "
                           "write, found number %d of its vocabulary",
                           i, model->config.decoder_vocab_size, (int)frame->translation.ids[i]);
    return 0;
}

/* Tokens may have the language's in front, as translations have. */
static int add_translation(struct frame *frame, const struct acre_model *model,
                           const struct acre_request *request, struct acre_err *err)
{
    struct tokens *tokens = &frame->translation;
    size_t n = tokens->n;
    int status =
        utf8_check_text(request->translation, request->translation_bytes, "translation: ", err);
    if (status == 0)
        status =
            tokenizer_encode_target(model->tokenizer, request->translation,
                                    request->translation_bytes, request->is_tokens, tokens, err);
    if (status != 0)
        return status;
    if (n == 1 && tokens->n > 1 && request->is_tokens && tokens->ids[0] == tokens->ids[1])
        memmove(tokens->ids + 1, tokens->ids + 2, (--tokens->n - 1) * sizeof(*tokens->ids));
    status = check_translation(frame, model, err);
    if (status == 0) {
        frame->prefix.n = (int)tokens->n;
        frame->prefix.is_whole = true;
    }
    return status;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

int frame_init(struct frame *frame, const struct acre_model *model,
               const struct acre_request *request, struct acre_err *err)
{
    *frame = (struct frame){.first_source = -1};
    int status = set_languages(frame, model, request, err);
    if (status == 0 && request->translation)
        status = add_translation(frame, model, request, err);
    return status;
}

void frame_fini(struct frame *frame)
{
    mem_free(frame->sources);
    tokens_fini(&frame->translation);
}

/* The language's token, the sentence; or the sentence, the end token, and then the language's. */
static int32_t *put_source(const struct frame *frame, const struct tokens *source,
                           int32_t end_token, int32_t *place)
{
    if (!frame->is_last)
        *place++ = frame->first_source;
    if (source->n > 0)
        memcpy(place, source->ids, source->n * sizeof(*place));
    place += source->n;
    if (frame->is_last)
        *place++ = end_token;
    return place;
}

static int put_sources(struct frame *frame, const struct document *document, int32_t end_token,
                       struct sentence *sentences)
{
    size_t n_tokens = 0;
    for (size_t s = 0; s < document->n_sentences; s++)
        n_tokens += document->sentences[s].source.n + 1;
    frame->sources = mem_alloc(n_tokens * sizeof(*frame->sources));
    if (!frame->sources)
        return ACRE_ENOMEM;
    int32_t *place = frame->sources;
    for (size_t s = 0; s < document->n_sentences; s++) {
        struct sentence *sentence = &sentences[s];
        sentence->source = place;
        place = put_source(frame, &document->sentences[s].source, end_token, place);
        sentence->n_source++;
        sentence->first_item += !frame->is_last;
        sentence->end_item += !frame->is_last;
        sentence->last = frame->is_last ? frame->first_source : 0;
    }
    return 0;
}

int frame_fill(struct frame *frame, const struct document *document, int32_t end_token,
               struct sentence *sentences, struct acre_err *err)
{
    for (size_t s = 0; s < document->n_sentences; s++) {
        sentences[s].source = document->sentences[s].source.ids;
        sentences[s].n_source = sentences[s].end_item = document->sentences[s].source.n;
        sentences[s].first_item = document->sentences[s].n_before;
        sentences[s].translation = frame->translation.ids;
        sentences[s].prefix = frame->prefix;
    }
    if (frame->first_source < 0)
        return 0;
    return put_sources(frame, document, end_token, sentences)
               ? err_set(err, ACRE_ENOMEM, "no memory for the tokens of a text")
               : 0;
}
