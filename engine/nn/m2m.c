/* As transformers computes it: layer norms before sublayers and after the last layer, positions
 * that count from behind the pad token's id, wavelengths up to 10000 times the first. */
#include "nn/architecture.h"

#include "model/config_keys.h"
#include "nn/transformer.h"
#include "nn/transformer_config.h"

/* The second wavelength needs a second column in each half. */
static int check_width(const struct json_object *object, const struct config *config,
                       struct acre_err *err)
{
    if (config->d_model % 2 == 0 && config->d_model >= 4)
        return 0;
    return json_fail(object, "d_model", "an even number from 4 on", json_find(object, "d_model"),
                     err);
}

static int read_config(const struct json_object *object, struct config *config,
                       struct acre_err *err)
{
    int pad = 0;
    config->scale_embedding = true; /* unless the file says otherwise */
    config->normalize_before = true;
    config->norm_epsilon = 1e-5f;
    config->position_steps = config->d_model / 2.0 - 1.0;
    int status = transformer_read(object, config, err);
    if (!status)
        status = check_width(object, config, err);
    if (!status)
        status = config_check_flag(object, "tie_word_embeddings", true, err);
    if (!status)
        status = config_check_flag(object, "is_encoder_decoder", true, err);
    if (!status)
        status = json_get_int(object, "pad_token_id", 0, config->vocab_size - 1, &pad, err);
    config->first_position = pad + 1;
    return status;
}

const struct architecture m2m_architecture = {
    .config = {.model_type = "m2m_100",
               .shares_embeddings = true,
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
