#include "nn/marian.h"

#include "model/config_keys.h"
#include "nn/transformer.h"
#include "nn/transformer_config.h"

static int read_config(const struct json_object *object, struct config *config,
                       struct acre_err *err)
{
    static const struct {
        const char *field;
        bool wanted;
    } fixed[] = {{"static_position_embeddings", true}, {"normalize_before", false},
                 {"normalize_embedding", false},       {"add_final_layer_norm", false},
                 {"tie_word_embeddings", true},        {"is_encoder_decoder", true}};
    int code = transformer_read(object, config, err);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !code; i++)
        code = config_check_flag(object, fixed[i].field, fixed[i].wanted, err);
    return code;
}

const struct architecture marian_architecture = {
    .config = {.model_type = "marian",
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
