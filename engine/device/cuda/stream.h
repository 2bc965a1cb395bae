/* stream.h - one worker's place on a GPU: what is done on it happens in order, and has the scratch
 * memory that its operations need. A stream belongs to one thread at a time. */
#ifndef DEVICE_CUDA_STREAM_H
#define DEVICE_CUDA_STREAM_H

#include "device/cuda/graphs.h"
#include "device/cuda/items.h"
#include "device/cuda/weights.h"

struct stream {
    const struct cuda_device *device;
    cudaStream_t cuda;
    struct graphs *graphs;    /* owned; NULL: passes are launched plainly */
    struct gpu_memory memory; /* all of the following */
    float *sums;              /* [max_rows][sums_stride]: of a sublayer's last product */
    int sums_stride;
    int8_t *quantised;       /* [max_rows][depth] */
    float *scales;           /* [max_rows] */
    int32_t *one;            /* the number 1 */
    float *rows, *turned;    /* [max_rows][sums_stride]: of items, of queries, see items.h */
    float *weights;          /* [planes][L]: of one query, for pictures */
    struct area_items areas; /* of the sentences of a pass: [max_rows] */
};

int cuda_stream_open(struct device *device, const struct stream_limits *limits,
                     struct stream **stream);
void cuda_stream_close(struct stream *stream);

#endif
