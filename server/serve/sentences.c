#include "serve/sentences.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static bool is_last(const struct acre_sentence *sentence)
{
    return sentence->number + 1 >= sentence->n_sentences;
}

static void forget_part(struct sentences *s)
{
    free(s->part.text);
    free(s->part.alignments);
    free(s->part.sentences);
    s->part = (struct render_part){.text = NULL};
    s->is_rendered = false;
}

static size_t end_of(struct acre_range range)
{
    return range.first + range.n_bytes;
}

/* ---- Text as it is --------------------------------------------------------------------------- */

/* The engine counts from where the sentence begins. */
static int take_alignments(struct sentences *s, const struct srv_sentence *out,
                           struct acre_err *err)
{
    const size_t n = out->n_alignments;

    free(s->alignments);
    s->alignments = malloc((n ? n : 1) * sizeof(s->alignments[0]));
    if (!s->alignments)
        return error_set_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        s->alignments[i] = s->sentence.alignments[i];
        s->alignments[i].target.first += out->target.first;
    }
    return 0;
}

static enum sentences_next take_plain(struct sentences *s, struct srv_sentence *out,
                                      struct acre_err *err)
{
    const struct acre_sentence *from = &s->sentence;
    const size_t bytes = strlen(from->text), end = end_of(from->source);

    *out = (struct srv_sentence){
        .number = from->number,
        .before = {s->text.data + s->source_end, from->source.first - s->source_end},
        .text = {from->text, bytes},
        .part = from->part,
        .source = from->source,
    };
    if (from->part.is_apart) /* where the text has nothing */
        out->before = (struct srv_text){" ", 1};
    out->target = (struct acre_range){s->target_end + out->before.bytes, bytes};
    if (is_last(from))
        out->after = (struct srv_text){s->text.data + end, s->text.bytes - end};
    s->source_end = end;
    s->target_end = end_of(out->target);
    if (from->alignments) {
        out->n_alignments = from->part.n_tokens;
        if (take_alignments(s, out, err) != 0)
            return SENTENCES_FAILED;
        out->alignments = s->alignments;
    }
    return SENTENCES_ONE;
}

/* ---- Prose ----------------------------------------------------------------------------------- */

int sentences_render(struct sentences *s, struct acre_err *err)
{
    const struct acre_sentence *from = &s->sentence;

    if (!s->render && render_open(s->prose, NULL, 0, s->is_traced, &s->render, err) != 0)
        return err->code;
    if (from->text)
        render_sentence(s->render, &(struct render_sentence){.source = from->source,
                                                             .target = {0, strlen(from->text)},
                                                             .text = from->text,
                                                             .alignments = from->alignments,
                                                             .n_alignments = from->part.n_tokens,
                                                             .is_apart = from->part.is_apart});
    if (is_last(from))
        render_rest(s->render);
    if (render_take(s->render, &s->part, err) != 0)
        return err->code;
    s->is_rendered = true;
    return 0;
}

/* What has no sentence comes as one. */
static enum sentences_next take_rendered(struct sentences *s, struct srv_sentence *out)
{
    const struct render_part *part = &s->part;
    size_t at = part->sentence_at, end = part->sentence_end;

    if (!s->sentence.text) {
        at = 0;
        end = part->bytes;
    }
    *out = (struct srv_sentence){.number = s->sentence.number,
                                 .before = {part->text, at},
                                 .text = {part->text + at, end - at},
                                 .after = {part->text + end, part->bytes - end},
                                 .part = s->sentence.part};
    if (part->n_sentences > 0) {
        out->source = part->sentences[0].source;
        out->target = part->sentences[0].target;
        out->alignments = part->alignments;
        out->n_alignments = part->n_alignments;
    }
    s->is_rendered = false;
    return SENTENCES_ONE;
}

/* ---- The next one ---------------------------------------------------------------------------- */

enum sentences_next sentences_next(struct sentences *s, struct srv_sentence *out,
                                   struct acre_err *err)
{
    if (s->is_rendered)
        return take_rendered(s, out);
    forget_part(s);
    if (s->is_through)
        return SENTENCES_END;
    s->sentence = (struct acre_sentence){.text = NULL};
    if (s->job && acre_job_next(s->job, &s->sentence, err) != 0)
        return SENTENCES_FAILED;
    if (!s->sentence.text && s->sentence.number < s->sentence.n_sentences)
        return SENTENCES_LATER;
    s->is_through = is_last(&s->sentence);
    if (s->prose)
        return SENTENCES_RENDER;
    if (s->sentence.text)
        return take_plain(s, out, err);
    *out = (struct srv_sentence){.number = 0};
    return SENTENCES_ONE;
}

void sentences_fini(struct sentences *s)
{
    forget_part(s);
    free(s->alignments);
    render_close(s->render);
}
