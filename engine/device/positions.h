/* positions.h - what positions in a sentence add to embeddings, the same on all devices. Pure. */
#ifndef DEVICE_POSITIONS_H
#define DEVICE_POSITIONS_H

#include <stddef.h>

struct tensor;

/* Row p of a table that was learnt; or sines in the first half of the vector and cosines in the
 * second, where column i of either half has the angle p / 10000^(i / steps). p is `first` for the
 * first token of a sentence. */
struct positions {
    size_t n; /* 0: none are added */
    size_t first;
    double steps;
    const struct tensor *learned; /* [first + n, C], borrowed; NULL: sines */
};

/* out[n,C] */
void positions_fill(const struct positions *positions, size_t c, float *out);

#endif
