/* store.h - what sentences keep from step to step, on the CPU.
 *
 * A slot has its encoder memory (of all layers, one after the other, each as long as the source;
 * in front of it the states that the encoder leaves), its search, and a range of rows in the
 * caches: row (t mod T) * beam + b for node (t, b) of the search. A hypothesis finds its past
 * through its path, the rows of its ancestors, so that keys and values are never copied when beams
 * are reordered. T is 2 where hypotheses carry states only: older rows are written anew.
 *
 * Memory is reserved at its largest as pages; these become resident when they are written, and go
 * back when a long sentence ends.
 */
#ifndef DEVICE_CPU_STORE_H
#define DEVICE_CPU_STORE_H

#include "device/cpu/rows.h"
#include "search/search.h"

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_ENDED };

struct slot {
    enum slot_state state;
    bool is_aligned;
    size_t first_item, end_item; /* of the text */
    struct search search;
    struct search_node *nodes; /* [positions][K], the search's */
    size_t source_length;      /* end token included */
    float *states;             /* [n_states][state_width]: where the decoder begins */
    float *memory;             /* of all layers, at memory_places */
    size_t *memory_places;     /* [n_layers + 1], floats */
    int32_t *paths[2];  /* [K][positions] cache rows: now, and being built; once the search is
                         * over, tokens and alignments of its results */
    int32_t *alignment; /* [positions][K]: the source token that the step of node (t, b) looks
                         * at most */
    double *penalties;  /* [positions + 1], the search's; n_penalties of them are filled */
    float penalty;
    size_t n_penalties;
    struct ended_hypothesis *hypotheses; /* [K]: its results */
};

struct store {
    struct store_shape shape;
    size_t cache_steps;       /* T */
    size_t row_floats;        /* of a row of all caches together */
    struct progress progress; /* since the last poll */
    float *memories, *cache;  /* mapped: of all slots, of all rows */
    size_t n_memories, n_cache;

    struct arena arena;  /* all of the following */
    struct slot *slots;  /* [n_slots] */
    struct ended *ended; /* [n_slots]: progress.ended */
    float **caches;      /* [n_layers]: parts of `cache`; and what is behind them: */
    float *states;       /* [rows][n_states * state_width] */
    float
        *item_weights;  /* [n_slots * K][positions]: of the rows of a step, over layers and heads */
    float *lstm_gates;  /* [n_slots][4C]: scratch of whole sentences */
    float *lstm_hidden; /* [n_slots * K][C]: likewise, and of steps */
};

int cpu_store_open(struct device *device, const struct store_shape *shape, struct store **store);
size_t cpu_store_token_bytes(const struct store *store, size_t beam);
void cpu_store_close(struct store *store);

void cpu_enter(struct stream *stream, struct rows *rows, struct store *store, size_t n,
               const struct entry *entries);
void cpu_force(struct stream *stream, struct rows *rows, struct store *store, size_t n,
               const struct forced *forced);
void cpu_drop(struct stream *stream, struct store *store, size_t slot);
int cpu_poll(struct stream *stream, struct store *store, int most_behind, struct progress *progress,
             struct acre_err *err);
void cpu_search_begin(struct stream *stream, struct rows *rows, struct store *store);
void cpu_search_advance(struct stream *stream, struct rows *rows, struct store *store);
void cpu_search_force(struct stream *stream, struct store *store, size_t slot, int32_t token);

/* The encoder memory of a slot for one layer. */
static inline float *cpu_memory_of(const struct slot *slot, size_t layer)
{
    return slot->memory + slot->memory_places[layer];
}

/* The states of a row of a step: those it carries on, and those that the step before has left. */
static inline float *cpu_states_after(const struct store *store, const struct rows *rows,
                                      size_t row)
{
    int32_t last = rows->paths[row][rows->lengths[row] - 1];
    return store->states + (size_t)last * store->shape.n_states * store->shape.state_width;
}

static inline const float *cpu_states_before(const struct store *store, const struct rows *rows,
                                             const struct rows_group *group, size_t row)
{
    if (rows->lengths[row] == 1)
        return store->slots[group->slot].states;
    int32_t parent = rows->paths[row][rows->lengths[row] - 2];
    return store->states + (size_t)parent * store->shape.n_states * store->shape.state_width;
}

#endif
