#include "nn/embeddings.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* The name of one side's embedding: its own, or the shared one. */
static const char *table_name(const struct safetensors *weights, const struct config *config,
                              const char *own_name)
{
    static const char shared[] = "model.shared.weight"; /* older files hold copies instead */
    return config->share_embeddings && safetensors_find(weights, shared) ? shared : own_name;
}

/* *table is borrowed from the embedding. */
static int open_table(struct device *device, const struct config *config,
                      struct safetensors *weights, const char *name, int vocab_size,
                      struct tensor *table, struct embedding **embedding, struct acre_err *err)
{
    float scale = config->scale_embedding ? sqrtf((float)config->d_model) : 1.0f;
    size_t shape[2] = {(size_t)vocab_size, (size_t)config->d_model};
    int status = safetensors_take(weights, name, 2, shape, table, err);
    if (status != 0)
        return status;
    status = device->ops->embedding_open(device, table, scale, embedding);
    return status == 0 ? 0 : device_explain(device, status, name, "an embedding", err);
}

static int bind_output(struct embeddings *embeddings, struct device *device,
                       const struct config *config, struct safetensors *weights,
                       const struct tensor *table, struct acre_err *err)
{
    struct weight_part part = {.weight = *table, .scale = 1.0f};
    size_t shape[2] = {1, (size_t)config->decoder_vocab_size};
    if (safetensors_has(weights, "final_logits_bias")) {
        int status = safetensors_get(weights, "final_logits_bias", 2, shape, &part.bias, err);
        if (status != 0)
            return status;
    }
    return device_bind_weight(device, config->compute_type, &part, 1, "output layer",
                              &embeddings->output, err);
}

int embeddings_bind(struct embeddings *embeddings, struct device *device,
                    const struct config *config, struct safetensors *weights, struct acre_err *err)
{
    const char *source = table_name(weights, config, "model.encoder.embed_tokens.weight");
    const char *target = table_name(weights, config, "model.decoder.embed_tokens.weight");
    struct tensor table;
    int status = open_table(device, config, weights, source, config->vocab_size, &table,
                            &embeddings->source, err);
    if (status == 0 && !strcmp(source, target) && config->vocab_size == config->decoder_vocab_size)
        embeddings->target = embeddings->source;
    else if (status == 0)
        status = open_table(device, config, weights, target, config->decoder_vocab_size, &table,
                            &embeddings->target, err);
    if (status == 0)
        status = bind_output(embeddings, device, config, weights, &table, err);
    safetensors_release(weights);
    return status;
}

static int open_positions(struct device *device, const struct positions *positions, size_t c,
                          struct position_embedding **embedding, struct acre_err *err)
{
    int status = device->ops->position_embedding_open(device, positions, c, embedding);
    if (status == ACRE_EDEVICE)
        return device_explain(device, status, "config.json: max_position_embeddings", "", err);
    if (status == 0)
        return 0;
    return err_set(err, ACRE_ENOMEM,
                   "config.json: max_position_embeddings: expected %zu bytes of memory for a table "
                   "of %zu positions, found fewer",
                   positions->n * c * sizeof(float), positions->n);
}

static int bind_learned(const char *name, struct device *device, const struct config *config,
                        struct safetensors *weights, struct positions positions,
                        struct position_embedding **embedding, struct acre_err *err)
{
    size_t c = (size_t)config->d_model, shape[2] = {positions.first + positions.n, c};
    struct tensor table;
    int status = safetensors_get(weights, name, 2, shape, &table, err);
    positions.learned = &table;
    return status ? status : open_positions(device, &positions, c, embedding, err);
}

int embeddings_bind_positions(struct embeddings *embeddings, struct device *device,
                              const struct config *config, struct safetensors *weights,
                              struct acre_err *err)
{
    const struct positions positions = {.n = (size_t)config->max_positions,
                                        .first = (size_t)config->first_position,
                                        .steps = config->position_steps};
    int status;
    if (config->has_learned_positions) {
        status = bind_learned("model.encoder.embed_positions.weight", device, config, weights,
                              positions, &embeddings->source_positions, err);
        if (status == 0)
            status = bind_learned("model.decoder.embed_positions.weight", device, config, weights,
                                  positions, &embeddings->target_positions, err);
    } else {
        status = open_positions(device, &positions, (size_t)config->d_model,
                                &embeddings->source_positions, err);
        embeddings->target_positions = embeddings->source_positions;
    }
    safetensors_release(weights);
    return status;
}

void embeddings_fini(struct embeddings *embeddings, struct device *device)
{
    device->ops->weight_close(embeddings->output);
    if (embeddings->target != embeddings->source)
        device->ops->embedding_close(embeddings->target);
    device->ops->embedding_close(embeddings->source);
    if (embeddings->target_positions != embeddings->source_positions)
        device->ops->position_embedding_close(embeddings->target_positions);
    device->ops->position_embedding_close(embeddings->source_positions);
}
