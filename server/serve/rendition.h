/* rendition.h - a document in the words of each hypothesis of its translation, made in steps.
 *
 * Any thread, one at a time; belongs to who translates the document.
 */
#ifndef SERVER_SERVE_RENDITION_H
#define SERVER_SERVE_RENDITION_H

#include "content/render.h"

struct rendition {
    char **texts; /* owned, [n_texts] owned */
    size_t n_texts;
    /* Of the best one: where sentences and tokens stand, if it is traced. */
    struct render_part best;
    struct render *render; /* owned: of the hypothesis at work */
};

/* One sentence more of one of the hypotheses. A document without words has no result. */
int rendition_step(struct rendition *rendition, const struct prose *prose,
                   const struct acre_result *result, bool is_traced, bool *is_done,
                   struct acre_err *err);
void rendition_fini(struct rendition *rendition);

#endif
