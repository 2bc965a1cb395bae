/* result_json.h - a finished job as `acre translate --json` prints it:
 *
 *   {"hypotheses": [{"text": T, "tokens": [...], "score": S, "normalized_score": N}, ...],
 *    "attention": [{"source": [...], "target": [...],
 *                   "layers": [{"heads": [{"tokens": [AREAS, ...]}, ...]}, ...]}, ...]}
 *
 * "attention" only if asked for: one entry per sentence, the cross-attention of its best
 * hypothesis. source and target are its tokens, end tokens included. AREAS belong to one target
 * token:
 * [{"first": I, "width": W, "weight": X}, ...], the source tokens I to I + W - 1, heaviest first.
 * They and what is left out (less than RESULT_JSON_LEAST) weigh 1 together.
 * Where the source is a grid the sentence has "columns" too, how many tokens there are in a row,
 * and areas of more than one row have "height".
 *
 * Any thread.
 */
#ifndef SERVER_CLI_RESULT_JSON_H
#define SERVER_CLI_RESULT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "acre.h"

#define RESULT_JSON_LEAST 0.01F

/* A job without errors, or NULL for a text with nothing to translate. NULL and *err if it cannot be
 * done. The caller owns what is returned. */
json_t *result_json(const struct acre_job *job, bool has_attention, struct acre_err *err);

#endif
