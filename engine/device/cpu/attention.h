/* attention.h - the CPU backend's attention over plain memory: of whole sentences, of a step over a
 * cache, of a step over the encoder memory. Operations of device.h are made of it in cpu.c.
 */
#ifndef DEVICE_CPU_ATTENTION_H
#define DEVICE_CPU_ATTENTION_H

#include "device/cpu/stream.h"

/* Self-attention cache of one layer: rows of keys and values, one per token and hypothesis, found
 * by their number. */
struct step_rows {
    size_t n_rows;
    const int32_t *const *paths; /* [n_rows]: cache rows of positions 0 ... lengths[r] - 1; the
                                  * last is the row's own, written by the step */
    const int32_t *lengths;      /* [n_rows] */
};

/* Encoder memory of one sentence for one layer, and the rows that attend to it: rows first_row ...
 * first_row + n_rows - 1 of the query. */
struct memory_rows {
    const float *memory; /* written by cpu_store_memory */
    size_t length;       /* L */
    size_t first_row, n_rows;
    float *item_weights; /* [n_rows][L], added to, over the heads; NULL: nobody wants to know */
};

size_t cpu_cache_row_floats(const struct attention *attention);
size_t cpu_memory_floats(const struct attention *attention, size_t length);

/* Sentence b has the rows first[b] ... first[b+1] - 1. */
void cpu_attend(struct stream *stream, const struct attention *attention, bool causal,
                size_t n_sentences, const size_t *first, const float *qkv, float *context);

void cpu_attend_step(struct stream *stream, const struct attention *attention,
                     const struct step_rows *rows, float *cache, const float *qkv, float *context);

/* Lays out keys[L,C] and values[L,C], rows so many floats apart, in
 * memory[cpu_memory_floats(L)]. */
void cpu_store_memory(struct stream *stream, const struct attention *attention, size_t length,
                      const float *keys, size_t key_stride, const float *values,
                      size_t value_stride, float *memory);

void cpu_attend_memory(struct stream *stream, const struct attention *attention, size_t n_sentences,
                       const struct memory_rows *rows, const float *query, float *context);

/* Of one head of one query[D]: weights[planes][Lp]. */
void cpu_memory_weights(struct stream *stream, const struct attention *attention, size_t head,
                        size_t length, const float *memory, const float *query, float *weights);

#endif
