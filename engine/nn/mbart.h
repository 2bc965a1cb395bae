/* mbart.h - the pre-norm Transformer of mBART-50 ("mbart"). */
#ifndef NN_MBART_H
#define NN_MBART_H

#include "nn/architecture.h"

extern const struct architecture mbart_architecture;

#endif
