/* pace.h - how fast a model decodes, and how true estimates by that were, measured while it does.
 *
 * Three figures, in which what is longer ago counts less: work a second, of one worker whose batch
 * is as full as it gets, encoder passes included; and steps per source row of sentences that have
 * ended; and how much longer waiting and decoding took than was estimated. A sentence's work is its
 * steps times its beam, whether all hypotheses live or not. Nobody waits for a place in a batch
 * that is not full, so it tells nothing of how long waiting takes. Plain numbers: the caller holds
 * the scheduler's lock. Start from zeros.
 */
#ifndef SCHED_PACE_H
#define SCHED_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/sentence.h"

struct pace {
    double n_full, work, steps, ns; /* of steps of full batches */
    double ended_steps, ended_rows; /* of sentences: the steps they took, their source rows */
    double n_estimates, estimated, took,
        strayed; /* ns; by how much squared, for each ns estimated */
};

/* A worker was busy for `ns` with a full batch of sentences whose beams add up to n_beams. */
void pace_count_full(struct pace *pace, size_t n_steps, size_t n_beams, uint64_t ns);

/* A sentence took so many steps until it was translated. */
void pace_count_ended(struct pace *pace, const struct sentence *sentence, uint64_t n_steps);

/* What had been estimated at estimate_ns took took_ns, or is given up after that. */
void pace_count_estimate(struct pace *pace, uint64_t estimate_ns, uint64_t took_ns);

/* What an estimate is multiplied with so that hardly anything takes longer: what those that have
 * ended were to be multiplied with on average, and their standard deviation. */
double pace_caution(const struct pace *pace);

/* Whether enough was seen to say how long things take. */
bool pace_is_known(const struct pace *pace);

/* The steps that decoding the sentence is expected to take, and its work. */
double pace_steps(const struct pace *pace, const struct sentence *sentence);
uint64_t pace_work(const struct pace *pace, const struct sentence *sentence);

/* Once it is known: how long one worker is busy with so much work, and so many steps. */
double pace_work_ns(const struct pace *pace, double work);
double pace_steps_ns(const struct pace *pace, double n_steps);

#endif
