/* area_steps.h - the CPU backend's decoding with areas one by one: what areas that end with a new
 * item have of their own is appended to the cache.
 */
#ifndef DEVICE_CPU_AREA_STEPS_H
#define DEVICE_CPU_AREA_STEPS_H

#include "device/cpu/areas.h"

size_t cpu_areas_cache_row_floats(const struct attention *attention);

/* One row of a step: path[length] are its rows of the cache, the last one its own. qkv[3C],
 * context[C]. */
void cpu_areas_attend_step(struct stream *stream, const struct attention *attention,
                           const int32_t *path, size_t length, float *cache, const float *qkv,
                           float *context);

#endif
