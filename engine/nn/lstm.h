/* lstm.h - LSTM sequence-to-sequence models ("acre-lstm").
 *
 * Encoder and decoder are stacks of LSTM layers of C cells; the decoder's begin with the encoder's
 * last states. After each step every head h of Luong attention (multiplicative, not scaled) over
 * areas of the encoder's outputs m gives a vector, which is fed to the first layer of the next
 * step; the heads' vectors are joined to the output:
 *
 *   context_h = attention of q = hidden of the last layer over areas of keys K_h·m and values m
 *   a_h       = A_h·[hidden; context_h]
 *   output    = a_1, or with several heads O·[a_1; ...; a_H] + o
 *
 * Where the keys of areas combine features (Eq. 9), the features are those of K_h·m, and the heads
 * share the dense layers and the embeddings of sizes, as in the authors' code. Two things of that
 * code the paper does not have, and neither has Acre: it reads the source from its end, which
 * served models without attention, and its heads share K_h, so that they attend to the same places.
 *
 * A hypothesis carries hidden and cell state of every layer and a_1 ... a_H from step to step.
 */
#ifndef NN_LSTM_H
#define NN_LSTM_H

#include "nn/architecture.h"

extern const struct architecture lstm_architecture;

#endif
