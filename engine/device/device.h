/* device.h - the coarse operations that model mathematics is written over, on any device.
 *
 * Nothing above this folder holds a pointer into device memory, or computes one. What a pass works
 * on is opaque: buffers of activations, a table of rows (who the rows of a pass are), and a store
 * (what sentences keep from step to step, by slot: encoder memory, caches or states, the search).
 * The host says who enters and who is dropped, runs passes, and asks in poll() which searches are
 * over. Ids, positions, scores and paths stay on the device.
 *
 * A stream is one worker's place on a device, with the scratch memory that its operations need;
 * what is done on one stream happens in order. Everything is allocated when weights, streams,
 * buffers, rows and stores are opened: no operation allocates, and none can fail. A device may
 * work behind the host's back; poll() is the only place that waits, and where a lost device tells.
 *
 * `struct device` and what is loaded into it are shared by all workers and immutable after loading;
 * a stream and what is opened for its passes belong to one thread. Letters as in shapes.h.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/cpu.h"
#include "device/positions.h"
#include "search/rules.h"
#include "tensor/area.h"
#include "tensor/compute.h"
#include "tensor/tensor.h"

struct device;
struct stream;
struct weight;             /* W[N,K] with bias[N], packed */
struct norm;               /* gain[C], bias[C] */
struct embedding;          /* table[V,C] */
struct position_embedding; /* [P,C]: what positions in a sentence add to those of tokens */
struct area_key;           /* how the keys of areas are computed */
struct buffer;             /* activations: rows of numbers in the type that the device works in */
struct rows;               /* rows of a pass: tokens of sentences, or live hypotheses of a step */
struct store;              /* what sentences keep from step to step, by slot */

/* ---- Loading --------------------------------------------------------------------------------- */

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
    enum compute_type type; /* f32, bf16 or f16: what keys and values, also of areas, are kept in */
    struct area_rule area;
    const struct area_key *key; /* borrowed; NULL: mean keys */
};

/* Whether the scores identity serves it, so that no area has a vector of its own. */
static inline bool attention_is_plain(const struct attention *attention)
{
    return !attention->key && area_is_plain(&attention->area);
}

/* ---- What passes work on --------------------------------------------------------------------- */

struct stream_limits {
    size_t max_memory;     /* longest attention memory, L */
    size_t max_head_width; /* D */
    size_t max_width;      /* largest K of the weights */
    size_t max_planes;     /* most sizes of areas of one attention, at least 1 */
    size_t max_rows;       /* of a pass */
    bool has_areas;        /* some attention works on areas one by one, */
    bool has_area_keys;    /* and of these some have keys of their own */
    bool is_shown;         /* memory_weights() is asked for */
};

/* All that it points to must live as long as the store. */
struct store_shape {
    size_t n_slots;   /* sentences at a time */
    size_t max_beam;  /* hypotheses of each */
    size_t positions; /* longest source, and longest target with its start token */

    size_t n_layers;                      /* that have memory, and caches if they have any */
    const struct attention *const *cross; /* [n_layers] */
    const struct attention *const *self;  /* [n_layers]; NULL: no caches */
    size_t n_states, state_width;         /* vectors that a hypothesis carries from step to step */

    struct search_model search;

    size_t first_aligned, n_aligned; /* layers whose weights, added up, align source and target */
};

/* A sentence that enters a free slot. */
struct entry {
    size_t slot, n_source;
    const int32_t *source; /* [n_source], without the last token; borrowed for the call */
    int32_t last;          /* source token behind these; 0: the end token */
    struct acre_decoding decoding;
    struct search_prefix prefix;
    const int32_t *translation; /* [prefix.n]: what it begins with; borrowed likewise */
    bool is_aligned;            /* its hypotheses shall tell to which source tokens theirs belong */
    size_t first_item, end_item; /* of the source tokens that are part of the text, and behind the
                                  * last of them; others are told only where there are none */
};

/* Target tokens of a sentence that has entered, known beforehand. */
struct forced {
    size_t slot, n;
    const int32_t *tokens; /* [n], the start token first; borrowed for the call */
};

struct ended_hypothesis {
    const int32_t *tokens; /* [n_tokens], without start and end token */
    size_t n_tokens;
    float score;
    const int32_t *alignment; /* [n_tokens] places of source tokens; NULL: not asked for */
};

/* A sentence whose search is over; its hypotheses, best first. */
struct ended {
    size_t slot, n_hypotheses;
    const struct ended_hypothesis *hypotheses;
};

/* What has come of the steps that were under way at the last poll, or were begun since, and are now
 * finished. It is the device's, and holds until something else is done on the stream; hypotheses
 * hold until their slot is entered again. */
struct progress {
    size_t n_steps, n_rows; /* rows of all these steps */
    const struct ended *ended;
    size_t n_ended;
};

struct device_ops {
    void (*close)(struct device *device);
    size_t (*free_bytes)(const struct device *device); /* memory that nobody has taken */

    /* Loading. The tensors are borrowed for the call. Handles are owned by the caller, freed with
     * the close below; 0, ACRE_ENOMEM, ACRE_EDEVICE: the device is lost. Products with a weight are
     * computed in its type. */
    int (*weight_open)(struct device *device, enum compute_type type,
                       const struct weight_part *parts, size_t n_parts, struct weight **weight);
    /* A hint: a step multiplies with these weights in this order, one step after the other. */
    void (*weights_order)(struct device *device, struct weight *const *weights, size_t n);
    int (*norm_open)(struct device *device, const struct tensor *gain, const struct tensor *bias,
                     float epsilon, struct norm **norm);
    /* Takes the numbers of the table, which are for mem_free(), also when it fails; keeps them. */
    int (*embedding_open)(struct device *device, const struct tensor *table, float scale,
                          struct embedding **embedding);
    int (*position_embedding_open)(struct device *device, const struct positions *positions,
                                   size_t c, struct position_embedding **embedding);
    int (*area_key_open)(struct device *device, const struct area_key_parts *parts,
                         const struct attention *attention, struct area_key **key);
    void (*weight_close)(struct weight *weight);
    void (*norm_close)(struct norm *norm);
    void (*embedding_close)(struct embedding *embedding);
    void (*position_embedding_close)(struct position_embedding *embedding);
    void (*area_key_close)(struct area_key *key);

    /* What passes work on. Owned by the caller; 0, ACRE_ENOMEM; ACRE_EUNSUPPORTED: the device has
     * no way to work on so long memories, so wide heads or so many tokens; ACRE_EDEVICE:
     * it is lost. Closing NULL is allowed. */
    int (*stream_open)(struct device *device, const struct stream_limits *limits,
                       struct stream **stream);
    int (*buffer_open)(struct device *device, size_t max_rows, size_t max_width,
                       struct buffer **buffer);
    int (*rows_open)(struct device *device, size_t max_rows, const struct store_shape *shape,
                     struct rows **rows);
    int (*store_open)(struct device *device, const struct store_shape *shape, struct store **store);
    /* Bytes that a step reads of the store for each source token, of sentences with that beam, if a
     * step is slower where they do not fit into caches; else 0. */
    size_t (*store_token_bytes)(const struct store *store, size_t beam);
    void (*stream_close)(struct stream *stream);
    void (*buffer_close)(struct buffer *buffer);
    void (*rows_close)(struct rows *rows);
    void (*store_close)(struct store *store);

    /* ---- Passes. What the host knows goes to the device here. ---- */

    /* Sentences enter their slots, and `rows` become their source tokens with the end tokens. */
    void (*enter)(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                  const struct entry *entries);
    /* `rows` become known target tokens, all those of a sentence at once. */
    void (*force)(struct stream *stream, struct rows *rows, struct store *store, size_t n,
                  const struct forced *forced);
    /* The slot is free; what its sentence would have come to is never told. */
    void (*drop)(struct stream *stream, struct store *store, size_t slot);
    /* Calls body(user), which calls operations and nothing else, and depends on nothing but `user`
     * and the rows: a device that records passes may replay the calls of an earlier time. */
    void (*run)(struct stream *stream, struct rows *rows, struct store *store, void (*body)(void *),
                void *user);
    /* Waits until at most `most_behind` steps are still under way. 0, or ACRE_EDEVICE: the device
     * is lost, and so is what runs on it. */
    int (*poll)(struct stream *stream, struct store *store, int most_behind,
                struct progress *progress, struct acre_err *err);

    /* ---- Operations. All rows of a buffer are those of `rows`; how wide they are follows from the
     * weight or the attention. x and y are different buffers. ---- */

    /* out[R,C] = scale * table[id] + what its position adds; positions may be NULL. */
    void (*embed)(struct stream *stream, const struct embedding *embedding,
                  const struct position_embedding *positions, const struct rows *rows,
                  struct buffer *out);

    /* y[R,N] = activation(x[R,K]·Wᵀ + bias), or this added to y. */
    void (*linear)(struct stream *stream, const struct weight *weight, const struct rows *rows,
                   const struct buffer *x, enum activation activation, struct buffer *y);
    void (*linear_add)(struct stream *stream, const struct weight *weight, const struct rows *rows,
                       const struct buffer *x, struct buffer *y);

    /* y[R,C] = layer norm of x[R,C]. */
    void (*layer_norm)(struct stream *stream, const struct norm *norm, const struct rows *rows,
                       const struct buffer *x, struct buffer *y);

    /* hidden[R,C] = layer norm of hidden + x·Wᵀ + bias. */
    void (*linear_add_norm)(struct stream *stream, const struct weight *weight,
                            const struct norm *norm, const struct rows *rows,
                            const struct buffer *x, struct buffer *hidden);

    /* In what follows areas in two dimensions need memories that are whole grids, and no causality.
     * Self-attention of whole sentences: qkv[R,3C], queries scaled; causal: a row sees rows of its
     * sentence up to itself. context[R,C]. */
    void (*attend)(struct stream *stream, const struct attention *attention, bool causal,
                   const struct rows *rows, const struct buffer *qkv, struct buffer *context);

    /* Self-attention of a step: keeps the keys and values of the new tokens in the cache of the
     * layer, and attends to those of each hypothesis. qkv[R,3C], context[R,C]. */
    void (*attend_step)(struct stream *stream, const struct attention *attention, size_t layer,
                        const struct rows *rows, struct store *store, const struct buffer *qkv,
                        struct buffer *context);

    /* Keeps the encoder memory of the sentences that the rows are: keys[R,2C] are keys and values;
     * or keys[R,C] and values[R,C] are given. */
    void (*store_memory)(struct stream *stream, const struct attention *attention, size_t layer,
                         const struct rows *rows, struct store *store, const struct buffer *keys,
                         const struct buffer *values);

    /* Cross-attention: query[R,C], scaled; context[R,C]. */
    void (*attend_memory)(struct stream *stream, const struct attention *attention, size_t layer,
                          const struct rows *rows, struct store *store, const struct buffer *query,
                          struct buffer *context);

    /* An LSTM layer of C cells: all tokens of whole sentences, or one step. gates[R,4C], input i,
     * forget f, cell g, output o, are what the layer's input has given; the recurrent part is
     * added: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). Hidden and cell state
     * are the states 2 * layer and 2 * layer + 1; hidden[R,C] = h. Changes gates. */
    void (*lstm_layer)(struct stream *stream, const struct weight *recurrent, size_t layer,
                       const struct rows *rows, struct store *store, struct buffer *gates,
                       struct buffer *hidden);

    /* A state of every hypothesis, x[R, state_width]: as the step before left it, zeros in the
     * first; and for the step to come. */
    void (*state_read)(struct stream *stream, size_t state, const struct rows *rows,
                       const struct store *store, struct buffer *x);
    void (*state_write)(struct stream *stream, size_t state, const struct rows *rows,
                        struct store *store, const struct buffer *x);

    /* A step begins: `rows` become the live hypotheses. */
    void (*search_begin)(struct stream *stream, struct rows *rows, struct store *store);
    /* Output layer: the logits x[R,C]·Wᵀ + bias, of which the search gets its candidates; they are
     * never all in memory. Of forced rows nothing is kept. */
    void (*search_output)(struct stream *stream, const struct weight *output, struct rows *rows,
                          struct store *store, const struct buffer *x);
    /* Candidates become the next hypotheses. */
    void (*search_advance)(struct stream *stream, struct rows *rows, struct store *store);

    /* ---- For pictures, measuring and tests: they wait, and are not for recorded passes. Of a lost
     * device they leave what they should write as it is, and the next poll tells. ---- */

    /* Instead of search_output and search_advance: the only hypothesis of a slot goes on with this
     * token, whatever the logits say. */
    void (*search_force)(struct stream *stream, struct store *store, size_t slot, int32_t token);
    /* What a head of the query of one row attends to: weights[planes][L] of all areas of the
     * memory, as tensor/area.h numbers them. */
    void (*memory_weights)(struct stream *stream, const struct attention *attention, size_t layer,
                           size_t head, const struct rows *rows, const struct store *store,
                           size_t row, const struct buffer *query, float *weights);
    /* The first rows of a buffer, `width` numbers each, as float32. */
    void (*read)(struct stream *stream, const struct buffer *buffer, size_t n_rows, size_t width,
                 float *out);
    void (*write)(struct stream *stream, struct buffer *buffer, size_t n_rows, size_t width,
                  const float *in);
};

struct device {
    const struct device_ops *ops;
    const char *name; /* "cpu avx2" */
    int n_workers;    /* threads that it wants to be stepped by; 0: as many as there are */
    int runs_ahead;   /* steps that may be under way while the host plans the next one */
    int n_alike;      /* devices of its kind that the machine has, this one included; 0: one */
    bool has_f16;     /* COMPUTE_F16 is among its types, and the first choice of them */
};

/* Whether it is one of ACRE_DEVICES. */
bool device_is_known(const char *name);
/* With "auto" err also explains a success: why it is no GPU. */
int device_open(const char *name, struct device **device, struct acre_err *err);
void device_close(struct device *device); /* NULL is allowed */

enum { MAX_DEVICES = 16 };

/* Devices that have the same models and share their work. */
struct device_set {
    struct device *all[MAX_DEVICES];
    size_t n;
};

/* device_open(), but "cuda" is every GPU that can be used. With "auto", and where some of several
 * cannot be used, err also explains a success. The caller owns the devices. */
int devices_open(const char *name, struct device_set *devices, struct acre_err *err);
void devices_close(const struct device_set *devices);

/* weight_open(), which explains its errors with the weight's name. Too many columns for sums of
 * 8-bit products in 32 bits are ACRE_EOPTION. */
int device_bind_weight(struct device *device, enum compute_type type,
                       const struct weight_part *parts, size_t n_parts, const char *name,
                       struct weight **weight, struct acre_err *err);

/* What the opening of `name` has failed with, explained: the device was lost, or there is no memory
 * for `what`, which may be "" where it is the former. */
int device_explain(const struct device *device, int status, const char *name, const char *what,
                   struct acre_err *err);

/* The backends; device_open() chooses. */
int device_cpu_open(enum cpu_level level, struct device **device, struct acre_err *err);
int device_cuda_open(int ordinal, struct device **device, struct acre_err *err);

#endif
