/* attend_tiles.h - attention of whole sentences on tensor cores, 64 queries by 64 keys at a time.
 * Private to attend.cu; see attend_tiles.cu. */
#ifndef DEVICE_CUDA_ATTEND_TILES_H
#define DEVICE_CUDA_ATTEND_TILES_H

#include "device/cuda/attend.h"

/* Only where attend_has_tiles(). */
void attend_tiles_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                         int max_tiles, size_t shared_bytes);

#endif
