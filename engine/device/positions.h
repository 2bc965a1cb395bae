/* positions.h - the position table that embeddings are added to, the same on all devices. Pure. */
#ifndef DEVICE_POSITIONS_H
#define DEVICE_POSITIONS_H

#include <stddef.h>

/* Sines in the first half of the vector, cosines in the second. Column i of either half has the
 * angle p / 10000^(i / steps), where p is `first` for the first token of a sentence. */
struct positions {
    size_t n; /* 0: none are added */
    size_t first;
    double steps;
};

/* out[n,C] */
void positions_fill(const struct positions *positions, size_t c, float *out);

#endif
