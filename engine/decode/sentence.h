/* sentence.h - one sentence on its way through the engine: what to translate, and what came out.
 *
 * Filled by the job that owns it, queued, decoded by one batch, then handed back to the job. At
 * any time exactly one of the three may touch it, except `cancelled`, which any thread may set.
 */
#ifndef DECODE_SENTENCE_H
#define DECODE_SENTENCE_H

#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "base/mem.h"

struct sentence_hypothesis {
    const int32_t *tokens; /* [n_tokens], part of sentence.tokens, end token left out */
    size_t n_tokens;
    float score, normalized_score;
};

struct sentence {
    /* in */
    const int32_t *source; /* borrowed from the job, [n_source], without end token */
    size_t n_source;
    struct acre_decoding decoding;
    const atomic_bool *cancelled; /* the job's */
    void *job;
    /* queue */
    struct sentence *child, *sibling;
    uint64_t turn, order;
    /* out */
    int status;                             /* 0 or ACRE_E... */
    struct sentence_hypothesis *hypotheses; /* owned, [n_hypotheses], best first */
    size_t n_hypotheses;
    int32_t *tokens; /* owned */
};

static inline void sentence_fini(struct sentence *sentence)
{
    mem_free(sentence->hypotheses);
    mem_free(sentence->tokens);
}

#endif
