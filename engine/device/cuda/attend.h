/* attend.h - plain area attention (kernels.h: area_is_plain()): a softmax over the areas of a line,
 * at the cost of regular attention; width 1 is that.
 *
 * What a query gets depends on its items and on their number alone. Heads stand one behind the
 * other; queries are scaled. Heads of 32, 64 or a multiple of 128 numbers are read in pieces of 16
 * bytes, where rows begin at multiples of that; all others number by number. There are two ways to
 * compute: by rows, a block for a head of one query, or of a few that see the same items; and by
 * tiles of 64 queries on tensor cores, for whole sentences.
 */
#ifndef DEVICE_CUDA_ATTEND_H
#define DEVICE_CUDA_ATTEND_H

#include "device/cuda/gpu.h"

enum items_of {
    ITEMS_OF_STEP,     /* rows of a cache, found through the row's path; the last one is new */
    ITEMS_OF_SENTENCE, /* the rows of the query's own sentence */
    ITEMS_OF_MEMORY,   /* what a slot keeps of a sentence, for the rows of that slot */
};

/* What the items of a memory weigh, in every head, for alignments of source and target. */
struct looks {
    float *weights; /* [H][head_stride]: of every row, `stride` apart; NULL: nobody wants to know */
    const int32_t *is_wanted; /* [slots]: whether it is told of this slot's rows */
    int stride;
    size_t head_stride;
};

/* Strides are in numbers of the type. */
struct attend_task {
    enum items_of items_of;
    const void *query; /* [R, query_stride]: queries of all heads; of a step keys and values behind
                        * them, and of a sentence, too */
    void *context;     /* [R, context_stride] */
    int query_stride, context_stride;
    int n_heads, head_width; /* H, D */
    int area_width;          /* A */
    bool is_mean;            /* values of areas are means, not sums */
    int max_length;          /* no row has more items */
    const int32_t *n_rows;

    void *items;        /* of a step and of a memory: [items][2][H][D], keys, then values */
    size_t slot_stride; /* of a memory: from slot to slot */

    const int32_t *paths;     /* of a step: rows of path_stride: the numbers of the items */
    const int32_t *path_rows; /* of a step: [R]: the row's path; NULL: its own number */
    int path_stride;
    const int32_t *lengths; /* of a step: [R]; of a memory: [slots] */

    const int32_t *sentences; /* of sentences: [R]: the row's one */
    const int32_t *first;     /* [sentences + 1]: row b to b + 1 */
    bool is_causal;
    const int32_t *tiles; /* [n_tiles][2]: sentence, first query in it; by tiles only */
    const int32_t *n_tiles;

    const int32_t *slots; /* of a memory: [groups][3]: slot, its first row, its rows */
    const int32_t *n_groups;
    struct looks looks; /* of a memory */
};

enum { ATTEND_TILE = 64 }; /* queries */

/* max_rows and max_groups are what the grid is for; max_beam the most rows of a group. */
void attend_step_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                        int max_rows);
void attend_memory_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                          int max_groups, int max_beam);

/* By tiles where type, widths and shared memory allow it, else by rows. */
void attend_sentences_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                             int max_rows, int max_tiles, size_t shared_bytes);

/* What a block needs of shared memory, by rows. */
size_t attend_bytes(int max_length, int area_width);

bool attend_has_tiles(enum number_type type, const attend_task &task, size_t shared_bytes);

/* Keys and values of whole sentences into the memories of their slots, [slot][L][2][C]. */
struct store_task {
    const void *keys, *values; /* [R, stride], C of each row */
    int c, key_stride, value_stride;
    void *memory;
    size_t slot_stride;
    const int32_t *sentences, *first, *slots; /* [R], [sentences + 1], [sentences] */
    const int32_t *n_rows;
};

void store_memory_launch(cudaStream_t stream, enum number_type type, const store_task &task,
                         int max_rows);

#endif
