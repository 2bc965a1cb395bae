/* recurrent.h - the CUDA backend's LSTM layers, and the states that hypotheses carry. */
#ifndef DEVICE_CUDA_RECURRENT_H
#define DEVICE_CUDA_RECURRENT_H

#include "device/cuda/buffer.h"
#include "device/cuda/store.h"

void cuda_lstm_layer(struct stream *stream, const struct weight *recurrent, size_t layer,
                     const struct rows *rows, struct store *store, struct buffer *gates,
                     struct buffer *hidden);
void cuda_state_read(struct stream *stream, size_t state, const struct rows *rows,
                     const struct store *store, struct buffer *x);
void cuda_state_write(struct stream *stream, size_t state, const struct rows *rows,
                      struct store *store, const struct buffer *x);

#endif
