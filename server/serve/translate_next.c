/* Happy path: translate_next() gives the sentences of each text in order; those of prose are
 * rendered when their turn comes, in the pool unless the text is short.
 *
 * Failure modes: the first text's error ends it; a job that was cancelled likewise. */
#include "serve/translate_internal.h"

/* Pool thread. */
static void render_one(void *user)
{
    struct translate *translate = user;

    translate->status =
        sentences_render(&translate->items[translate->n_streamed].sentences, &translate->err);
}

/* The last job may have ended meanwhile, and with it another item may be rendered. If the
 * owner left meanwhile, the jobs are still there. */
static void on_next_rendered(void *user)
{
    struct translate *translate = user;

    translate_end_turn(translate);
    if (translate->is_closed)
        submit_cancel(translate);
    if (translate->is_closed || (!translate->is_told && translate_is_idle(translate)))
        translate_settle(translate);
    else
        translate->done(translate->user);
}

/* Whether it is done. */
static bool render_sentence_of(struct translate *translate, struct item *item)
{
    if (item->bytes <= SHORT_BYTES) {
        translate->status = sentences_render(&item->sentences, &translate->err);
        return true;
    }
    translate_wait_for_turn(translate, &translate->translator->working, render_one,
                            on_next_rendered);
    return false;
}

static void begin_item(struct item *item)
{
    if (item->sentences.text.data || item->sentences.is_through)
        return;
    item->sentences.text = (struct srv_text){item->text, item->bytes};
    item->sentences.job = item->job;
    item->sentences.prose = item->is_prose ? &item->prose : NULL;
    item->sentences.is_traced = item->translate->is_traced;
}

/* Of a document that is rendered in one. */
static enum sentences_next next_whole(struct item *item, struct srv_sentence *sentence,
                                      struct acre_err *err)
{
    const struct acre_result *result = item->job ? acre_job_result(item->job) : NULL;

    if (item->sentences.is_through)
        return SENTENCES_END;
    if (!item->translate->is_told)
        return SENTENCES_LATER;
    if (result && result->status != 0) {
        *err = result->err;
        return SENTENCES_FAILED;
    }
    *sentence = (struct srv_sentence){.number = 0};
    if (result) {
        sentence->part.normalized_score = result->hypotheses[0].normalized_score;
        sentence->part.is_truncated = result->hypotheses[0].is_truncated;
    }
    item->sentences.is_through = true;
    return SENTENCES_ONE;
}

enum translate_next translate_next(struct translate *translate, size_t *index,
                                   struct srv_sentence *sentence, struct srv_error *error)
{
    struct acre_err err;

    if (translate->is_submitting)
        return TRANSLATE_LATER;
    while (translate->status == 0 && translate->n_streamed < translate->n_items) {
        struct item *item = &translate->items[translate->n_streamed];

        *index = translate->n_streamed;
        begin_item(item);
        switch (item_is_whole(item) ? next_whole(item, sentence, &err)
                                    : sentences_next(&item->sentences, sentence, &err)) {
        case SENTENCES_FAILED:
            return translate_explain(translate, *index, err.code, &err, error);
        case SENTENCES_ONE:
            return TRANSLATE_SENTENCE;
        case SENTENCES_LATER:
            return TRANSLATE_LATER;
        case SENTENCES_RENDER:
            if (!render_sentence_of(translate, item))
                return TRANSLATE_LATER;
            break;
        case SENTENCES_END:
            translate->n_streamed++;
            break;
        }
    }
    if (translate->status != 0)
        return translate_explain(translate, translate->next, translate->status, &translate->err,
                                 error);
    return TRANSLATE_END;
}
