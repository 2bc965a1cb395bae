/* A configuration has found its architecture. A workspace opens what its network
 * says that it needs; its passes are functions of the workspace alone, as device_ops.run() asks.
 *
 * Opening fails without memory, or where weights do not fit; of passes only the poll can fail. */
#include "nn/network.h"

#include "base/mem.h"

enum {
    ADMIT_ROWS = 1024,      /* bounds how long newcomers keep the running sentences waiting */
    CACHED_BYTES = 4 << 20, /* that a core of a server has of all its caches, about */
};

const struct config_kind *const network_kinds[] = {
    &marian_architecture.config, &m2m_architecture.config, &mbart_architecture.config,
    &lstm_architecture.config, NULL};

int network_open(struct device *device, const struct config *config, struct safetensors *weights,
                 struct network **network, struct acre_err *err)
{
    size_t before = mem_held();
    int status = architecture_of(config)->open(device, config, weights, network, err);
    if (status == 0)
        (*network)->bytes = mem_held() - before;
    return status;
}

void network_close(struct network *network)
{
    if (network)
        network->architecture->close(network);
}

size_t network_weights_floats(const struct network *network, size_t memory_length)
{
    struct network_needs needs;
    network->architecture->needs(network, &needs);
    return needs.stream.max_planes * memory_length;
}

void pass_tell(const struct pass *pass, const struct attention *attention, size_t layer,
               size_t shown_layer, size_t first_head, const struct buffer *query)
{
    const struct attention_listener *listener = pass->listener;
    for (size_t head = 0; listener && head < attention->n_heads; head++) {
        pass->ops->memory_weights(pass->stream, attention, layer, head, pass->rows, pass->store, 0,
                                  query, listener->weights);
        listener->tell(listener->user, attention, shown_layer, first_head + head,
                       listener->weights);
    }
}

/* ---- Workspaces ------------------------------------------------------------------------------ */

static size_t max_rows(const struct network *network, const struct workspace_limits *limits)
{
    size_t step = limits->n_slots * limits->max_beam;
    size_t admit = network->positions > ADMIT_ROWS ? network->positions : ADMIT_ROWS;
    if (limits->max_rows > 0)
        admit = limits->max_rows;
    return step > admit ? step : admit;
}

static int open_buffers(struct workspace *workspace, const struct network_needs *needs)
{
    struct device *device = workspace->network->device;
    int status = 0;
    for (size_t i = 0; i < NETWORK_BUFFERS && needs->widths[i] > 0 && status == 0; i++)
        status = device->ops->buffer_open(device, workspace->max_rows, needs->widths[i],
                                          &workspace->buffers[i]);
    return status;
}

int workspace_open(const struct network *network, const struct workspace_limits *limits,
                   struct workspace *workspace)
{
    struct device *device = network->device;
    struct network_needs needs;
    *workspace = (struct workspace){.network = network, .max_rows = max_rows(network, limits)};
    network->architecture->needs(network, &needs);
    needs.stream.max_rows = workspace->max_rows;
    needs.stream.is_shown = limits->is_shown;
    struct store_shape shape = {
        .n_slots = limits->n_slots,
        .max_beam = limits->max_beam,
        .positions = network->positions,
        .n_layers = needs.n_layers,
        .cross = needs.cross,
        .self = needs.self,
        .n_states = needs.n_states,
        .state_width = needs.state_width,
        .search = limits->search,
        .first_aligned = needs.first_aligned,
        .n_aligned = needs.n_aligned,
    };
    int status = device->ops->store_open(device, &shape, &workspace->store);
    if (status == 0)
        status = device->ops->rows_open(device, workspace->max_rows, &shape, &workspace->rows);
    if (status == 0)
        status = open_buffers(workspace, &needs);
    return status ? status : device->ops->stream_open(device, &needs.stream, &workspace->stream);
}

void workspace_close(struct workspace *workspace)
{
    if (!workspace->network)
        return;
    const struct device_ops *ops = workspace->network->device->ops;
    ops->stream_close(workspace->stream);
    for (size_t i = 0; i < NETWORK_BUFFERS; i++)
        ops->buffer_close(workspace->buffers[i]);
    ops->rows_close(workspace->rows);
    ops->store_close(workspace->store);
    *workspace = (struct workspace){.network = NULL};
}

/* A step reads the weights once, and of each sentence its memory and caches. More sentences share
 * the weights; but those of which the caches hold no more take longer each. So they are at most as
 * many as the caches hold, or as read half as much as the weights, whichever is more. */
size_t workspace_max_load(const struct workspace *workspace, size_t beam)
{
    const struct network *network = workspace->network;
    size_t bytes = network->device->ops->store_token_bytes(workspace->store, beam);
    size_t most = network->bytes / 2 > CACHED_BYTES ? network->bytes / 2 : CACHED_BYTES;
    return bytes > 0 ? most / bytes : SIZE_MAX;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static struct pass pass_of(const struct workspace *workspace,
                           const struct attention_listener *listener)
{
    return (struct pass){
        .ops = workspace->network->device->ops,
        .stream = workspace->stream,
        .rows = workspace->rows,
        .store = workspace->store,
        .buffers = workspace->buffers,
        .listener = listener,
    };
}

static void run(struct workspace *workspace, void (*body)(void *))
{
    workspace->network->device->ops->run(workspace->stream, workspace->rows, workspace->store, body,
                                         workspace);
}

static void encode(void *user)
{
    const struct workspace *workspace = user;
    const struct pass pass = pass_of(workspace, NULL);
    workspace->network->architecture->encode(workspace->network, &pass);
}

static void step(void *user)
{
    const struct workspace *workspace = user;
    const struct network *network = workspace->network;
    const struct pass pass = pass_of(workspace, NULL);
    pass.ops->search_begin(pass.stream, pass.rows, pass.store);
    const struct buffer *hidden = network->architecture->step(network, &pass);
    pass.ops->search_output(pass.stream, network->embeddings.output, pass.rows, pass.store, hidden);
    pass.ops->search_advance(pass.stream, pass.rows, pass.store);
}

void workspace_enter(struct workspace *workspace, size_t n, const struct entry *entries)
{
    workspace->network->device->ops->enter(workspace->stream, workspace->rows, workspace->store, n,
                                           entries);
    run(workspace, encode);
}

void workspace_drop(struct workspace *workspace, size_t slot)
{
    workspace->network->device->ops->drop(workspace->stream, workspace->store, slot);
}

void workspace_step(struct workspace *workspace)
{
    run(workspace, step);
}

int workspace_poll(struct workspace *workspace, struct progress *progress, struct acre_err *err)
{
    const struct device *device = workspace->network->device;
    return device->ops->poll(workspace->stream, workspace->store, device->runs_ahead, progress,
                             err);
}

struct buffer *workspace_decode(struct workspace *workspace, size_t n, const struct forced *forced)
{
    const struct network *network = workspace->network;
    const struct pass pass = pass_of(workspace, NULL);
    pass.ops->force(pass.stream, pass.rows, pass.store, n, forced);
    struct buffer *hidden = network->architecture->decode(network, &pass);
    pass.ops->search_output(pass.stream, network->embeddings.output, pass.rows, pass.store, hidden);
    return hidden;
}

struct buffer *workspace_show_step(struct workspace *workspace,
                                   const struct attention_listener *listener)
{
    const struct pass pass = pass_of(workspace, listener);
    pass.ops->search_begin(pass.stream, pass.rows, pass.store);
    /* cppcheck-suppress returnDanglingLifetime ; it is one of the workspace's buffers */
    return workspace->network->architecture->step(workspace->network, &pass);
}
