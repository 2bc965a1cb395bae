/* Reading a model. Happy path: config.json, the tokenizer, then the weights, once for each device,
 * whose network binds those it asks for; what it does not ask for is checked here. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    LARGE_PARAMETERS = 100000000, /* whoever loads so many is told that it begins, */
    PROGRESS_NS = 2000000000,     /* and how far it is, not oftener than this */
    PROGRESS_PARTS = 10,          /* nor than so often */
};

/* ---- Do the files belong together? ----------------------------------------------------------- */

/* What transformers ends a source with is the tokenizer's, what ends a translation the model's.
 * Where they differ, the files are of two models. */
static int check_end(const struct acre_model *model, struct acre_err *err)
{
    int32_t end = tokenizer_end(model->tokenizer);
    if (end == model->config.end_token)
        return 0;
    return err_set(err, ACRE_EMODEL,
                   "config.json or generation_config.json: eos_token_id: expected %d, the "
                   "tokenizer's </s>, found %d",
                   (int)end, model->config.end_token);
}

/* A translation may begin with them: then they are rows of the decoder's table. */
static int check_languages(const struct acre_model *model, struct acre_err *err)
{
    const struct language_tokens *tokens = tokenizer_languages(model->tokenizer);
    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->items[i].id >= model->config.decoder_vocab_size)
            return err_set(err, ACRE_EMODEL,
                           "config.json: decoder_vocab_size: expected more than %d, the number of "
                           "the tokenizer's %s, found %d",
                           (int)tokens->items[i].id, tokens->items[i].name,
                           model->config.decoder_vocab_size);
    return 0;
}

/* Of the attention that a parameter of keys belongs to. */
static enum area_key_mode key_mode_of(const struct config *config, const char *tensor)
{
    if (!strstr(tensor, ".self_attn."))
        return config->decoder_cross.key;
    return strstr(tensor, ".encoder.") ? config->encoder_self.key : config->decoder_self.key;
}

/* Keys without the dense layers that are there are not those that were trained. The networks of a
 * preset share weights in this way, so that it is not network_open() that refuses them. */
static int check_key_weights(const struct config *config, const struct safetensors *weights,
                             struct acre_err *err)
{
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const char *tensor = safetensors_name(weights, i);
        if (!strstr(tensor, ".area."))
            continue;
        enum area_key_mode mode = key_mode_of(config, tensor);
        if (area_key_inputs(mode, (size_t)config->d_model) == 0)
            return err_set(err, ACRE_EMODEL,
                           "config.json: area.key: expected one with the weights %.100s, found %s",
                           tensor, mode == AREA_KEY_MAX ? "max" : "mean");
    }
    return 0;
}

/* A layer that is left out is missed by no network, and what comes out is no translation. */
static int check_layers(const char *side, int n_layers, const struct safetensors *weights,
                        struct acre_err *err)
{
    char prefix[32];
    size_t n = (size_t)snprintf(prefix, sizeof(prefix), "model.%s.layers.", side);
    long last = -1;
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const char *tensor = safetensors_name(weights, i);
        long layer = strncmp(tensor, prefix, n) ? -1 : strtol(tensor + n, NULL, 10);
        if (layer > last)
            last = layer;
    }
    if (last < n_layers)
        return 0;
    return err_set(err, ACRE_EMODEL,
                   "config.json: %s_layers: expected more than %ld, the last layer with weights, "
                   "found %d",
                   side, last, n_layers);
}

/* What the network does not ask for. */
static int check_weights(const struct config *config, const struct safetensors *weights,
                         struct acre_err *err)
{
    int status = check_layers("encoder", config->encoder_layers, weights, err);
    if (status == 0)
        status = check_layers("decoder", config->decoder_layers, weights, err);
    return status ? status : check_key_weights(config, weights, err);
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* What a device with f16 computes a model in that tells it nothing else: f16, unless the numbers of
 * its matrices are float32 and it was evaluated in that. */
static enum compute_type half_or_f32(const struct config *config, const struct safetensors *weights)
{
    if (config->compute_type != COMPUTE_F32)
        return COMPUTE_F16;
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const struct tensor *tensor = safetensors_find(weights, safetensors_name(weights, i));
        if (tensor->n_dims == 2 && tensor->dtype == DTYPE_F32)
            return COMPUTE_F32;
    }
    return COMPUTE_F16;
}

/* A large model takes a while to load; whoever waits is told how far it is. */
struct loading {
    const struct acre_model *model;
    uint64_t told_ns;
    uint64_t told_bytes;
};

static void tell_loading(void *user, uint64_t read_bytes, uint64_t all_bytes)
{
    struct loading *loading = user;
    const uint64_t now_ns = scheduler_now_ns();
    if (now_ns - loading->told_ns < PROGRESS_NS ||
        read_bytes - loading->told_bytes < all_bytes / PROGRESS_PARTS || read_bytes >= all_bytes)
        return;
    loading->told_ns = now_ns;
    loading->told_bytes = read_bytes;
    engine_say(&loading->model->engine->options, "model %s: %.0f %% of %.0f MiB of weights read",
               loading->model->name, 100.0 * (double)read_bytes / (double)all_bytes,
               (double)all_bytes / (1 << 20));
}

/* Onto one device; all come to the same type. */
static int load_weights(struct acre_engine *engine, const char *directory, struct acre_model *model,
                        size_t device, struct acre_err *err)
{
    struct safetensors *weights;
    int status = safetensors_open(directory, &weights, err);
    if (status != 0)
        return status;
    if (!engine->is_type_forced && engine->devices.all[device]->has_f16)
        model->config.compute_type = half_or_f32(&model->config, weights);
    struct loading loading = {.model = model, .told_ns = scheduler_now_ns()};
    if (safetensors_parameters(weights) >= LARGE_PARAMETERS)
        engine_say(&engine->options, "model %s: loading %.1f M parameters", model->name,
                   1e-6 * (double)safetensors_parameters(weights));
    safetensors_watch(weights, tell_loading, &loading);
    status = check_weights(&model->config, weights, err);
    if (status == 0)
        status = network_open(engine->devices.all[device], &model->config, weights,
                              &model->networks[device], err);
    model->parameters = safetensors_parameters(weights);
    safetensors_close(weights);
    return status;
}

/* Of one that is lost meanwhile the scheduler hears, and the others go on. */
static int load_onto(struct acre_engine *engine, const char *directory, struct acre_model *model,
                     size_t device, struct acre_err *err)
{
    int status = load_weights(engine, directory, model, device, err);
    if (status != ACRE_EDEVICE)
        return status;
    scheduler_lose_device(engine->scheduler, device, err);
    return engine->fallback ? 0 : scheduler_health(engine->scheduler, err);
}

/* Onto all devices that are well. Where none is, the fallback's model serves; this one has no
 * network then. */
static int load_all_weights(struct acre_engine *engine, const char *directory,
                            struct acre_model *model, struct acre_err *err)
{
    int status = engine->fallback ? 0 : scheduler_health(engine->scheduler, err);
    for (size_t i = 0; status == 0 && i < engine->devices.n; i++)
        if (scheduler_device_is_well(engine->scheduler, i))
            status = load_onto(engine, directory, model, i, err);
    return status;
}

static int open_constraint(struct acre_model *model, struct acre_err *err)
{
    const struct config *config = &model->config;
    struct constraint_options options = {
        .vocab_size = config->decoder_vocab_size,
        .end_token = config->end_token,
        .forbidden = config->forbidden,
        .n_forbidden = config->n_forbidden,
        .bytes = tokenizer_is_bytes(model->tokenizer),
    };
    if (constraint_open(&options, &model->constraint) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the constraints");
    return 0;
}

int model_load(struct acre_engine *engine, const char *directory, struct acre_model *model,
               struct acre_err *err)
{
    struct config *config = &model->config;
    int status = config_load(directory, model->name, network_kinds, config, err);
    if (engine->is_type_forced)
        config->compute_type = engine->compute_type;
    if (status == 0 && config->ignored[0])
        engine_say(&engine->options, "model %s: %s", model->name, config->ignored);
    if (status == 0)
        status = tokenizer_open(directory, config->vocab_size, config->tokenizer_class,
                                &model->tokenizer, err);
    if (status == 0)
        status = check_end(model, err);
    if (status == 0)
        status = check_languages(model, err);
    size_t before = mem_held();
    if (status == 0)
        status = load_all_weights(engine, directory, model, err);
    model->packed_bytes = mem_held() - before;
    return status == 0 ? open_constraint(model, err) : status;
}
