/* Sums that shrink a little with each step or sentence, so that their quotients follow the model as
 * it is now. */
#include "sched/pace.h"

#include <math.h>

/* How much of a sum the next one leaves: 128 steps are a second of a small model. */
static const double keep_steps = 1 - 1.0 / 128, keep_sentences = 1 - 1.0 / 256;

/* Until enough estimates have ended; then its bounds. */
static const double usual_caution = 1.1, least_caution = 0.5, most_caution = 3;

/* Of full batches; of sentences that have ended; of estimates. */
enum { ENOUGH_STEPS = 16, ENOUGH_ROWS = 64, ENOUGH_ESTIMATES = 32 };

void pace_count_full(struct pace *pace, size_t n_steps, size_t n_beams, uint64_t ns)
{
    pace->n_full = keep_steps * pace->n_full + 1;
    pace->work = keep_steps * pace->work + (double)n_steps * (double)n_beams;
    pace->steps = keep_steps * pace->steps + (double)n_steps;
    pace->ns = keep_steps * pace->ns + (double)ns;
}

void pace_count_ended(struct pace *pace, const struct sentence *sentence, uint64_t n_steps)
{
    pace->ended_steps = keep_sentences * pace->ended_steps + (double)n_steps;
    pace->ended_rows = keep_sentences * pace->ended_rows + (double)sentence_source_rows(sentence);
}

void pace_count_estimate(struct pace *pace, uint64_t estimate_ns, uint64_t took_ns)
{
    double estimate = (double)estimate_ns, error = (double)took_ns - estimate;
    pace->n_estimates = keep_sentences * pace->n_estimates + 1;
    pace->estimated = keep_sentences * pace->estimated + estimate;
    pace->took = keep_sentences * pace->took + (double)took_ns;
    pace->strayed = keep_sentences * pace->strayed + error * error / estimate;
}

/* Each estimate weighs what it is: who waits long is in danger of being late. */
double pace_caution(const struct pace *pace)
{
    if (pace->n_estimates < ENOUGH_ESTIMATES)
        return usual_caution;
    double mean = pace->took / pace->estimated;
    double variance = pace->strayed / pace->estimated - (mean - 1) * (mean - 1);
    double caution = mean + sqrt(variance > 0 ? variance : 0);
    return fmin(fmax(caution, least_caution), most_caution);
}

bool pace_is_known(const struct pace *pace)
{
    return pace->n_full >= ENOUGH_STEPS && pace->work > 0 && pace->steps > 0 && pace->ns > 0 &&
           pace->ended_rows >= ENOUGH_ROWS;
}

double pace_steps(const struct pace *pace, const struct sentence *sentence)
{
    double least = sentence->decoding.min_length + 1, most = sentence->decoding.max_length + 1;
    double n = (double)sentence_source_rows(sentence);
    if (pace->ended_rows > 0)
        n *= pace->ended_steps / pace->ended_rows;
    n = n < least ? least : n;
    return n > most ? most : n;
}

uint64_t pace_work(const struct pace *pace, const struct sentence *sentence)
{
    return (uint64_t)(pace_steps(pace, sentence) * sentence->decoding.beam_size + 0.5);
}

double pace_work_ns(const struct pace *pace, double work)
{
    return work * pace->ns / pace->work;
}

double pace_steps_ns(const struct pace *pace, double n_steps)
{
    return n_steps * pace->ns / pace->steps;
}
