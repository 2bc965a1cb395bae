/* As transformers computes it: layer norms before sublayers, after the last layer and of the
 * embeddings; learned positions. */
#include "nn/architecture.h"

#include <string.h>

#include "model/config_keys.h"
#include "nn/transformer.h"
#include "nn/transformer_config.h"

enum { UNUSED_POSITIONS = 2 }; /* rows of the table before the first token's, from fairseq */

/* Where nobody names a tokenizer, transformers takes that of the first mBART, whose sources end
 * with their language's token; it is refused by this name. */
static const char FIRST_TOKENIZER[] = "MBartTokenizer";

static int read_config(const struct json_object *object, struct config *config,
                       struct acre_err *err)
{
    static const struct {
        const char *field;
        bool wanted;
    } fixed[] = {{"normalize_before", true},     {"normalize_embedding", true},
                 {"add_final_layer_norm", true}, {"static_position_embeddings", false},
                 {"add_bias_logits", false},     {"tie_word_embeddings", true},
                 {"is_encoder_decoder", true}};
    config->normalize_before = true;
    config->normalize_embedding = true;
    config->norm_epsilon = 1e-5f;
    config->has_learned_positions = true;
    config->first_position = UNUSED_POSITIONS;
    memcpy(config->tokenizer_class, FIRST_TOKENIZER, sizeof(FIRST_TOKENIZER));
    int status = transformer_read(object, config, err);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !status; i++)
        status = config_check_flag(object, fixed[i].field, fixed[i].wanted, err);
    return status;
}

const struct architecture mbart_architecture = {
    .config = {.model_type = "mbart",
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
