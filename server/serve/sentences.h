/* sentences.h - the sentences of one text, in order, each as soon as it is translated.
 *
 * Those of markup, and of text with placeholders, are rendered when their turn comes. That may take
 * longer than the loop has time, so it is a call of its own, for any thread. All else is the
 * loop's. Nothing is kept of a sentence when the next one is asked for.
 */
#ifndef SERVER_SERVE_SENTENCES_H
#define SERVER_SERVE_SENTENCES_H

#include "content/render.h"
#include "serve/translate.h"

struct srv_sentence {
    size_t number;
    /* Of the translation. Where `text` is NULL the whole text is there instead, in one piece. */
    struct srv_text before, text, after;
    struct acre_part part;
    struct acre_range source, target;        /* in the text; in the translation put together */
    const struct acre_alignment *alignments; /* [n_alignments], likewise; or NULL */
    size_t n_alignments;
};

struct sentences {
    struct srv_text text;
    struct acre_job *job;      /* NULL: nothing is to be translated */
    const struct prose *prose; /* whose text the job has; NULL: the text itself */
    bool is_traced;
    bool is_through;
    bool is_rendered; /* `part` is the sentence's */
    struct acre_sentence sentence;
    struct render *render;             /* owned */
    struct render_part part;           /* owned */
    struct acre_alignment *alignments; /* owned */
    size_t source_end, target_end;     /* of the sentence before; of the translation, so far */
};

enum sentences_next {
    SENTENCES_FAILED = -1,
    SENTENCES_ONE,
    SENTENCES_LATER,
    SENTENCES_RENDER, /* call sentences_render(), then ask again */
    SENTENCES_END
};
enum sentences_next sentences_next(struct sentences *sentences, struct srv_sentence *out,
                                   struct acre_err *err);
int sentences_render(struct sentences *sentences, struct acre_err *err);
void sentences_fini(struct sentences *sentences);

#endif
