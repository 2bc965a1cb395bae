/* architecture.h - an architecture is a table: what its config.json says, how its networks are
 * opened, what they need to work in, and their passes. Configurations find theirs by model_type, in
 * the list of network.c.
 *
 * The mathematics is written once, over device operations. A network is immutable and shared by all
 * workers; what a pass works on belongs to one stream.
 */
#ifndef NN_ARCHITECTURE_H
#define NN_ARCHITECTURE_H

#include "acre.h"
#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "nn/embeddings.h"

struct architecture;

/* What every network has; the first member of each architecture's own struct. */
struct network {
    const struct architecture *architecture;
    struct device *device;
    struct embeddings embeddings;
    size_t positions; /* sentences and hypotheses are at most that long */
    size_t bytes;     /* of its weights, in the host's memory */
};

enum { NETWORK_BUFFERS = 5 };

/* What a worker must have to run it. Pointers live as long as the network. */
struct network_needs {
    size_t widths[NETWORK_BUFFERS]; /* of its buffers; 0: it has no more */
    struct stream_limits stream;    /* but max_rows, which the workspace knows */
    size_t n_layers;                /* these and what follows as in struct store_shape */
    const struct attention *const *self, *const *cross;
    size_t n_states, state_width;
    size_t first_aligned, n_aligned;
};

/* Is told what cross-attention weighs: weights[planes][L] of all areas, see tensor/area.h. */
struct attention_listener {
    void (*tell)(void *user, const struct attention *attention, size_t layer, size_t head,
                 const float *weights);
    void *user;
    float *weights; /* [planes][L] of the attention that has most */
};

struct pass {
    const struct device_ops *ops;
    struct stream *stream;
    struct rows *rows;
    struct store *store;
    struct buffer *const *buffers;
    const struct attention_listener *listener; /* of row 0; NULL: nobody */
};

struct architecture {
    struct config_kind config; /* first: a configuration points to it */

    /* Binds every tensor with its expected shape, for products in config->compute_type. `weights`
     * and `config` must live longer than the network, which the caller owns. */
    int (*open)(struct device *device, const struct config *config, struct safetensors *weights,
                struct network **network, struct acre_err *err);
    void (*close)(struct network *network);
    void (*needs)(const struct network *network, struct network_needs *needs);

    /* Passes. Each returns the buffer with its result, [R,C]. */

    /* The encoder over source tokens, and what the store keeps of it. */
    struct buffer *(*encode)(const struct network *network, const struct pass *pass);
    /* One decoder step; the result goes into the output layer. */
    struct buffer *(*step)(const struct network *network, const struct pass *pass);
    /* The decoder over known target tokens (teacher forcing); NULL: it goes step by step only. */
    struct buffer *(*decode)(const struct network *network, const struct pass *pass);
};

extern const struct architecture marian_architecture; /* MarianMT's Transformer: post-norm */
extern const struct architecture m2m_architecture;    /* M2M100's and NLLB-200's: pre-norm */
extern const struct architecture mbart_architecture;  /* mBART-50's: pre-norm */
extern const struct architecture lstm_architecture;   /* LSTMs with attention, see lstm.c */

/* That of a configuration which was read with network_kinds. */
static inline const struct architecture *architecture_of(const struct config *config)
{
    return (const struct architecture *)config->kind;
}

/* Tells the listener, if there is one, what every head of row 0 of query[R,C] weighs; heads are
 * numbered from first_head on. */
void pass_tell(const struct pass *pass, const struct attention *attention, size_t layer,
               size_t shown_layer, size_t first_head, const struct buffer *query);

#endif
