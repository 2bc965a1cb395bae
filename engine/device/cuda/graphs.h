/* graphs.h - the passes of a stream, recorded as CUDA graphs and replayed.
 *
 * What a pass launches follows from its body and from bounds that the host knows without asking,
 * rounded up to few classes (rows.h): so one graph serves all passes of a body and a class. A class
 * is launched plainly when it comes for the first time, and recorded the second time. Graphs have
 * room for GRAPH_NODES in all; the one that was not used for longest makes room. What cannot be
 * recorded is launched plainly.
 *
 * Of the host's own notes a replay restores what the body has changed: the forms of buffers, and
 * whether the searches went on. A pass that reads what an earlier one has left in a buffer is not
 * recorded. One thread.
 */
#ifndef DEVICE_CUDA_GRAPHS_H
#define DEVICE_CUDA_GRAPHS_H

#include "device/cuda/rows.h"

struct store;
struct stream;
struct buffer_forms;
struct graphs;

enum {
    GRAPH_CLASSES = 64,      /* that are remembered */
    GRAPH_NODES = 4096,      /* of all graphs of a stream */
    GRAPH_NODE_BYTES = 4096, /* what the driver is taken to need for one, stated as memory */
};

/* NULL: no memory. The memory that graphs may take is stated from here on. */
struct graphs *graphs_open();
/* Nothing of them runs any more, unless the GPU is given up; NULL is allowed. */
void graphs_close(struct graphs *graphs, int device);

/* A pass: body(user), or its replay. Without graphs (NULL) it is the body. */
void graphs_run(struct graphs *graphs, struct stream *stream, struct rows *rows,
                const struct store *store, void (*body)(void *), void *user);

/* The pass that is under way writes such a buffer, or reads it. False: it is captured in vain, and
 * will be launched plainly: what it makes of buffers is not to be noted. */
bool graphs_note_written(struct graphs *graphs, struct buffer_forms *forms);
bool graphs_note_read(struct graphs *graphs, const struct buffer_forms *forms);

#endif
