/* device.h - the coarse operations that model mathematics is written over.
 *
 * A device owns packed weights; a stream is one worker's place on it, with the scratch memory its
 * operations need. The operations of one stream run in order. Nothing above this folder knows
 * what hardware runs them. Operations cannot fail: everything they need is allocated when weights,
 * caches and streams are opened.
 *
 * `struct device` is shared by all workers and immutable after loading; a stream belongs to one
 * thread. Letters as in shapes.h.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "kernels/kernels.h" /* enum kernel_type, kernel_activation; struct logit_scan */
#include "tensor/tensor.h"

struct device;
struct stream;
struct weight;    /* W[N,K] with bias[N], packed */
struct norm;      /* gain[C], bias[C] */
struct embedding; /* table[V,C], positions[P,C] */
struct area_key;  /* how the keys of areas are computed */

/* One of the matrices that are joined, one below the other, into a weight. */
struct weight_part {
    struct tensor weight;           /* [n, K] */
    struct tensor bias;             /* n elements; data == NULL: zeros */
    size_t first_column, n_columns; /* the part of [n, all columns] that is meant; 0: all */
    float scale;                    /* multiplies weight and bias */
};

/* Parameters of the modes that have dense layers; shared by the heads. D is the head width. */
struct area_key_parts {
    enum area_key_mode mode;
    float scale;                                     /* multiplies the keys that fc2 gives */
    struct tensor fc1_weight, fc1_bias;              /* [D, inputs], [D] */
    struct tensor fc2_weight, fc2_bias;              /* [D,D], [D] */
    struct tensor height_embedding, width_embedding; /* [largest height or width, D/2] */
};

/* The attention of one layer. C = n_heads * head_width. */
struct attention {
    size_t n_heads, head_width;
    enum kernel_type type; /* f32, or bf16: what keys and values, also of areas, are kept in */
    struct area_rule area;
    const struct area_key *key; /* borrowed; NULL: mean keys */
};

/* Columns of fc1_weight; 0 for modes without dense layers. */
size_t area_key_inputs(enum area_key_mode mode, size_t head_width);

/* Self-attention cache of one layer: rows of keys and values, one per token and hypothesis, found
 * by their number. Sentences own ranges of rows; see decode/batch.h. */
struct step_rows {
    size_t n_rows;
    const int32_t *const *paths; /* [n_rows]: cache rows of positions 0 ... lengths[r] - 1; the
                                  * last is the row's own, written by the step */
    const int32_t *lengths;      /* [n_rows] */
};

/* Encoder memory of one sentence for one layer, and the rows that attend to it: rows first_row ...
 * first_row + n_rows - 1 of the query. */
struct memory_rows {
    const float *memory; /* written by store_memory */
    size_t length;       /* L */
    size_t first_row, n_rows;
};

struct stream_limits {
    size_t max_memory;     /* longest attention memory, L */
    size_t max_head_width; /* D */
    size_t max_width;      /* largest K of the weights */
    size_t max_planes;     /* most sizes of areas of one attention, at least 1 */
};

struct device_ops {
    void (*close)(struct device *device);

    /* Loading. The tensors are borrowed for the call. Handles are owned by the caller, freed with
     * the close below; 0, ACRE_ENOMEM. Products with a weight are computed in its type. */
    int (*weight_open)(struct device *device, enum kernel_type type,
                       const struct weight_part *parts, size_t n_parts, struct weight **weight);
    /* A hint: where decoding multiplies with a weight, it does so with `next` afterwards. */
    void (*weight_follow)(struct weight *weight, const struct weight *next);
    int (*norm_open)(struct device *device, const struct tensor *gain, const struct tensor *bias,
                     struct norm **norm);
    /* Takes the table's numbers, which are for mem_free(), also when it fails; keeps them. */
    int (*embedding_open)(struct device *device, const struct tensor *table, float scale,
                          size_t n_positions, struct embedding **embedding);
    int (*area_key_open)(struct device *device, const struct area_key_parts *parts,
                         const struct attention *attention, struct area_key **key);
    void (*weight_close)(struct weight *weight);
    void (*norm_close)(struct norm *norm);
    void (*embedding_close)(struct embedding *embedding);
    void (*area_key_close)(struct area_key *key);

    int (*stream_open)(struct device *device, const struct stream_limits *limits,
                       struct stream **stream);
    void (*stream_close)(struct stream *stream);

    /* Zeroed memory for activations and caches; pages not yet written cost nothing. */
    float *(*alloc)(struct device *device, size_t n_floats);
    void (*free)(struct device *device, float *memory, size_t n_floats);
    /* Gives pages of a part of it back; what was there is zero or as it was. */
    void (*forget)(struct device *device, float *part, size_t n_floats);

    size_t (*cache_row_floats)(const struct attention *attention);
    size_t (*memory_floats)(const struct attention *attention, size_t length);

    /* out[M,C] = scale * table[ids[m]] + position(positions[m]). Positions are MarianMT's: sines
     * in the first half of the vector, cosines in the second. No positions are added (NULL is
     * allowed) where the embedding was opened for none. */
    void (*embed)(struct stream *stream, const struct embedding *embedding, size_t m,
                  const int32_t *ids, const int32_t *positions, float *out);

    /* y[M,N] = activation(x[M,K]·Wᵀ + bias) + residual[M,N]; residual may be NULL or y. */
    void (*linear)(struct stream *stream, const struct weight *weight, size_t m, const float *x,
                   enum kernel_activation activation, const float *residual, float *y);

    /* out[M,N] = rows[m][offset ...], and the other way round. */
    void (*gather)(struct stream *stream, size_t m, size_t n, const float *const *rows,
                   size_t offset, float *out);
    void (*scatter)(struct stream *stream, size_t m, size_t n, const float *in, float *const *rows,
                    size_t offset);

    /* One step of an LSTM layer. gates[M,4C]: input i, forget f, cell g, output o. The cell state
     * is before[m][offset + C ...]; after[m][offset ...] gets the hidden state and behind it the
     * cell state: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). hidden[M,C] = h.
     */
    void (*lstm_cell)(struct stream *stream, size_t m, size_t c, const float *gates,
                      const float *const *before, float *const *after, size_t offset,
                      float *hidden);

    /* y[M,C] = layer norm of x[M,C], epsilon 1e-5; y may be x. */
    void (*layer_norm)(struct stream *stream, const struct norm *norm, size_t m, const float *x,
                       float *y);

    /* In what follows areas in two dimensions need memories that are whole grids, and no causality.
     * Self-attention of whole sentences: qkv[R,3C], queries scaled; sentence b has the rows
     * first[b] ... first[b+1] - 1. causal: row t sees rows up to t. context[R,C]. */
    void (*attend)(struct stream *stream, const struct attention *attention, bool causal,
                   size_t n_sentences, const size_t *first, const float *qkv, float *context);

    /* Self-attention of one new token per row over the cache. Stores the row's key and value
     * first. qkv[R,3C], context[R,C]. */
    void (*attend_step)(struct stream *stream, const struct attention *attention,
                        const struct step_rows *rows, float *cache, const float *qkv,
                        float *context);

    /* Lays out the encoder memory of one sentence for attend_memory: keys and values into
     * memory[memory_floats(L)]. Rows of keys[L,C] and values[L,C] are `stride` floats apart. */
    void (*store_memory)(struct stream *stream, const struct attention *attention, size_t length,
                         const float *keys, const float *values, size_t stride, float *memory);

    /* Cross-attention: query[R,C], scaled; context[R,C]. */
    void (*attend_memory)(struct stream *stream, const struct attention *attention,
                          size_t n_sentences, const struct memory_rows *rows, const float *query,
                          float *context);

    /* What one head of one query attends to: weights[planes][Lp] of all areas of the memory, as
     * kernels/areas.h numbers them. query[D] is the head's, scaled. For pictures, not for speed. */
    void (*memory_weights)(struct stream *stream, const struct attention *attention, size_t head,
                           size_t length, const float *memory, const float *query, float *weights);

    /* Output layer with the search's top-k: the logits x[M,C]·Wᵀ + bias go block by block through
     * scans[m] and are never all in memory. */
    void (*search_output)(struct stream *stream, const struct weight *output, size_t m,
                          const float *x, struct logit_scan *scans);
};

struct device {
    const struct device_ops *ops;
    const char *name; /* "cpu avx2" */
};

/* Whether this build has it: one of ACRE_DEVICES. */
bool device_is_known(const char *name);
int device_open(const char *name, struct device **device, struct acre_err *err);
void device_close(struct device *device); /* NULL is allowed */

/* weight_open(), which explains its errors with the weight's name. Too many columns for sums of
 * 8-bit products in 32 bits are ACRE_EOPTION. */
int device_bind_weight(struct device *device, enum kernel_type type,
                       const struct weight_part *parts, size_t n_parts, const char *name,
                       struct weight **weight, struct acre_err *err);

/* The CPU backend; device_open() chooses. */
int device_cpu_open(enum cpu_level level, struct device **device, struct acre_err *err);

#endif
