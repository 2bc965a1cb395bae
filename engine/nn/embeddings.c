#include "nn/embeddings.h"

#include <math.h>

#include "base/error.h"

/* The embedding of one side: its own tensor, or the shared one. */
static int find_table(const struct safetensors *weights, const struct config *config,
                      const char *own_name, int vocab_size, struct tensor *table,
                      struct acre_err *err)
{
    const char *name = config->share_embeddings ? "model.shared.weight" : own_name;
    if (config->share_embeddings && !safetensors_find(weights, name))
        name = own_name; /* older files hold copies instead */
    size_t shape[2] = {(size_t)vocab_size, (size_t)config->d_model};
    return safetensors_get(weights, name, 2, shape, table, err);
}

static int open_table(struct device *device, const struct config *config,
                      const struct tensor *table, size_t n_positions, struct embedding **embedding,
                      struct acre_err *err)
{
    float scale = config->scale_embedding ? sqrtf((float)config->d_model) : 1.0f;
    if (device->ops->embedding_open(device, table, scale, n_positions, embedding) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the position table");
    return 0;
}

static int bind_output(struct embeddings *embeddings, struct device *device,
                       const struct config *config, const struct safetensors *weights,
                       const struct tensor *table, struct acre_err *err)
{
    struct weight_part part = {.weight = *table, .scale = 1.0f};
    size_t shape[2] = {1, (size_t)config->decoder_vocab_size};
    if (safetensors_find(weights, "final_logits_bias")) {
        int status = safetensors_get(weights, "final_logits_bias", 2, shape, &part.bias, err);
        if (status != 0)
            return status;
    }
    if (device->ops->weight_open(device, config->compute_type, &part, 1, &embeddings->output) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the output layer");
    return 0;
}

int embeddings_bind(struct embeddings *embeddings, struct device *device,
                    const struct config *config, const struct safetensors *weights,
                    size_t n_positions, struct acre_err *err)
{
    struct tensor source, target;
    int status = find_table(weights, config, "model.encoder.embed_tokens.weight",
                            config->vocab_size, &source, err);
    if (status != 0)
        return status;
    status = find_table(weights, config, "model.decoder.embed_tokens.weight",
                        config->decoder_vocab_size, &target, err);
    if (status != 0)
        return status;
    status = open_table(device, config, &source, n_positions, &embeddings->source, err);
    if (status == 0 && source.data == target.data)
        embeddings->target = embeddings->source;
    else if (status == 0)
        status = open_table(device, config, &target, n_positions, &embeddings->target, err);
    return status != 0 ? status : bind_output(embeddings, device, config, weights, &target, err);
}

void embeddings_fini(struct embeddings *embeddings, struct device *device)
{
    device->ops->weight_close(embeddings->output);
    if (embeddings->target != embeddings->source)
        device->ops->embedding_close(embeddings->target);
    device->ops->embedding_close(embeddings->source);
}
