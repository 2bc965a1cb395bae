/* rows.h - who the rows of a pass are, on the GPU.
 *
 * The host fills a pinned page and sends it in one copy: rows of sentences that enter, or of known
 * tokens. Rows of a step are found on the device (search.h, place_rows); of those the host knows
 * how many there may be at most. Two pages take turns, so that one may be filled while the other is
 * on its way.
 */
#ifndef DEVICE_CUDA_ROWS_H
#define DEVICE_CUDA_ROWS_H

#include "device/cuda/backend.h"
#include "device/cuda/slots.h"

enum rows_kind {
    ROWS_SOURCE, /* source tokens of sentences that enter */
    ROWS_TARGET, /* known target tokens */
    ROWS_STEP,   /* live hypotheses */
};

/* The same on the device and in a page of the host: sentences are numbered as they are told. */
struct row_table {
    int32_t *n_rows, *n_groups, *n_tiles;
    int32_t *ids, *places;    /* [max_rows] */
    int32_t *sentences;       /* [max_rows]: but of a step */
    int32_t *slots;           /* [max_rows] */
    int32_t *first;           /* [n_slots + 1]: rows of sentences */
    int32_t *group_slots;     /* [n_slots] */
    int32_t *groups;          /* [n_slots][3]: slot, first row, rows */
    int32_t *bases;           /* [n_slots]: rows of the memories */
    int32_t *states;          /* [n_slots]: where the states that the encoder leaves are */
    int32_t *tiles;           /* [max_tiles][2]: sentence, first query in it */
    struct entrant *entrants; /* [n_slots] */
};

/* What there is at most of everything in a pass, which is all that its launches depend on. Rounded
 * up to powers of 2, by which few graphs serve all passes (graphs.h); ints only. */
struct pass_bounds {
    int most_rows, most_groups, most_group_rows, most_tiles;
    int longest;        /* sentence among the rows */
    int longest_source; /* whose memory they attend to */
    int longest_path;   /* of a step */
    int is_aligned;     /* of a step: alignments are wanted */
};

struct row_page {
    char *bytes; /* pinned */
    struct row_table table;
    cudaEvent_t sent; /* it may be filled again */
};

struct rows : pass_bounds {
    const struct cuda_device *device;
    struct gpu_memory memory;
    size_t max_rows, n_slots, max_tiles, table_bytes;
    struct slots_shape shape;
    struct row_table table;               /* on the device */
    int32_t *beams, *lengths, *path_rows; /* [n_slots * beam]: of a step, on the device */
    int32_t *state_before, *state_after;  /* likewise */
    struct row_page pages[2];
    int next_page;

    enum rows_kind kind; /* what the present pass is */
    bool has_advanced;   /* the searches have gone on in this pass */

    int n_slices;                /* of the vocabulary */
    int logits_stride;           /* ids whose logits are there at one time */
    float *logits;               /* [max_rows][logits_stride] */
    struct slice_scan *scans;    /* [n_slots * beam][n_slices] */
    struct candidate *best;      /* [n_slots * beam][n_slices][2 beam] */
    struct continuation *merged; /* [n_slots * beam][2 beam] */
    int32_t *merged_counts;      /* [n_slots * beam] */
};

int cuda_rows_open(struct device *device, size_t max_rows, const struct store_shape *shape,
                   struct rows **rows);
void cuda_rows_close(struct rows *rows);

/* The page to fill, after it was sent last; and sends it. */
struct row_page *rows_page(struct rows *rows);
void rows_send(struct rows *rows, struct row_page *page, cudaStream_t stream);

/* One sentence after the other, into a page. */
void rows_clear(struct rows *rows, struct row_page *page, enum rows_kind kind);
void rows_add(struct rows *rows, struct row_page *page, size_t slot, size_t n);

/* The bounds of the pass become those of its class. */
void rows_widen(struct rows *rows);

#endif
