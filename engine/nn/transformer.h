/* transformer.h - MarianMT's Transformer: post-norm, sinusoidal positions, tied output, with area
 * attention per layer and attention; width 1 is regular attention by the same code. Rows are packed
 * without padding. Letters as in shapes.h.
 */
#ifndef NN_TRANSFORMER_H
#define NN_TRANSFORMER_H

#include "nn/architecture.h"

extern const struct architecture transformer_architecture;

#endif
