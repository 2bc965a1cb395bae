/* rows.h - who the rows of a pass are, on the CPU. Filled by store.c, read by the operations; used
 * by one thread. */
#ifndef DEVICE_CPU_ROWS_H
#define DEVICE_CPU_ROWS_H

#include "base/arena.h"
#include "device/device.h"
#include "search/scan.h"

enum rows_kind {
    ROWS_SOURCE, /* source tokens of sentences that enter */
    ROWS_TARGET, /* known target tokens */
    ROWS_STEP,   /* live hypotheses */
};

/* The rows of one sentence: first ... first + n - 1. */
struct rows_group {
    size_t slot, first, n;
};

struct rows {
    enum rows_kind kind;
    size_t n_rows, n_groups;
    struct arena arena;         /* all of the following */
    int32_t *ids, *positions;   /* [max_rows] */
    struct rows_group *groups;  /* [n_slots] */
    size_t *first;              /* [n_slots + 1]: first rows of groups, and the end */
    struct memory_rows *memory; /* [n_slots]: scratch of attend_memory */
    struct logit_scan *scans;   /* [max_rows] */
    struct candidate *best;     /* [max_rows] or, in a step, [rows of it][2K] */
    /* In a step: */
    const int32_t **paths; /* [n_slots * K], see struct step_rows */
    int32_t *lengths;      /* [n_slots * K] */
};

int cpu_rows_open(struct device *device, size_t max_rows, const struct store_shape *shape,
                  struct rows **rows);
void cpu_rows_close(struct rows *rows);

#endif
