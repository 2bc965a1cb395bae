/* marian.h - MarianMT's Transformer ("marian"): post-norm. */
#ifndef NN_MARIAN_H
#define NN_MARIAN_H

#include "nn/architecture.h"

extern const struct architecture marian_architecture;

#endif
