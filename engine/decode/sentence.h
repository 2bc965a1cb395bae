/* sentence.h - one sentence on its way through the engine: what to translate, and what came out.
 *
 * Filled by the job that owns it, queued, decoded by one batch, then handed back to the job. At
 * any time exactly one of the three may touch it, except the scheduler's part, which the
 * scheduler's lock guards wherever the sentence is.
 */
#ifndef DECODE_SENTENCE_H
#define DECODE_SENTENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acre.h"
#include "base/mem.h"
#include "search/rules.h" /* struct search_prefix */

struct queue;
struct flow;

struct sentence_hypothesis {
    const int32_t *tokens; /* [n_tokens], part of sentence.tokens, end token left out */
    size_t n_tokens;
    float score;
    const int32_t *alignment; /* [n_tokens] places of source tokens, part of sentence.tokens; NULL:
                               * not asked for */
};

struct sentence_links {
    struct sentence *child, *sibling, *previous;
};

struct sentence {
    /* in */
    const int32_t *source; /* borrowed from the job, [n_source], without the last token */
    size_t n_source;
    int32_t last;                /* the last source token; 0: the end token */
    size_t first_item, end_item; /* of the source tokens that are part of the text, and behind the
                                  * last of them */
    struct acre_decoding decoding;
    struct search_prefix prefix;
    const int32_t *translation; /* borrowed likewise, [prefix.n]: what it begins with */
    bool is_aligned;            /* hypotheses shall tell their alignment */
    bool is_cached;  /* was translated before: what came out is there, nobody queues it */
    size_t n_behind; /* of the first of a text that is read as it is translated: so many more */
    uint64_t deadline_ns; /* by the scheduler's clock; 0: none */
    uint64_t caller;      /* see acre.h */
    void *job;
    /* scheduler */
    struct queue *queue;            /* where it waits; NULL: nowhere */
    struct flow *flow;              /* of that queue */
    struct sentence_links links[2]; /* in the queue's heaps, by turn and by deadline */
    uint64_t turn, order;
    uint64_t queued_ns;   /* when it began to wait */
    uint64_t work;        /* that decoding it is expected to take, see sched/pace.h */
    uint64_t estimate_ns; /* in how many ns it would be translated, when queued; 0: none was made */
    uint64_t first_step;  /* by the count of its batch, when it was admitted */
    struct sentence *next; /* of those that leave together */
    atomic_bool cancelled; /* the fallback's scheduler may set it while this one still runs it */
    bool is_moved;         /* its device was lost, and another one of the engine has it */
    bool is_retried;       /* all were lost, and this is the engine that goes on */
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

/* The rows of its encoder pass, the last token's included. */
static inline size_t sentence_source_rows(const struct sentence *sentence)
{
    return sentence->n_source + 1;
}

/* What it weighs in a running batch: the rows it attends to and the rows it decodes. */
static inline size_t sentence_load(const struct sentence *sentence)
{
    return sentence_source_rows(sentence) + (size_t)sentence->decoding.beam_size;
}

#endif
