#include "search/search.h"

#include <math.h>

size_t search_nodes(const struct acre_decoding *decoding)
{
    return (size_t)(decoding->max_length + 1) * (size_t)decoding->beam_size;
}

size_t search_penalties(const struct acre_decoding *decoding)
{
    return (size_t)decoding->max_length + 2;
}

void search_fill_penalties(float length_penalty, size_t first, size_t n, double *penalties)
{
    for (size_t i = first; i < n; i++)
        penalties[i] = pow((double)i, (double)length_penalty);
}

void search_init(struct search *search, const struct search_model *model,
                 const struct acre_decoding *decoding, struct search_node *nodes,
                 const double *penalties)
{
    *search = (struct search){
        .model = *model,
        .decoding = *decoding,
        .nodes = nodes,
        .penalties = penalties,
        .n_live = 1,
    };
    *search_node(search, 0, 0) = (struct search_node){.token = model->start_token, .parent = -1};
}

void search_set_prefix(struct search *search, const struct search_prefix *prefix,
                       const int32_t *tokens)
{
    search->prefix = *prefix;
    for (int t = 0; t < prefix->n; t++)
        *search_node(search, t + 1, 0) = (struct search_node){.token = tokens[t], .parent = 0};
}

/* Nothing is better than what is wanted. */
static void want(int32_t token, struct logit_scan *scan)
{
    scan->has_wanted = true;
    scan->wanted = -INFINITY;
    scan->best[0] = (struct candidate){.id = token, .logit = INFINITY};
    scan->n = scan->k = 1;
}

void search_scan(const struct search *search, int b, struct candidate *best,
                 struct logit_scan *scan)
{
    *scan = (struct logit_scan){
        .best = best,
        .k = 2 * search->decoding.beam_size,
        .maximum = -INFINITY,
        .renormalize = search->model.renormalize,
        .allowed = search_allowed(search, b),
    };
    if (search_wanted(search) >= 0)
        want(search_wanted(search), scan);
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
            float logit = scan->has_wanted ? scan->wanted : scan->best[i].logit;
            struct continuation c = {
                .score = search->score[b] + (logit - log_sum), .b = b, .token = scan->best[i].id};
            if (n == most && !search_precedes(&c, &ranked[n - 1]))
                break;
            int place = n < most ? n++ : n - 1;
            for (; place > 0 && search_precedes(&c, &ranked[place - 1]); place--)
                ranked[place] = ranked[place - 1];
            ranked[place] = c;
        }
    }
    return n;
}

bool search_advance(struct search *search, const struct logit_scan *scans)
{
    struct continuation ranked[SCAN_MAX_BEST];
    int n = rank(search, scans, 2 * search->decoding.beam_size, ranked);
    return search_decide(search, ranked, n);
}

void search_force(struct search *search, int32_t token)
{
    struct continuation only = {.score = search->score[0], .b = 0, .token = token};
    search_go_on(search, &only, 1);
}

void search_tokens(const struct search *search, const struct search_result *result, int32_t *tokens)
{
    int b = result->b;
    for (int t = result->n_tokens; t > 0; t--) {
        const struct search_node *at = search_node(search, t, b);
        tokens[t - 1] = at->token;
        b = at->parent;
    }
}
