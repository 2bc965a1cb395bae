/* m2m.h - the pre-norm Transformer of M2M100 and NLLB-200 ("m2m_100"), and of the recipe. */
#ifndef NN_M2M_H
#define NN_M2M_H

#include "nn/architecture.h"

extern const struct architecture m2m_architecture;

#endif
