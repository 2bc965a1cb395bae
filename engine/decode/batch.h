/* batch.h - the sentences one worker decodes together with one model, step by step.
 *
 * Sentences enter whenever a slot is free (their encoder pass runs then), every step advances all
 * live hypotheses by one token, and finished sentences leave at once. Who enters, and who has to
 * leave early, is the scheduler's decision. Rows are packed: a batch has no padding and a
 * sentence's result does not depend on its neighbours.
 *
 * A slot owns a range of rows in the cache, row (t mod T) * beam + b for node (t, b) of its search,
 * where T is network_cache_steps(). A hypothesis finds its past through its path,
 * the rows of its ancestors, so reordering beams copies row numbers and never the cache. Everything
 * is allocated when the batch is opened, except the tokens of finished hypotheses. Used by one
 * thread.
 */
#ifndef DECODE_BATCH_H
#define DECODE_BATCH_H

#include <stddef.h>

#include "acre.h"
#include "decode/constraint.h"
#include "decode/sentence.h"
#include "nn/network.h"

struct batch;

/* What a batch decodes with; borrowed, must outlive it. */
struct batch_model {
    struct device *device;
    const struct network *network;
    const struct constraint *constraint;
    int start_token, end_token;
    bool renormalize;
};

struct batch_limits {
    size_t max_sentences;
    size_t max_beam_size;
};

int batch_open(const struct batch_model *model, const struct batch_limits *limits,
               struct batch **batch, struct acre_err *err);
void batch_close(struct batch *batch); /* NULL is allowed */

size_t batch_running(const struct batch *batch);

/* Source rows (end tokens included) that one batch_admit() can take; at least one sentence of the
 * longest length. */
size_t batch_admit_rows(const struct batch *batch);

/* Encodes the newcomers; at most as many as slots are free, and their rows at most
 * batch_admit_rows(). */
void batch_admit(struct batch *batch, struct sentence *const *sentences, size_t n);

/* One step. Returns how many sentences finished; `finished` has room for max_sentences. */
size_t batch_step(struct batch *batch, struct sentence **finished);

/* Takes out a running sentence that shall not go on; its status is the caller's business. */
void batch_drop(struct batch *batch, const struct sentence *sentence);

#endif
