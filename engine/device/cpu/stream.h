/* stream.h - one worker's place on the CPU: the scratch memory of its operations.
 *
 * Sizes are those of the largest model of the stream's limits. A stream belongs to one thread.
 */
#ifndef DEVICE_CPU_STREAM_H
#define DEVICE_CPU_STREAM_H

#include "base/arena.h"
#include "device/device.h"
#include "kernels/kernels.h"

enum {
    CPU_QUERY_BLOCK = 32,   /* query rows whose scores are in scratch at one time */
    CPU_OUTPUT_BLOCK = 512, /* vocabulary columns, likewise */
    CPU_ROW_BLOCK = 256,    /* rows that are packed for a product, likewise */
};

struct cpu_device {
    struct device device; /* first: device_ops get a pointer to it */
    const struct kernels *kernels;
    char name[64];
};

/* Of one head of one sentence, [L,D]; the others say so. */
struct area_scratch {
    float *items, *squares, *deviations;
    float *integrals[2];  /* of x, of squares */
    float *columns;       /* of area_extend(), and windows where the memory is a grid */
    float *windows[3];    /* sums: of items after base (or maxima), of x, of squares */
    float *entries;       /* [planes][Lp][D], keys or values before they are packed */
    float *keys, *values; /* packed, of all planes */
    float *weights;       /* [2][planes][Lp] */
    float *query;         /* [CPU_QUERY_BLOCK][C], see cpu_area_key_query() */
    float *ends[3];       /* of areas that end with a step's items, [planes][C] */
};

struct stream {
    const struct kernels *kernels;
    struct arena arena;
    float *scores;     /* [CPU_QUERY_BLOCK][planes][Lp] */
    float *area;       /* scratch of area_coverage */
    float *query;      /* [2][Dp + 2 KERNEL_PAD]: a head's query between zeros, and its context */
    float *logits;     /* [CPU_ROW_BLOCK][CPU_OUTPUT_BLOCK] */
    char *rows;        /* CPU_ROW_BLOCK rows packed for a product */
    float *row_scales; /* [CPU_ROW_BLOCK] */
    char *queries;     /* CPU_QUERY_BLOCK rows of queries or coverage packed for a product */
    struct area_scratch areas;
};

static inline const struct cpu_device *cpu_device_of(const struct device *device)
{
    return (const struct cpu_device *)device;
}

int cpu_stream_open(struct device *device, const struct stream_limits *limits,
                    struct stream **stream);
void cpu_stream_close(struct stream *stream);

#endif
