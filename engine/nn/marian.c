#include "nn/architecture.h"

#include "model/config_keys.h"
#include "nn/transformer.h"
#include "nn/transformer_config.h"

/* transformers computes them in one way only. In models that come from Marian the importer says
 * what Marian computes. */
static int read_numerics(const struct json_object *object, struct config *config,
                         struct acre_err *err)
{
    int steps = 0;
    config->norm_epsilon = 1e-5f;
    config->position_steps = config->d_model / 2.0;
    int status = json_opt_int(object, "position_steps", 1, config->d_model, &steps, err);
    if (steps > 0)
        config->position_steps = steps;
    return status ? status
                  : json_opt_float(object, "layer_norm_epsilon", 1e-12f, 0.1f,
                                   &config->norm_epsilon, err);
}

static int read_config(const struct json_object *object, struct config *config,
                       struct acre_err *err)
{
    static const struct {
        const char *field;
        bool wanted;
    } fixed[] = {{"static_position_embeddings", true}, {"normalize_before", false},
                 {"normalize_embedding", false},       {"add_final_layer_norm", false},
                 {"tie_word_embeddings", true},        {"is_encoder_decoder", true}};
    int status = transformer_read(object, config, err);
    if (!status)
        status = read_numerics(object, config, err);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !status; i++)
        status = config_check_flag(object, fixed[i].field, fixed[i].wanted, err);
    return status;
}

const struct architecture marian_architecture = {
    .config = {.model_type = "marian",
               .forbids_pad = true,
               .read = read_config,
               .attentions = transformer_attentions,
               .list = transformer_list},
    .open = transformer_open,
    .close = transformer_close,
    .needs = transformer_needs,
    .encode = transformer_encode,
    .step = transformer_step,
    .decode = transformer_decode,
};
