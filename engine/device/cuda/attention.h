/* attention.h - the CUDA backend's attention: operations of device.h over the kernels of attend.h,
 * where the scores identity serves, and attend_areas.h. */
#ifndef DEVICE_CUDA_ATTENTION_H
#define DEVICE_CUDA_ATTENTION_H

#include "device/cuda/buffer.h"
#include "device/cuda/store.h"

void cuda_attend(struct stream *stream, const struct attention *attention, bool causal,
                 const struct rows *rows, const struct buffer *qkv, struct buffer *context);
void cuda_attend_step(struct stream *stream, const struct attention *attention, size_t layer,
                      const struct rows *rows, struct store *store, const struct buffer *qkv,
                      struct buffer *context);
void cuda_store_memory(struct stream *stream, const struct attention *attention, size_t layer,
                       const struct rows *rows, struct store *store, const struct buffer *keys,
                       const struct buffer *values);
void cuda_attend_memory(struct stream *stream, const struct attention *attention, size_t layer,
                        const struct rows *rows, struct store *store, const struct buffer *query,
                        struct buffer *context);
void cuda_memory_weights(struct stream *stream, const struct attention *attention, size_t layer,
                         size_t head, const struct rows *rows, const struct store *store,
                         size_t row, const struct buffer *query, float *weights);

#endif
