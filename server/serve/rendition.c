#include "serve/rendition.h"

#include <stdlib.h>

#include "common/error.h"

static int take(struct rendition *rendition, struct acre_err *err)
{
    struct render_part part;

    if (render_take(rendition->render, &part, err) != 0)
        return err->code;
    render_close(rendition->render);
    rendition->render = NULL;
    rendition->texts[rendition->n_texts++] = part.text;
    if (rendition->n_texts == 1)
        rendition->best = part;
    return 0;
}

int rendition_step(struct rendition *rendition, const struct prose *prose,
                   const struct acre_result *result, bool is_traced, bool *is_done,
                   struct acre_err *err)
{
    const size_t n = result ? result->n_hypotheses : 1;

    *is_done = false;
    if (!rendition->texts)
        rendition->texts = calloc(n, sizeof(rendition->texts[0]));
    if (!rendition->texts)
        return error_set_no_memory(err);
    if (!rendition->render &&
        render_open(prose, result, rendition->n_texts, is_traced && rendition->n_texts == 0,
                    &rendition->render, err) != 0)
        return err->code;
    if (render_next(rendition->render))
        return 0;
    if (take(rendition, err) != 0)
        return err->code;
    *is_done = rendition->n_texts == n;
    return 0;
}

void rendition_fini(struct rendition *rendition)
{
    for (size_t i = 0; i < rendition->n_texts; i++)
        free(rendition->texts[i]);
    free(rendition->texts);
    free(rendition->best.alignments);
    free(rendition->best.sentences);
    render_close(rendition->render);
}
