#include "sched/counts.h"

enum { N_BUCKETS = sizeof(((struct acre_statistics *)0)->waits) / sizeof(uint64_t) };

/* See acre.h. */
static size_t bucket_of(uint64_t value)
{
    size_t i = 0;
    while (i < N_BUCKETS - 1 && value > (uint64_t)1 << i)
        i++;
    return i;
}

void counts_end(struct acre_statistics *counts, const struct sentence *sentence)
{
    if (sentence->status == ACRE_ECANCELLED) {
        counts->cancelled_sentences++;
    } else if (sentence->status == ACRE_ETIMEOUT) {
        counts->expired_sentences++;
    } else if (sentence->status != 0) {
        counts->failed_sentences += sentence->status != ACRE_ECLOSED;
    } else {
        counts->done_sentences++;
        counts->done_source_tokens += sentence->n_source;
        if (sentence->n_hypotheses > 0)
            counts->done_target_tokens += sentence->hypotheses[0].n_tokens;
    }
}

void counts_wait(struct acre_statistics *counts, uint64_t waited_ns)
{
    uint64_t waited_ms = (waited_ns + 999999) / 1000000;
    counts->waits[bucket_of(waited_ms)]++;
    counts->waited_ms += waited_ms;
}

void counts_steps(struct acre_statistics *counts, size_t n_steps, size_t n_rows, size_t n_sentences)
{
    counts->steps += n_steps;
    counts->rows += n_rows;
    counts->batches[bucket_of(n_sentences)] += n_steps;
    counts->batched += n_sentences * n_steps;
}
