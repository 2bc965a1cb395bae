/* lstm.h - the weights of an LSTM sequence-to-sequence model ("acre-lstm"), and its passes.
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
 * A row of the cache holds what a hypothesis knows: hidden and cell state of every layer, then
 * a_1 ... a_H. It is read where its parent wrote it, so that reordering beams copies nothing, and
 * by the next step only. The memory of a sentence begins with the row its first step reads. The
 * weights are immutable; all else belongs to one stream.
 */
#ifndef NN_LSTM_H
#define NN_LSTM_H

#include "nn/pass.h"

struct lstm;

/* A step reads its parents' rows and writes its own. */
enum { LSTM_CACHE_STEPS = 2 };

/* Errors and lifetimes as transformer_open(). */
int lstm_open(struct device *device, const struct config *config, struct safetensors *weights,
              struct lstm **lstm, struct acre_err *err);
void lstm_close(struct lstm *lstm); /* NULL is allowed */

/* The same as their namesakes of transformer.h. */
int lstm_workspace_init(struct workspace *workspace, const struct lstm *lstm, size_t max_rows);
void lstm_encode(const struct lstm *lstm, struct stream *stream, struct workspace *workspace,
                 size_t n_sentences, const size_t *first, const int32_t *ids);
size_t lstm_memory_floats(const struct lstm *lstm, size_t length);
void lstm_store_memory(const struct lstm *lstm, struct stream *stream, struct workspace *workspace,
                       size_t n_sentences, const size_t *first, float *const *memories);
size_t lstm_cache_floats(const struct lstm *lstm);
void lstm_step(const struct lstm *lstm, struct stream *stream, struct workspace *workspace,
               struct decoder_step *step);
void lstm_search_output(const struct lstm *lstm, struct stream *stream, struct workspace *workspace,
                        size_t n_rows, struct logit_scan *scans);
struct stream_limits lstm_stream_limits(const struct lstm *lstm);
size_t lstm_positions(const struct lstm *lstm);

#endif
