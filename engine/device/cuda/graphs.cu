/* A pass is looked up by its body and its class, and recorded or replayed.
 *
 * What can go wrong: a capture or an instantiation fails. Once more it is tried with kernels that
 * do not begin early, which some drivers cannot capture; then the pass is launched plainly, and
 * recorded when it comes again. After MAX_FAILURES in a row nothing is recorded on this stream any
 * more. A launch fails within a capture, and fails again when the pass is launched plainly, for the
 * poll to tell. Nothing runs while it is captured, so that a pass may be begun anew. */
#include "device/cuda/graphs.h"

#include "device/cuda/buffer.h"
#include "device/cuda/store.h"

enum {
    MAX_BODIES = 4,
    MAX_BUFFERS = 8,                   /* that a recorded pass writes */
    MAX_GRAPH_NODES = GRAPH_NODES / 4, /* of one graph */
    MAX_FAILURES = 8,
};

/* A body, and what was seen when it ran first. */
struct known_body {
    void (*body)(void *);
    void *user;
    bool is_step;
};

struct left_forms {
    struct buffer_forms *of, forms;
};

struct graph {
    const struct known_body *body; /* NULL: the entry is free */
    struct pass_bounds bounds;
    uint64_t turn;        /* when it was asked for last */
    int64_t step;         /* a launch of it is over when this step is */
    cudaGraphExec_t exec; /* NULL: not recorded */
    bool is_seen;
    bool is_plain; /* cannot be recorded */
    size_t n_nodes;
    bool has_advanced;
    struct left_forms left[MAX_BUFFERS];
    size_t n_left;
};

struct graphs {
    int n_failures; /* to record, one after the other */
    struct known_body bodies[MAX_BODIES];
    size_t n_bodies;
    struct graph all[GRAPH_CLASSES];
    struct graph *recording; /* NULL: nothing is recorded now */
    uint64_t turn;
    size_t n_nodes; /* of all */
};

struct graphs *graphs_open()
{
    struct graphs *graphs = cuda_new<struct graphs>();
    if (graphs)
        mem_note((ptrdiff_t)GRAPH_NODES * GRAPH_NODE_BYTES);
    return graphs;
}

static void forget_exec(struct graphs *graphs, struct graph *graph)
{
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    graph->exec = NULL;
    graphs->n_nodes -= graph->n_nodes;
    graph->n_nodes = 0;
}

static void forget(struct graphs *graphs, struct graph *graph)
{
    forget_exec(graphs, graph);
    *graph = {};
}

void graphs_close(struct graphs *graphs, int device)
{
    if (!graphs)
        return;
    for (struct graph &each : graphs->all)
        if (!gpu_is_abandoned(device))
            forget(graphs, &each);
    mem_note(-(ptrdiff_t)GRAPH_NODES * GRAPH_NODE_BYTES);
    mem_free(graphs);
}

/* ---- Looking up ------------------------------------------------------------------------------ */

static const struct known_body *find_body(const struct graphs *graphs, void (*body)(void *),
                                          const void *user)
{
    for (size_t i = 0; i < graphs->n_bodies; i++)
        if (graphs->bodies[i].body == body && graphs->bodies[i].user == user)
            return &graphs->bodies[i];
    return NULL;
}

/* A body is not known before it has run: then it has said whether it is a step. */
static void run_first(struct graphs *graphs, const struct rows *rows, void (*body)(void *),
                      void *user)
{
    body(user);
    if (graphs->n_bodies < MAX_BODIES)
        graphs->bodies[graphs->n_bodies++] = {body, user, rows->kind == ROWS_STEP};
}

static bool is_of(const struct graph *graph, const struct known_body *body,
                  const struct pass_bounds *bounds)
{
    return graph->body == body && memcmp(&graph->bounds, bounds, sizeof(*bounds)) == 0;
}

/* Of those that are not under way; NULL: there is none. */
static struct graph *least_used(struct graphs *graphs, const struct store *store, bool is_recorded)
{
    struct graph *least = NULL;
    for (struct graph &each : graphs->all) {
        bool is_over = !each.exec || each.step < store->n_polled;
        if (is_over && (!is_recorded || each.exec) && (!least || each.turn < least->turn))
            least = &each;
    }
    return least;
}

static struct graph *find_graph(struct graphs *graphs, const struct store *store,
                                const struct known_body *body, const struct pass_bounds *bounds)
{
    struct graph *graph = NULL;
    for (struct graph &each : graphs->all)
        if (is_of(&each, body, bounds))
            graph = &each;
    if (!graph) {
        graph = least_used(graphs, store, false);
        if (!graph)
            return NULL;
        forget(graphs, graph);
        graph->body = body;
        graph->bounds = *bounds;
    }
    graph->turn = ++graphs->turn;
    return graph;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static bool is_written(const struct graph *graph, const struct buffer_forms *forms)
{
    for (size_t i = 0; i < graph->n_left; i++)
        if (graph->left[i].of == forms)
            return true;
    return false;
}

bool graphs_note_written(struct graphs *graphs, struct buffer_forms *forms)
{
    struct graph *graph = graphs ? graphs->recording : NULL;
    if (!graph)
        return true;
    if (!graph->is_plain && !is_written(graph, forms)) {
        graph->is_plain = graph->n_left == MAX_BUFFERS;
        if (!graph->is_plain)
            graph->left[graph->n_left++].of = forms;
    }
    return !graph->is_plain;
}

bool graphs_note_read(struct graphs *graphs, const struct buffer_forms *forms)
{
    struct graph *graph = graphs ? graphs->recording : NULL;
    if (!graph)
        return true;
    graph->is_plain |= !is_written(graph, forms);
    return !graph->is_plain;
}

static cudaError_t capture(struct graphs *graphs, cudaStream_t stream, struct graph *graph,
                           cudaGraph_t *recorded)
{
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    graphs->recording = graph;
    graph->n_left = 0;
    graph->body->body(graph->body->user);
    graphs->recording = NULL;
    cudaError_t of_launch = cudaPeekAtLastError();
    error = cudaStreamEndCapture(stream, recorded);
    return of_launch != cudaSuccess ? of_launch : error;
}

/* Whether there is room now for one of so many nodes. */
static bool make_room(struct graphs *graphs, const struct store *store, size_t n_nodes)
{
    while (graphs->n_nodes + n_nodes > GRAPH_NODES) {
        struct graph *least = least_used(graphs, store, true);
        if (!least)
            return false;
        forget(graphs, least);
    }
    return true;
}

/* Brings it over to the device, too: without memory for that there is no graph, but the device is
 * not lost. */
static cudaError_t keep(struct graphs *graphs, cudaStream_t stream, const struct store *store,
                        struct graph *graph, cudaGraph_t recorded)
{
    size_t n_nodes = 0;
    cudaError_t error = cudaGraphGetNodes(recorded, NULL, &n_nodes);
    if (error != cudaSuccess)
        return error;
    graph->is_plain |= n_nodes == 0 || n_nodes > MAX_GRAPH_NODES;
    if (graph->is_plain || !make_room(graphs, store, n_nodes))
        return cudaSuccess;
    error = cudaGraphInstantiate(&graph->exec, recorded, 0);
    if (error != cudaSuccess) {
        graph->exec = NULL;
        return error;
    }
    graph->n_nodes = n_nodes;
    graphs->n_nodes += n_nodes;
    return cudaGraphUpload(graph->exec, stream);
}

static cudaError_t try_to_record(struct graphs *graphs, const struct stream *stream,
                                 const struct store *store, struct graph *graph)
{
    cudaGraph_t recorded = NULL;
    cudaError_t error = capture(graphs, stream->cuda, graph, &recorded);
    if (error == cudaSuccess)
        error = keep(graphs, stream->cuda, store, graph, recorded);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (error != cudaSuccess) {
        forget_exec(graphs, graph);
        cudaGetLastError(); /* the pass is launched plainly, and tells again what is wrong */
    }
    return error;
}

static void record(struct graphs *graphs, const struct stream *stream, const struct rows *rows,
                   const struct store *store, struct graph *graph)
{
    cudaError_t error = try_to_record(graphs, stream, store, graph);
    if (error != cudaSuccess && gpu_overlaps) {
        gpu_is_serial = true;
        error = try_to_record(graphs, stream, store, graph);
        gpu_is_serial = false;
    }
    graphs->n_failures = error == cudaSuccess ? 0 : graphs->n_failures + 1;
    graph->has_advanced = rows->has_advanced;
    for (size_t i = 0; i < graph->n_left; i++)
        graph->left[i].forms = *graph->left[i].of;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static void replay(const struct stream *stream, struct rows *rows, const struct store *store,
                   struct graph *graph)
{
    cudaGraphLaunch(graph->exec, stream->cuda);
    graph->step = store->n_steps;
    rows->has_advanced = graph->has_advanced;
    for (size_t i = 0; i < graph->n_left; i++)
        *graph->left[i].of = graph->left[i].forms;
}

/* An error that is there already stays for the poll. */
static bool may_record(const struct graphs *graphs, const struct graph *graph)
{
    return graph->is_seen && !graph->is_plain && graphs->n_failures < MAX_FAILURES &&
           cudaPeekAtLastError() == cudaSuccess;
}

void graphs_run(struct graphs *graphs, struct stream *stream, struct rows *rows,
                const struct store *store, void (*body)(void *), void *user)
{
    const struct known_body *known = graphs ? find_body(graphs, body, user) : NULL;
    if (!graphs || !known) {
        if (graphs)
            run_first(graphs, rows, body, user);
        else
            body(user);
        return;
    }
    if (known->is_step)
        store_bound_step(store, rows);
    struct graph *graph = find_graph(graphs, store, known, rows);
    if (graph && !graph->exec && may_record(graphs, graph))
        record(graphs, stream, rows, store, graph);
    if (graph && graph->exec) {
        replay(stream, rows, store, graph);
        return;
    }
    if (graph)
        graph->is_seen = true;
    body(user);
}
