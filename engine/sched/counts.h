/* counts.h - adds up what a model does, for acre_statistics. Called by what changes a plan,
 * and locked as that is. */
#ifndef SCHED_COUNTS_H
#define SCHED_COUNTS_H

#include "decode/sentence.h"

/* A sentence has ended, as its status says. */
void counts_end(struct acre_statistics *counts, const struct sentence *sentence);

/* A sentence begins after it has waited. */
void counts_wait(struct acre_statistics *counts, uint64_t waited_ns);

/* Steps of a batch, with their rows in all. */
void counts_steps(struct acre_statistics *counts, size_t n_steps, size_t n_rows,
                  size_t n_sentences);

#endif
