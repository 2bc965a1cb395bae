#include "nn/network.h"

#include <string.h>

#include "base/mem.h"

int network_init(struct network *network, struct device *device, const struct config *config,
                 struct safetensors *weights, struct acre_err *err)
{
    *network = (struct network){.device = device};
    if (config_is_lstm(config))
        return lstm_open(device, config, weights, &network->lstm, err);
    return transformer_open(device, config, weights, &network->transformer, err);
}

void network_fini(struct network *network)
{
    lstm_close(network->lstm);
    transformer_close(network->transformer);
}

int network_workspace_init(const struct network *network, size_t max_rows,
                           struct workspace *workspace)
{
    if (network->lstm)
        return lstm_workspace_init(workspace, network->lstm, max_rows);
    return transformer_workspace_init(workspace, network->transformer, max_rows);
}

void network_workspace_fini(const struct network *network, struct workspace *workspace)
{
    network->device->ops->free(network->device, workspace->memory, workspace->n_floats);
    mem_free(workspace->before);
    mem_free(workspace->after);
    *workspace = (struct workspace){.max_rows = 0};
}

void network_encode(const struct network *network, struct stream *stream,
                    struct workspace *workspace, size_t n_sentences, const size_t *first,
                    const int32_t *ids, const int32_t *positions)
{
    if (network->lstm)
        lstm_encode(network->lstm, stream, workspace, n_sentences, first, ids);
    else
        transformer_encode(network->transformer, stream, workspace, n_sentences, first, ids,
                           positions);
}

size_t network_memory_floats(const struct network *network, size_t length)
{
    return network->lstm ? lstm_memory_floats(network->lstm, length)
                         : transformer_memory_floats(network->transformer, length);
}

void network_store_memory(const struct network *network, struct stream *stream,
                          struct workspace *workspace, size_t n_sentences, const size_t *first,
                          float *const *memories)
{
    if (network->lstm)
        lstm_store_memory(network->lstm, stream, workspace, n_sentences, first, memories);
    else
        transformer_store_memory(network->transformer, stream, workspace, n_sentences, first,
                                 memories);
}

size_t network_cache_floats(const struct network *network)
{
    return network->lstm ? lstm_cache_floats(network->lstm)
                         : transformer_cache_floats(network->transformer);
}

size_t network_cache_steps(const struct network *network)
{
    return network->lstm ? LSTM_CACHE_STEPS : transformer_positions(network->transformer);
}

void network_forget_rows(const struct network *network, float *cache, size_t cache_rows,
                         size_t first_row, size_t n_rows)
{
    if (network->lstm) {
        size_t row_floats = lstm_cache_floats(network->lstm);
        network->device->ops->forget(network->device, cache + first_row * row_floats,
                                     n_rows * row_floats);
    } else {
        transformer_forget_rows(network->transformer, cache, cache_rows, first_row, n_rows);
    }
}

void network_step(const struct network *network, struct stream *stream, struct workspace *workspace,
                  struct decoder_step *step)
{
    if (network->lstm)
        lstm_step(network->lstm, stream, workspace, step);
    else
        transformer_step(network->transformer, stream, workspace, step);
}

void network_search_output(const struct network *network, struct stream *stream,
                           struct workspace *workspace, size_t n_rows, struct logit_scan *scans)
{
    if (network->lstm)
        lstm_search_output(network->lstm, stream, workspace, n_rows, scans);
    else
        transformer_search_output(network->transformer, stream, workspace, n_rows, scans);
}

struct stream_limits network_stream_limits(const struct network *network)
{
    return network->lstm ? lstm_stream_limits(network->lstm)
                         : transformer_stream_limits(network->transformer);
}

size_t network_weights_floats(const struct network *network, size_t memory_length)
{
    return network_stream_limits(network).max_planes * kernel_padded(memory_length);
}

size_t network_positions(const struct network *network)
{
    return network->lstm ? lstm_positions(network->lstm)
                         : transformer_positions(network->transformer);
}
