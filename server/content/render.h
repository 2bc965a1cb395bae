/* render.h - the way back: a document in the words of its translation, a sentence at a time.
 *
 * Sentences are those of a result, or come one by one, in the order of the text. What was rendered
 * can be taken at any time. Any thread, one at a time; the prose and what is translated stay the
 * caller's and must live as long.
 */
#ifndef SERVER_CONTENT_RENDER_H
#define SERVER_CONTENT_RENDER_H

#include "content/prose.h"

struct render;

/* A part of the prose's text, and its translation, which is a part of `text`. */
struct render_sentence {
    struct acre_range source, target;
    const char *text;
    const struct acre_alignment *alignments; /* [n_alignments], targets in `text` */
    size_t n_alignments;
    bool is_apart; /* a space goes before it */
};

/* What was rendered since the last time. All but `text` is of documents that are traced, and says
 * where in the document and in all that was rendered of it something stands. */
struct render_part {
    char *text; /* owned by the caller, NUL-terminated */
    size_t bytes;
    size_t sentence_at;                /* in `text`: where its last sentence begins, */
    size_t sentence_end;               /* and ends */
    struct acre_alignment *alignments; /* owned by the caller: of the tokens that stand there */
    size_t n_alignments;
    struct acre_alignment *sentences; /* likewise: each as a whole */
    size_t n_sentences;
};

/* `result` is the aligned translation of the prose's text; without it, all of the text stays, or
 * sentences come one by one, unless the prose has values. Only text can be traced, no markup.
 * *render is owned by the caller. */
int render_open(const struct prose *prose, const struct acre_result *result, size_t hypothesis,
                bool is_traced, struct render **render, struct acre_err *err);
void render_close(struct render *render); /* NULL is allowed */

/* One more sentence of the result; false: there is no more, and the document is complete. */
bool render_next(struct render *render);

/* One that comes by itself, with what stands before it; and what stands behind the last one. */
void render_sentence(struct render *render, const struct render_sentence *sentence);
void render_rest(struct render *render);

int render_take(struct render *render, struct render_part *part, struct acre_err *err);

#endif
