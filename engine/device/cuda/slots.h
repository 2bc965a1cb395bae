/* slots.h - sentences come into slots and leave them, and what a slot keeps for alignments. */
#ifndef DEVICE_CUDA_SLOTS_H
#define DEVICE_CUDA_SLOTS_H

#include "device/cuda/search.h"

/* A sentence that enters, as the host tells. */
struct entrant {
    int32_t slot, source_length; /* end token included */
    int32_t is_aligned, first_item, end_item;
    struct acre_decoding decoding;
    struct search_prefix prefix;
    int32_t first_token; /* of the translation, where prefix.n is 1 */
};

/* Each entrant's search begins; its states are zeros. */
struct enter_task {
    struct slots_shape shape;
    const struct entrant *entrants; /* [*n_entrants] */
    const int32_t *n_entrants;
    struct search *searches;
    const struct constraint *constraint;
    int start_token, end_token;
    bool renormalize;
    struct search_node *nodes;        /* [n_slots][positions][beam] */
    const double *penalties;          /* [n_slots][positions + 1] */
    int32_t *paths;                   /* [2 * n_slots * beam][positions] */
    int32_t *lengths, *is_aligned;    /* [n_slots] */
    int32_t *first_items, *end_items; /* likewise */
    float *states;                    /* [2 * n_slots * beam][state_numbers] */
    size_t state_numbers;
};

void enter_launch(cudaStream_t stream, const enter_task &task, int n_entrants);

/* No hypothesis of the slot is live any more. */
struct drop_task {
    struct search *searches;
    int32_t slot;
};

void drop_launch(cudaStream_t stream, const drop_task &task);

/* Of every row of a step whose slot wants to know, the item of the text that it looks at most, over
 * all heads in their order. End and language tokens are no part of any text, and where a model
 * looks if it has nothing to look at. */
struct align_task {
    struct slots_shape shape;
    const float *looks; /* [n_heads][head_stride]: rows of `stride` */
    int n_heads, stride;
    size_t head_stride;
    const int32_t *n_rows, *slots, *beams, *places; /* of the step's rows */
    const int32_t *lengths, *is_aligned;            /* [n_slots] */
    const int32_t *first_items, *end_items;         /* likewise: of the text */
    int32_t *alignment;                             /* [n_slots][positions][beam] */
};

void align_launch(cudaStream_t stream, const align_task &task, int max_rows);

#endif
