/* search.h - beam search over one sentence; greedy search is beam size 1.
 *
 * A pure state machine on the host's side of rules.h: a device runs the decoder for the live
 * hypotheses, scans the output layer's logits and hands the scans to search_advance(). Used by one
 * thread.
 */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "search/rules.h"
#include "search/scan.h"

/* `nodes` and `penalties` have room for search_nodes() and search_penalties(); the latter are what
 * search_fill_penalties() says. */
void search_init(struct search *search, const struct search_model *model,
                 const struct acre_decoding *decoding, struct search_node *nodes,
                 const double *penalties);

/* Before the first step: the translation begins with these tokens[prefix->n], which are at
 * most max_length. */
void search_set_prefix(struct search *search, const struct search_prefix *prefix,
                       const int32_t *tokens);
size_t search_nodes(const struct acre_decoding *decoding);
size_t search_penalties(const struct acre_decoding *decoding);

/* penalties[i] = i^length_penalty, first ... n - 1. */
void search_fill_penalties(float length_penalty, size_t first, size_t n, double *penalties);

/* Prepares the scan for live hypothesis b; `best` has room for 2 * beam_size candidates. */
void search_scan(const struct search *search, int b, struct candidate *best,
                 struct logit_scan *scan);

/* Takes one scan per live hypothesis to the next step, see search_decide(). */
bool search_advance(struct search *search, const struct logit_scan *scans);

/* The only live hypothesis goes on with this token. */
void search_force(struct search *search, int32_t token);

/* Writes the n_tokens tokens of a result. */
void search_tokens(const struct search *search, const struct search_result *result,
                   int32_t *tokens);

#endif
