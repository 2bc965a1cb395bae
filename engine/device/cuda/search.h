/* search.h - the search on the device: who the rows of a step are, candidates from logits, and the
 * step to the next hypotheses. The rules are search/rules.h, as on the CPU.
 *
 * Slots have a search each, with room for `beam` hypotheses. What hypotheses keep is found by
 * numbers, so that nothing is copied when beams are reordered: hypothesis b of a slot at step t has
 * row (slot * positions + t) * beam + b of a cache, and of states and paths, which only the next
 * step reads, row ((t mod 2) * slots + slot) * beam + b.
 */
#ifndef DEVICE_CUDA_SEARCH_H
#define DEVICE_CUDA_SEARCH_H

#include "device/cuda/gpu.h"

#define SEARCH_RULE GPU_BOTH
extern "C" {
#include "search/rules.h"
#include "search/scan.h"
}

enum {
    SEARCH_SLICE = 512,      /* ids whose candidates are found together */
    SEARCH_MAX_SLICES = 512, /* of a vocabulary */
    SEARCH_PAGES = 4,        /* steps of which the host may read */
};

/* How large the store of a device is. */
struct slots_shape {
    int n_slots, beam, positions;
};

/* Hypothesis b's row of what only the next step reads. */
GPU_BOTH int turn_row(const slots_shape &shape, int slot, int t, int b)
{
    return ((t & 1) * shape.n_slots + slot) * shape.beam + b;
}

GPU_BOTH int cache_row(const slots_shape &shape, int slot, int t, int b)
{
    return (slot * shape.positions + t) * shape.beam + b;
}

/* What a step tells the host, in pinned memory: a page for each of the last SEARCH_PAGES steps, so
 * that a recorded step can write it. Words: its rows, then of each slot whether it has ended. */
struct step_pages {
    int32_t *words; /* [SEARCH_PAGES][1 + n_slots] */
    uint32_t *step; /* on the device: steps begun so far; from 2^32 on they are counted anew */
};

static_assert((SEARCH_PAGES & (SEARCH_PAGES - 1)) == 0, "pages take turns from 2^32 on, too");

/* ---- Rows of a step -------------------------------------------------------------------------- */

/* Rows [n_slots * beam], in the order of slots: the live hypotheses. */
struct place_task {
    struct slots_shape shape;
    const struct search *searches; /* [n_slots] */
    int32_t *n_rows, *n_groups;
    int32_t *slots, *beams;       /* of rows */
    int32_t *ids, *places;        /* what each reads, and its position */
    int32_t *lengths, *path_rows; /* items it attends to, and where their numbers are */
    int32_t *state_before, *state_after;
    int32_t *groups; /* [n_slots][3]: slot, first row, rows: of slots that have any */
    struct step_pages pages;
};

void place_launch(cudaStream_t stream, const place_task &task);

/* ---- Candidates ------------------------------------------------------------------------------ */

/* What is known of a slice of a row's logits. */
struct slice_scan {
    float maximum, sum; /* of exp(logit - maximum) */
    int32_t n;          /* candidates */
};

/* Logits [R][stride] of the ids first_id ... first_id + n_ids - 1; first_id is a multiple of
 * SEARCH_SLICE. */
struct scan_task {
    const float *logits;
    int stride, first_id, n_ids;
    const struct search *searches;
    const int32_t *n_rows, *slots, *beams;
    int n_slices;             /* of the whole vocabulary */
    struct slice_scan *scans; /* [R][n_slices] */
    struct candidate *best;   /* [R][n_slices][2 beam]: higher logit first, then lower id */
    int beam;
};

void scan_launch(cudaStream_t stream, const scan_task &task, int max_rows);

/* ---- The next hypotheses --------------------------------------------------------------------- */

/* What the host reads of a slot; in pinned memory. */
struct slot_end {
    int32_t n_hypotheses;
    int32_t n_tokens[MAX_BEAM];
    float score[MAX_BEAM], normalized_score[MAX_BEAM];
};

struct advance_task {
    struct slots_shape shape;
    struct search *searches;
    const int32_t *groups, *n_groups;
    int n_slices;
    const struct slice_scan *scans;
    const struct candidate *best;
    struct continuation *merged; /* [R][2 beam], scratch */
    int32_t *merged_counts;      /* [R], scratch */
    int32_t *paths;              /* [2 * n_slots * beam][positions] */
    struct slot_end *ends;       /* [n_slots] */
    int32_t *tokens;             /* [n_slots][beam][positions] */
    struct step_pages pages;

    /* Where alignments are kept; NULL: nowhere. */
    const int32_t
        *alignment;      /* [n_slots][positions][beam]: what the step of node (t, b) looks at */
    int32_t *alignments; /* [n_slots][beam][positions]: of the tokens of results */
    const int32_t *is_aligned; /* [n_slots]: whether they are wanted */
};

void advance_launch(cudaStream_t stream, const advance_task &task);

/* The only hypothesis of a slot goes on with this token. */
struct force_task {
    struct advance_task advance;
    int32_t slot, token;
};

void force_launch(cudaStream_t stream, const force_task &task);

#endif
