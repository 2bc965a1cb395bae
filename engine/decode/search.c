#include "decode/search.h"

#include <math.h>
#include <string.h>

/* A live hypothesis b continued by `token`. */
struct continuation {
    float score;
    int b;
    int32_t token;
};

size_t search_nodes(const struct acre_decoding *decoding)
{
    return (size_t)(decoding->max_length + 1) * (size_t)decoding->beam_size;
}

static struct search_node *node(const struct search *search, int t, int b)
{
    return &search->nodes[(size_t)t * (size_t)search->decoding.beam_size + (size_t)b];
}

const struct search_node *search_at(const struct search *search, int t, int b)
{
    return node(search, t, b);
}

void search_init(struct search *search, const struct acre_decoding *decoding,
                 const struct constraint *constraint, int start_token, int end_token,
                 bool renormalize, struct search_node *nodes)
{
    *search = (struct search){
        .constraint = constraint,
        .decoding = *decoding,
        .end_token = end_token,
        .renormalize = renormalize,
        .nodes = nodes,
        .n_live = 1,
    };
    *node(search, 0, 0) = (struct search_node){.token = start_token, .parent = -1};
}

void search_scan(const struct search *search, int b, struct candidate *best,
                 struct logit_scan *scan)
{
    const struct acre_decoding *decoding = &search->decoding;
    *scan = (struct logit_scan){
        .best = best,
        .k = 2 * decoding->beam_size,
        .maximum = -INFINITY,
        .renormalize = search->renormalize,
        .allowed =
            constraint_allowed(search->constraint, search->state[b],
                               decoding->max_length - search->t, search->t >= decoding->min_length),
    };
}

static bool precedes(const struct continuation *a, const struct continuation *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->b != b->b ? a->b < b->b : a->token < b->token;
}

/* The best `most` continuations of all live hypotheses, best first; returns how many. */
static int rank(const struct search *search, const struct logit_scan *scans, int most,
                struct continuation *ranked)
{
    int n = 0;
    for (int b = 0; b < search->n_live; b++) {
        const struct logit_scan *scan = &scans[b];
        float log_sum = scan->maximum + logf(scan->sum);
        for (int i = 0; i < scan->n; i++) {
            struct continuation c = {.score = search->score[b] + (scan->best[i].logit - log_sum),
                                     .b = b,
                                     .token = scan->best[i].id};
            if (n == most && !precedes(&c, &ranked[n - 1]))
                break;
            int place = n < most ? n++ : n - 1;
            for (; place > 0 && precedes(&c, &ranked[place - 1]); place--)
                ranked[place] = ranked[place - 1];
            ranked[place] = c;
        }
    }
    return n;
}

/* The ranking. In double precision: the largest penalty makes more of a long hypothesis than fits
 * into a float, and less than fits into it without loss, where all would rank alike. */
static double normalized(const struct search *search, float score, int n_tokens)
{
    return (double)score / pow(n_tokens, (double)search->decoding.length_penalty);
}

/* Live hypothesis b ends here with the given score. Older results come first among equals. */
static void finish(struct search *search, int b, float score)
{
    int beam = search->decoding.beam_size;
    struct search_result result = {
        .n_tokens = search->t,
        .b = b,
        .score = score,
        .normalized_score = normalized(search, score, search->t + 1),
    };
    struct search_result *results = search->results;
    if (search->n_results == beam && result.normalized_score <= results[beam - 1].normalized_score)
        return;
    int place = search->n_results < beam ? search->n_results++ : beam - 1;
    for (; place > 0 && result.normalized_score > results[place - 1].normalized_score; place--)
        results[place] = results[place - 1];
    results[place] = result;
}

/* Makes the first beam_size continuations that do not end the live hypotheses of step t + 1. */
static void continue_live(struct search *search, const struct continuation *ranked, int n)
{
    uint8_t state[MAX_BEAM] = {0};
    int live = 0;
    for (int i = 0; i < n && live < search->decoding.beam_size; i++) {
        if (ranked[i].token == search->end_token)
            continue;
        *node(search, search->t + 1, live) =
            (struct search_node){.token = ranked[i].token, .parent = ranked[i].b};
        state[live] =
            constraint_next(search->constraint, search->state[ranked[i].b], ranked[i].token);
        search->score[live++] = ranked[i].score;
    }
    memcpy(search->state, state, (size_t)live);
    search->n_live = live;
    search->t++;
}

/* early_stopping=False: judged by the current length, whatever the sign of the penalty. */
static bool may_improve(const struct search *search)
{
    if (search->n_results < search->decoding.beam_size)
        return true;
    return normalized(search, search->score[0], search->t) >
           search->results[search->n_results - 1].normalized_score;
}

static void finish_all(struct search *search)
{
    for (int b = 0; b < search->n_live; b++)
        finish(search, b, search->score[b]);
    search->n_live = 0;
}

bool search_advance(struct search *search, const struct logit_scan *scans)
{
    struct continuation ranked[KERNEL_MAX_BEST];
    int beam = search->decoding.beam_size;
    int n = rank(search, scans, 2 * beam, ranked);
    if (n == 0) { /* nothing may follow */
        finish_all(search);
        return false;
    }
    for (int i = 0; i < n && i < beam; i++)
        if (ranked[i].token == search->end_token)
            finish(search, ranked[i].b, ranked[i].score);
    continue_live(search, ranked, n);
    if (search->n_live == 0 || !may_improve(search))
        search->n_live = 0;
    else if (search->t == search->decoding.max_length)
        finish_all(search);
    return search->n_live > 0;
}

void search_tokens(const struct search *search, const struct search_result *result, int32_t *tokens)
{
    int b = result->b;
    for (int t = result->n_tokens; t > 0; t--) {
        const struct search_node *at = node(search, t, b);
        tokens[t - 1] = at->token;
        b = at->parent;
    }
}
