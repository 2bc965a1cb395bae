/* store.h - what sentences keep from step to step, on the GPU, by slot.
 *
 * The searches and everything they need are on the device. The host keeps of a slot what it knows
 * without asking: who is in it, since which step, and so how long its hypotheses may be. A step
 * writes which slots have ended into a page of pinned memory, and their hypotheses behind it;
 * poll() waits for the step and reads them.
 */
#ifndef DEVICE_CUDA_STORE_H
#define DEVICE_CUDA_STORE_H

#include "device/cuda/attend.h" /* struct looks */
#include "device/cuda/items.h"
#include "device/cuda/rows.h"
#include "device/cuda/stream.h"

/* What the host knows of a slot. */
struct slot {
    bool is_running;
    int64_t first_step; /* ends of earlier steps are not its sentence's */
    int source_length, beam_size, n_hypotheses, max_length;
    bool is_aligned;
    float penalty; /* of the table that is there; the first n_penalties of it are filled */
    size_t n_penalties;
    size_t next_told;  /* 0 or 1: where the next table is told from */
    size_t next_nodes; /* likewise, of nodes */
};

struct store {
    const struct cuda_device *device;
    struct store_shape shape;
    struct slots_shape slots_shape;

    struct gpu_memory memory; /* all of the following, on the device: */
    struct constraint *constraint;
    struct search *searches;       /* [n_slots] */
    struct search_node *nodes;     /* [n_slots][positions][beam] */
    double *penalties;             /* [n_slots][positions + 1] */
    int32_t *paths;                /* [2 * n_slots * beam][positions] */
    int32_t *lengths, *is_aligned; /* [n_slots]: of sources; whether alignments are wanted */
    int32_t *first_items;          /* [n_slots]: of the sources' texts, */
    int32_t *end_items;            /* and behind the last of them */
    float *states;                 /* [2 * n_slots * beam][n_states * state_width] */
    struct area_items *memories;   /* [n_layers]: of n_slots * positions rows; the array is owned */
    struct area_items *caches;     /* [n_layers] of n_slots * positions * beam rows; likewise */
    float *looks;                  /* [aligned layers][H][n_slots * beam][positions] */
    size_t look_heads;             /* aligned layers times heads */
    int32_t *alignment;            /* [n_slots][positions][beam] */
    uint32_t *step;                /* steps begun so far, see search.h */
    float *carried, *recurrent;    /* [n_slots * beam][C padded], [..][4C padded]: of LSTM layers */
    void *carried_narrow;          /* likewise, of 16 bits */

    /* pinned: */
    double *told_penalties;         /* [n_slots][2][positions + 1]: on their way to `penalties` */
    struct search_node *told_nodes; /* [n_slots][2][positions]: likewise to `nodes` */
    int32_t *pages;                 /* [SEARCH_PAGES][1 + n_slots] */
    struct slot_end *ends;          /* [n_slots] */
    int32_t *tokens;                /* [n_slots][beam][positions] */
    int32_t *alignments;            /* likewise */

    /* the host's own: */
    struct slot *slots;                  /* owned, [n_slots] */
    struct ended *ended;                 /* owned, [n_slots] */
    struct ended_hypothesis *hypotheses; /* owned, [n_slots][beam] */
    cudaEvent_t done[SEARCH_PAGES];      /* steps, by number */
    int64_t n_steps, n_polled;           /* launched so far, and read */
};

int cuda_store_open(struct device *device, const struct store_shape *shape, struct store **store);
size_t cuda_store_token_bytes(const struct store *store, size_t beam);
void cuda_store_close(struct store *store);

void cuda_enter(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                const struct entry *entries);
void cuda_force(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                const struct forced *forced);
void cuda_drop(struct stream *stream, struct store *store, size_t slot);
void cuda_run(struct stream *stream, struct rows *rows, struct store *store, void (*body)(void *),
              void *user);
int cuda_poll(struct stream *stream, struct store *store, int most_behind,
              struct progress *progress, struct acre_err *err);

void cuda_search_begin(struct stream *stream, struct rows *rows, struct store *store);
void cuda_search_advance(struct stream *stream, struct rows *rows, struct store *store);
void cuda_search_force(struct stream *stream, struct store *store, size_t slot, int32_t token);

/* Where an attention of a layer tells what its items weigh; weights NULL: nowhere. */
struct looks store_looks(const struct store *store, const struct rows *rows, size_t layer,
                         size_t n_heads);

/* `rows` become those of a step: their bounds. */
void store_bound_step(const struct store *store, struct rows *rows);

#endif
