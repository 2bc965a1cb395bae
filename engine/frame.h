/* frame.h - the tokens around a request's sentences: those of its languages, and those
 * that the translation is to begin with. Private to the files of this folder.
 */
#ifndef ENGINE_FRAME_H
#define ENGINE_FRAME_H

#include "acre.h"
#include "engine.h"
#include "text/document.h"

struct frame {
    const char *language;      /* tag of the source; "" if the model does not tell */
    int32_t first_source;      /* token before each source; -1: none */
    bool is_last;              /* that stands behind the end token instead */
    int32_t *sources;          /* owned: the sentences' tokens with it, where there is one */
    struct tokens translation; /* what it begins with */
    struct search_prefix prefix;
};

/* Finds the languages. ACRE_EOPTION if they are not the model's, or a model of several is told
 * none; ACRE_EINPUT if a translation that is to be scored is too long. frame_fini() either way. */
int frame_init(struct frame *frame, const struct acre_model *model,
               const struct acre_request *request, struct acre_err *err);
void frame_fini(struct frame *frame);

/* Source tokens of sentences[document->n_sentences], and what their translations begin with. They
 * borrow from both. */
int frame_fill(struct frame *frame, const struct document *document, int32_t end_token,
               struct sentence *sentences, struct acre_err *err);

#endif
