/* search.h - beam search over one sentence; greedy search is beam size 1.
 *
 * A pure state machine: the caller runs the decoder for the live hypotheses, scans the output
 * layer's logits and hands the scans to search_advance(). Follows transformers' generate() with
 * early_stopping=False, see tests/parity/README.md.
 *
 * Hypotheses are paths in a trellis: node (t, b) is the token that live hypothesis b reads at step
 * t and the hypothesis it continues. Step 0 has one node, the start token. Used by one thread.
 */
#ifndef DECODE_SEARCH_H
#define DECODE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "acre.h"
#include "decode/constraint.h"
#include "kernels/kernels.h" /* struct logit_scan */
#include "shapes.h"

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
    const struct constraint *constraint;
    struct acre_decoding decoding;
    int end_token;
    bool renormalize;
    struct search_node *nodes; /* borrowed, [max_length + 1][beam_size] */
    int t;                     /* tokens of every live hypothesis, start token not counted */
    int n_live;
    float score[MAX_BEAM];   /* of the live hypotheses, best first */
    uint8_t state[MAX_BEAM]; /* of the constraint */
    int n_results;
    struct search_result results[MAX_BEAM]; /* highest normalized_score first */
};

/* `nodes` has room for search_nodes(decoding); `constraint` must outlive the search. */
void search_init(struct search *search, const struct acre_decoding *decoding,
                 const struct constraint *constraint, int start_token, int end_token,
                 bool renormalize, struct search_node *nodes);
size_t search_nodes(const struct acre_decoding *decoding);

/* Prepares the scan for live hypothesis b; `best` has room for 2 * beam_size candidates. */
void search_scan(const struct search *search, int b, struct candidate *best,
                 struct logit_scan *scan);

/* Takes one scan per live hypothesis to the next step. Returns true while hypotheses are live;
 * then their tokens are nodes (t, 0 ... n_live - 1). */
bool search_advance(struct search *search, const struct logit_scan *scans);

/* Node b of step t. */
const struct search_node *search_at(const struct search *search, int t, int b);

/* Writes the n_tokens tokens of a result. */
void search_tokens(const struct search *search, const struct search_result *result,
                   int32_t *tokens);

#endif
