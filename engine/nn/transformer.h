/* transformer.h - the weights of a MarianMT Transformer, bound to a device, and its passes.
 *
 * The mathematics is MarianMT's (post-norm, sinusoidal positions, tied output) with area attention
 * per layer and attention; width 1 is regular attention by the same code. Rows are packed without
 * padding. The weights are immutable and shared by all workers; a workspace and the caches belong
 * to one stream. Letters as in shapes.h.
 */
#ifndef NN_TRANSFORMER_H
#define NN_TRANSFORMER_H

#include "nn/pass.h"

struct transformer;

/* Binds every tensor with its expected shape, for products in config->compute_type. `weights` and
 * `config` must live longer than the transformer, which the caller owns. */
int transformer_open(struct device *device, const struct config *config,
                     struct safetensors *weights, struct transformer **transformer,
                     struct acre_err *err);
void transformer_close(struct transformer *transformer); /* NULL is allowed */

/* network_workspace_fini() frees it. */
int transformer_workspace_init(struct workspace *workspace, const struct transformer *transformer,
                               size_t max_rows);

/* Encoder over whole sentences: ids[R], positions[R]; sentence b has the rows first[b] ...
 * first[b+1] - 1. Result in workspace->hidden. */
void transformer_encode(const struct transformer *transformer, struct stream *stream,
                        struct workspace *workspace, size_t n_sentences, const size_t *first,
                        const int32_t *ids, const int32_t *positions);

/* Floats of one sentence's encoder memory: all decoder layers, one after the other. */
size_t transformer_memory_floats(const struct transformer *transformer, size_t length);

/* After transformer_encode(): computes the cross-attention keys and values of every decoder layer
 * and lays those of sentence b out in memories[b]. */
void transformer_store_memory(const struct transformer *transformer, struct stream *stream,
                              struct workspace *workspace, size_t n_sentences, const size_t *first,
                              float *const *memories);

/* Floats of one row of the self-attention cache, all decoder layers together. */
size_t transformer_cache_floats(const struct transformer *transformer);

/* Gives the pages of some rows of a cache back. */
void transformer_forget_rows(const struct transformer *transformer, float *cache, size_t cache_rows,
                             size_t first_row, size_t n_rows);

/* One step; the cache has the rows of one decoder layer after the other. Result in
 * workspace->hidden. Moves the groups' memory pointers from layer to layer. */
void transformer_step(const struct transformer *transformer, struct stream *stream,
                      struct workspace *workspace, struct decoder_step *step);

/* The same for whole target sentences with all tokens known (teacher forcing): ids[R] begin with
 * the start token; groups[b] has the rows and the encoder memory of sentence b. */
void transformer_decode(const struct transformer *transformer, struct stream *stream,
                        struct workspace *workspace, size_t n_sentences, const size_t *first,
                        const int32_t *ids, const int32_t *positions, struct memory_rows *groups);

/* The scans of workspace->hidden[n_rows] through the output layer. */
void transformer_search_output(const struct transformer *transformer, struct stream *stream,
                               struct workspace *workspace, size_t n_rows,
                               struct logit_scan *scans);

/* What its streams must have room for. */
struct stream_limits transformer_stream_limits(const struct transformer *transformer);

/* Positions the model can number; sentences and hypotheses are at most that long. */
size_t transformer_positions(const struct transformer *transformer);

#endif
