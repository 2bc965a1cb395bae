/* transformer.h - what Transformers compute: sinusoidal or learned positions, tied output, area
 * attention per layer and attention; width 1 is regular attention by the same code. Rows are packed
 * without padding. The functions are those of struct architecture, for the tables of marian.c and
 * its like. Private to nn/. Letters as in shapes.h.
 */
#ifndef NN_TRANSFORMER_H
#define NN_TRANSFORMER_H

#include "nn/architecture.h"

int transformer_open(struct device *device, const struct config *config,
                     struct safetensors *weights, struct network **out, struct acre_err *err);
void transformer_close(struct network *network);
void transformer_needs(const struct network *network, struct network_needs *needs);
struct buffer *transformer_encode(const struct network *network, const struct pass *pass);
struct buffer *transformer_step(const struct network *network, const struct pass *pass);
struct buffer *transformer_decode(const struct network *network, const struct pass *pass);

#endif
