/* network.h - a network of any architecture, and a worker's place to run it.
 *
 * Sentences enter slots of a workspace, and every step takes all their searches one token on; what
 * they need stays on the device. A network is immutable and shared; a workspace belongs to one
 * thread.
 */
#ifndef NN_NETWORK_H
#define NN_NETWORK_H

#include "nn/architecture.h"

/* The architectures that there are, for config_load(); NULL ends them. */
extern const struct config_kind *const network_kinds[];

/* Of a config that was read with network_kinds. *network is owned by the caller. */
int network_open(struct device *device, const struct config *config, struct safetensors *weights,
                 struct network **network, struct acre_err *err);
void network_close(struct network *network); /* NULL is allowed */

/* Layers and heads that an attention_listener hears of, and the numbers it has room for. */
size_t network_weights_floats(const struct network *network, size_t memory_length);

struct workspace_limits {
    size_t n_slots, max_beam;
    size_t max_rows; /* of one pass; 0: as many as a batch may want, see workspace_max_rows() */
    bool is_shown;   /* some step has a listener */
    struct search_model search;
};

struct workspace {
    const struct network *network;
    size_t max_rows;
    struct stream *stream;
    struct rows *rows;
    struct store *store;
    struct buffer *buffers[NETWORK_BUFFERS];
};

/* 0, or what opening on a device fails with; needs workspace_close() either way. It must stay where
 * it is. */
int workspace_open(const struct network *network, const struct workspace_limits *limits,
                   struct workspace *workspace);
void workspace_close(struct workspace *workspace);

/* Source tokens of the sentences that are best decoded together, with that beam; SIZE_MAX: as many
 * as there is room for. */
size_t workspace_max_load(const struct workspace *workspace, size_t beam);

/* Encodes newcomers, whose slots are free. */
void workspace_enter(struct workspace *workspace, size_t n, const struct entry *entries);
void workspace_drop(struct workspace *workspace, size_t slot);

/* Begins a step of all slots; what it comes to is in a later poll. */
void workspace_step(struct workspace *workspace);
int workspace_poll(struct workspace *workspace, struct progress *progress, struct acre_err *err);

/* A whole pass over known target tokens of sentences that have entered, with the output layer;
 * only where the architecture has such a pass. Returns the hidden rows. */
struct buffer *workspace_decode(struct workspace *workspace, size_t n, const struct forced *forced);

/* The decoder's part of a step, without the search, of which `listener` (NULL is allowed) is told;
 * then device_ops.search_force() says how every slot goes on. Returns the hidden rows. */
struct buffer *workspace_show_step(struct workspace *workspace,
                                   const struct attention_listener *listener);

#endif
