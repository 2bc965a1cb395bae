/* area_constants.h - what the parameters of areas' keys come to once for all, the same on all
 * devices. Pure. Letters as in shapes.h. */
#ifndef DEVICE_AREA_CONSTANTS_H
#define DEVICE_AREA_CONSTANTS_H

#include <stddef.h>

#include "device/device.h"
#include "tensor/area.h"

/* fc1's part of the embeddings of the size that the walk is at, and its bias: out[D]. scratch: 2 D
 * floats. */
void area_constants_fill(const struct area_key_parts *parts, size_t d, const struct area_walk *walk,
                         float *scratch, float *out);

/* The first n numbers of a tensor, times `scale`: out[n]. */
void area_constants_scale(const struct tensor *tensor, float scale, size_t n, float *out);

#endif
