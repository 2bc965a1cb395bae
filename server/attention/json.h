/* json.h - what a sentence's translation attended to, as JSON:
 *
 *   {"source": [...], "source_ranges": [[FIRST, END], ...],
 *    "target": [...], "target_ranges": [...],
 *    "layers": [{"heads": [{"tokens": [AREAS, ...]}, ...]}, ...]}
 *
 * source and target are its tokens, end tokens included, and where in text and translation they
 * stand, in bytes. AREAS belong to one target token:
 * [{"first": I, "width": W, "weight": X}, ...], the source tokens I to I + W - 1, heaviest first.
 * They and what is left out (less than ATTENTION_JSON_LEAST) weigh 1 together. Where the source is
 * a grid there is "columns" too, how many tokens are in a row, and areas of more rows have
 * "height".
 *
 * Any thread.
 */
#ifndef SERVER_ATTENTION_JSON_H
#define SERVER_ATTENTION_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "acre.h"

#define ATTENTION_JSON_LEAST 0.01F

/* A list of tokens; one that is no text by itself, a part of a character, is U+FFFD. */
json_t *attention_json_tokens(const char *const *tokens, size_t n);

/* False: no memory. */
bool attention_json_write(const struct acre_attention *attention, FILE *out);

#endif
