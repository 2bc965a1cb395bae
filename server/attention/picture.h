/* picture.h - what a translation attended to, ready to be drawn: its sentences, laid out, and
 * the words that go with them. html.h and svg.h make pages of it. Main thread.
 */
#ifndef SERVER_ATTENTION_PICTURE_H
#define SERVER_ATTENTION_PICTURE_H

#include <stddef.h>

#include "acre.h"
#include "attention/layout.h"

struct attention_picture {
    const struct acre_model_info *model;
    struct acre_attention **sentences; /* owned, [n] */
    struct attention_layout *layouts;  /* owned, [n] */
    size_t n;
    char *facts, *legend; /* owned, paragraphs of plain text */
};

/* `job` ended without error and has at least one sentence. */
int attention_picture_open(struct attention_picture *picture, const struct acre_model_info *model,
                           const struct acre_job *job, struct acre_err *err);
void attention_picture_close(struct attention_picture *picture);

#endif
