/* shapes.h - the letters used for tensor shapes everywhere in the engine.
 *
 *   B  sentences in a batch            S  source length in tokens, end token included
 *   R  rows: one live hypothesis or    T  target length so far
 *      one source token each           V  vocabulary size
 *   C  model width (d_model)           F  inner width of the feed-forward layer
 *   H  attention heads                 D  head width, C / H
 *   K  beam size                       A  largest area width
 *   L  length of an attention memory   N, M, k  columns, rows, inner size of a product
 *
 * Tensors are row-major float32 unless said. Rows of sentences are packed one after the other
 * without padding; `first[b]` is the first row of sentence b and first[B] the number of rows.
 */
#ifndef ENGINE_SHAPES_H
#define ENGINE_SHAPES_H

#include "acre.h"

enum {
    MAX_AREA_WIDTH = 16, /* widest area a configuration may ask for */
    MAX_AREA_HEIGHT = 8, /* highest, where the memory is a grid */
    MAX_BEAM = ACRE_MAX_BEAM_SIZE,
};

#endif
