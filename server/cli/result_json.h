/* result_json.h - a finished job as `acre translate --json` prints it:
 *
 *   {"attention": [SENTENCE, ...],
 *    "hypotheses": [{"text": T, "tokens": [...], "score": S, "normalized_score": N}, ...]}
 *
 * "attention" only if asked for: one entry per sentence, the cross-attention of its best
 * hypothesis (attention/json.h). A hypothesis that max_length cut has "truncated": true.
 *
 * Any thread.
 */
#ifndef SERVER_CLI_RESULT_JSON_H
#define SERVER_CLI_RESULT_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "acre.h"

/* A line for a job without errors, or NULL for a text with nothing to translate. 0, or *err says
 * why there is none. */
int result_json_write(const struct acre_job *job, bool has_attention, FILE *out,
                      struct acre_err *err);

/* Likewise {"score": S, "normalized_score": N, "tokens": [...]} of a translation that was given;
 * null stands for the score of what the model cannot write. */
int score_json_write(const struct acre_job *job, FILE *out, struct acre_err *err);

#endif
