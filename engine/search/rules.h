/* rules.h - the rules of beam search over one sentence, written once for every device.
 *
 * Plain functions of plain data: no call of libm, so that every device comes to the same decisions
 * from the same scores. The ranking is in double precision: the largest penalty makes more of a
 * long hypothesis than fits into a float, where all would rank alike. A device that has a compiler
 * of its own defines SEARCH_RULE before it includes this. Follows transformers' generate() with
 * early_stopping=False, see tests/parity/README.md; only beam_threshold is Acre's own.
 *
 * Hypotheses are paths in a trellis: node (t, b) is the token that live hypothesis b reads at step
 * t and the hypothesis it continues. Step 0 has one node, the start token. Where the first tokens
 * of a translation are given, or all of it, their nodes are there from the start.
 */
#ifndef SEARCH_RULES_H
#define SEARCH_RULES_H

#include <math.h> /* INFINITY, NAN */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "search/constraint.h"
#include "shapes.h"

#ifndef SEARCH_RULE
#define SEARCH_RULE static inline
#endif

/* What the search knows of a model. */
struct search_model {
    const struct constraint *constraint; /* borrowed */
    int start_token, end_token;
    bool renormalize; /* tokens that may not follow have no share of the softmax */
};

/* The tokens that a translation is to begin with: nodes (1, 0) ... (n, 0). */
struct search_prefix {
    int n;
    int n_free;    /* the first so many of them add 0 to the score: nothing else could follow */
    bool is_whole; /* and then the end token follows; the beam size is 1 */
};

struct search_node {
    int32_t token;
    int32_t parent; /* b of the hypothesis at step t - 1 */
};

/* A finished hypothesis: its last token is node (n_tokens, b); the end token is not stored. */
struct search_result {
    int n_tokens, b;
    float score;
    double normalized_score;
};

struct search {
    struct search_model model;
    struct acre_decoding decoding;
    struct search_prefix prefix;
    struct search_node *nodes; /* borrowed, [max_length + 1][beam_size] */
    const double *penalties;   /* borrowed, [max_length + 2]: n^length_penalty */
    int t;                     /* tokens of every live hypothesis, start token not counted */
    int n_live;
    float score[MAX_BEAM];   /* of the live hypotheses, best first */
    uint8_t state[MAX_BEAM]; /* of the constraint */
    int n_results;
    struct search_result results[MAX_BEAM]; /* highest normalized_score first */
};

/* A live hypothesis b continued by `token`. */
struct continuation {
    float score;
    int b;
    int32_t token;
};

/* Node b of step t. */
SEARCH_RULE struct search_node *search_node(const struct search *search, int t, int b)
{
    return &search->nodes[(size_t)t * (size_t)search->decoding.beam_size + (size_t)b];
}

/* The tokens that may follow live hypothesis b, as a bit set. */
SEARCH_RULE const uint32_t *search_allowed(const struct search *search, int b)
{
    const struct acre_decoding *decoding = &search->decoding;
    return constraint_allowed(search->model.constraint, search->state[b],
                              decoding->max_length - search->t, search->t >= decoding->min_length);
}

/* The token that must follow, whatever the logits say; -1: any that may. */
SEARCH_RULE int32_t search_wanted(const struct search *search)
{
    if (search->t < search->prefix.n)
        return search_node(search, search->t + 1, 0)->token;
    return search->prefix.is_whole ? search->model.end_token : -1;
}

/* The order of continuations, best first. */
SEARCH_RULE bool search_precedes(const struct continuation *a, const struct continuation *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->b != b->b ? a->b < b->b : a->token < b->token;
}

/* Live hypothesis b ends here with the given score. Older results come first among equals. */
SEARCH_RULE void search_finish(struct search *search, int b, float score)
{
    int beam = search->decoding.beam_size;
    struct search_result result;
    result.n_tokens = search->t;
    result.b = b;
    result.score = score;
    result.normalized_score = score / search->penalties[search->t + 1];
    struct search_result *results = search->results;
    if (search->n_results == beam && result.normalized_score <= results[beam - 1].normalized_score)
        return;
    int place = search->n_results < beam ? search->n_results++ : beam - 1;
    for (; place > 0 && result.normalized_score > results[place - 1].normalized_score; place--)
        results[place] = results[place - 1];
    results[place] = result;
}

SEARCH_RULE void search_finish_all(struct search *search)
{
    for (int b = 0; b < search->n_live; b++)
        search_finish(search, b, search->score[b]);
    search->n_live = 0;
}

/* Makes the first beam_size continuations that do not end the live hypotheses of step t + 1. */
SEARCH_RULE void search_go_on(struct search *search, const struct continuation *ranked, int n)
{
    uint8_t state[MAX_BEAM];
    int live = 0;
    for (int i = 0; i < n && live < search->decoding.beam_size; i++) {
        if (ranked[i].token == search->model.end_token)
            continue;
        struct search_node *node = search_node(search, search->t + 1, live);
        node->token = ranked[i].token;
        node->parent = ranked[i].b;
        state[live] =
            constraint_next(search->model.constraint, search->state[ranked[i].b], ranked[i].token);
        search->score[live++] = ranked[i].score;
    }
    for (int b = 0; b < live; b++)
        search->state[b] = state[b];
    search->n_live = live;
    search->t++;
}

/* early_stopping=False: judged by the current length, whatever the sign of the penalty. */
SEARCH_RULE bool search_may_improve(const struct search *search)
{
    if (search->n_results < search->decoding.beam_size)
        return true;
    double best = search->score[0] / search->penalties[search->t];
    return best > search->results[search->n_results - 1].normalized_score;
}

/* A token that must follow is the only continuation, also if it could not follow otherwise. What
 * may follow and is no candidate has NaN for a logit. Returns how many there are then. */
SEARCH_RULE int search_obey(const struct search *search, struct continuation *ranked, int n)
{
    int32_t wanted = search_wanted(search);
    if (wanted < 0)
        return n;
    bool may_follow = search_allowed(search, 0)[wanted / 32] >> (wanted % 32) & 1;
    float score = n > 0 ? ranked[0].score : may_follow ? NAN : -INFINITY;
    ranked[0].score = search->t < search->prefix.n_free ? search->score[0] : score;
    ranked[0].b = 0;
    ranked[0].token = wanted;
    return 1;
}

/* How many of the continuations go on or end: those whose score is at most beam_threshold below the
 * best one's (absolute threshold pruning: Freitag and Al-Onaizan, Beam Search Strategies for Neural
 * Machine Translation, 2017, section 3). Few may be left, so not where several are asked for. */
SEARCH_RULE int search_prune(const struct search *search, const struct continuation *ranked, int n)
{
    float threshold = search->decoding.beam_threshold;
    if (threshold == 0 || search->decoding.num_hypotheses > 1)
        return n;
    while (n > 1 && ranked[n - 1].score < ranked[0].score - threshold)
        n--;
    return n;
}

/* Whether anything may follow the first live hypothesis. */
SEARCH_RULE bool search_may_go_on(const struct search *search)
{
    const uint32_t *allowed = search_allowed(search, 0);
    for (size_t i = 0; i < search->model.constraint->words; i++)
        if (allowed[i] != 0)
            return true;
    return false;
}

/* Whether the continuations come from logits that are numbers: NaN is no candidate, and an infinite
 * sum makes a score NaN. */
SEARCH_RULE bool search_has_numbers(const struct search *search, const struct continuation *ranked,
                                    int n)
{
    return n > 0 ? ranked[0].score == ranked[0].score : !search_may_go_on(search);
}

/* Takes the best 2 * beam_size continuations, in their order, to the next step. Returns whether
 * hypotheses are live; then their tokens are nodes (t, 0 ... n_live - 1). Where the logits are no
 * numbers, the best result's score is none. */
SEARCH_RULE bool search_decide(struct search *search, struct continuation *ranked, int n)
{
    n = search_obey(search, ranked, n);
    if (!search_has_numbers(search, ranked, n)) {
        search->n_results = n = 0;
        search->score[0] = NAN;
    }
    if (n == 0) { /* nothing may follow, or nobody knows what */
        search_finish_all(search);
        return false;
    }
    n = search_prune(search, ranked, n);
    for (int i = 0; i < n && i < search->decoding.beam_size; i++)
        if (ranked[i].token == search->model.end_token)
            search_finish(search, ranked[i].b, ranked[i].score);
    search_go_on(search, ranked, n);
    if (search->n_live == 0 || !search_may_improve(search))
        search->n_live = 0;
    else if (search->t == search->decoding.max_length)
        search_finish_all(search);
    return search->n_live > 0;
}

#endif
