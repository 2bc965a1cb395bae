/* batch.h - the sentences one worker decodes together with one model, step by step.
 *
 * Sentences enter whenever a slot is free (their encoder pass runs then), every step advances all
 * live hypotheses by one token, and finished sentences leave at once. Which enter, and which have
 * to leave early, is the scheduler's decision. What is computed is the device's; the batch knows
 * which slot is whose, and takes results over. Rows are packed: a batch has no padding and a
 * sentence's result does not depend on its neighbours.
 *
 * Everything is allocated when the batch is opened, except what finished sentences keep. Used by
 * one thread.
 */
#ifndef DECODE_BATCH_H
#define DECODE_BATCH_H

#include <stddef.h>

#include "acre.h"
#include "decode/sentence.h"
#include "nn/network.h"

struct batch;

struct batch_limits {
    size_t max_sentences;
    size_t max_beam_size;
};

/* The network is borrowed and must outlive it, and so is what `model` points to. */
int batch_open(const struct network *network, const struct search_model *model,
               const struct batch_limits *limits, struct batch **batch, struct acre_err *err);
void batch_close(struct batch *batch); /* NULL is allowed */

/* Tests: how many sentences are in it. */
size_t batch_running(const struct batch *batch);

/* Source rows (end tokens included) that one batch_admit() can take; at least one sentence of the
 * longest length. */
size_t batch_admit_rows(const struct batch *batch);

/* Source tokens of the sentences that are best in it at a time, with that beam. */
size_t batch_max_load(const struct batch *batch, size_t beam);

/* Encodes the newcomers; at most as many as slots are free, and their rows at most
 * batch_admit_rows(). */
void batch_admit(struct batch *batch, struct sentence *const *sentences, size_t n);

/* What one call of batch_step() saw end. */
struct batch_step {
    struct sentence **finished; /* the batch's, until the next step */
    size_t n_finished;
    size_t n_steps, n_rows; /* of the device's steps that are known to be over */
};

/* One step. 0, or ACRE_EDEVICE: the device is lost; nobody has finished then, and who runs can only
 * be dropped. */
int batch_step(struct batch *batch, struct batch_step *step, struct acre_err *err);

/* Takes out a running sentence that shall not go on; its status is the caller's business. */
void batch_drop(struct batch *batch, const struct sentence *sentence);

#endif
