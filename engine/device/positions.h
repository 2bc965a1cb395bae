/* positions.h - the position table that embeddings are added to, the same on all devices. Pure. */
#ifndef DEVICE_POSITIONS_H
#define DEVICE_POSITIONS_H

#include <stddef.h>

/* out[n_positions, C]. Column c of the sines has the angle position / 10000^(2c / C), and so has
 * the cosine C/2 on. */
void positions_fill(size_t n_positions, size_t c, float *out);

#endif
