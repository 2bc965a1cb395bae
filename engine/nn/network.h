/* network.h - what the decoder needs of a model, whatever its architecture: a Transformer or LSTMs.
 *
 * Every function hands on to its namesake of transformer.h or lstm.h, which say more. A network is
 * immutable; workspaces and caches belong to one stream.
 */
#ifndef NN_NETWORK_H
#define NN_NETWORK_H

#include "nn/lstm.h"
#include "nn/pass.h"
#include "nn/transformer.h"

/* One of the two, owned; the other is NULL. */
struct network {
    struct device *device;
    struct transformer *transformer;
    struct lstm *lstm;
};

/* By config->model_type. network_fini() frees what is there either way. */
int network_init(struct network *network, struct device *device, const struct config *config,
                 struct safetensors *weights, struct acre_err *err);
void network_fini(struct network *network);

int network_workspace_init(const struct network *network, size_t max_rows,
                           struct workspace *workspace);
void network_workspace_fini(const struct network *network, struct workspace *workspace);

void network_encode(const struct network *network, struct stream *stream,
                    struct workspace *workspace, size_t n_sentences, const size_t *first,
                    const int32_t *ids, const int32_t *positions);
size_t network_memory_floats(const struct network *network, size_t length);
void network_store_memory(const struct network *network, struct stream *stream,
                          struct workspace *workspace, size_t n_sentences, const size_t *first,
                          float *const *memories);

/* Floats of one row of the cache, all layers together. */
size_t network_cache_floats(const struct network *network);

/* Steps of a path that a step works with, its own one included: rows of older ones may be written
 * anew. */
size_t network_cache_steps(const struct network *network);

/* Gives the pages of some rows of a cache back. */
void network_forget_rows(const struct network *network, float *cache, size_t cache_rows,
                         size_t first_row, size_t n_rows);

/* One step, and the scans of its result through the output layer. */
void network_step(const struct network *network, struct stream *stream, struct workspace *workspace,
                  struct decoder_step *step);
void network_search_output(const struct network *network, struct stream *stream,
                           struct workspace *workspace, size_t n_rows, struct logit_scan *scans);

/* What its streams must have room for. */
struct stream_limits network_stream_limits(const struct network *network);

/* Floats that an attention_listener has room for. */
size_t network_weights_floats(const struct network *network, size_t memory_length);

/* Sentences and hypotheses are at most that long. */
size_t network_positions(const struct network *network);

#endif
