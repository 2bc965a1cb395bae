#include "nn/transformer_config.h"

#include <stdio.h>
#include <string.h>

#include "model/config_keys.h"
#include "model/random_weights.h" /* tensor_list_add() */

static int read_activation(const struct json_object *object, struct config *config,
                           struct acre_err *err)
{
    static const struct {
        const char *name;
        enum activation activation;
    } names[] = {{"relu", ACTIVATION_RELU},
                 {"swish", ACTIVATION_SWISH},
                 {"silu", ACTIVATION_SWISH},
                 {"gelu", ACTIVATION_GELU}};
    const json_t *value = json_find(object, "activation_function");
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(name, names[i].name)) {
            config->activation = names[i].activation;
            return 0;
        }
    }
    return json_fail(object, "activation_function", "relu, swish, silu or gelu", value, err);
}

int transformer_read(const struct json_object *object, struct config *config, struct acre_err *err)
{
    static const struct config_int sizes[] = {
        CONFIG_INT("encoder_attention_heads", 1, 1024, encoder_heads),
        CONFIG_INT("encoder_ffn_dim", 1, CONFIG_MAX_WIDTH * 4, encoder_ffn),
        CONFIG_INT("decoder_ffn_dim", 1, CONFIG_MAX_WIDTH * 4, decoder_ffn),
    };
    int c = config->d_model;
    int status = config_get_ints(object, sizeof(sizes) / sizeof(sizes[0]), sizes, config, err);
    if (!status)
        status =
            config_check_heads(object, "encoder_attention_heads", c, config->encoder_heads, err);
    if (!status)
        status =
            config_check_heads(object, "decoder_attention_heads", c, config->decoder_heads, err);
    return status ? status : read_activation(object, config, err);
}

size_t transformer_attentions(struct config *config, struct config_attention *attentions)
{
    int of_encoder = config->d_model / config->encoder_heads;
    int of_decoder = config->d_model / config->decoder_heads;
    int rows = config->max_positions;
    attentions[0] = (struct config_attention){"encoder_self", &config->encoder_self,
                                              config->encoder_layers, of_encoder, rows};
    attentions[1] = (struct config_attention){"decoder_self", &config->decoder_self,
                                              config->decoder_layers, of_decoder, 1};
    attentions[2] = (struct config_attention){"decoder_cross", &config->decoder_cross,
                                              config->decoder_layers, of_decoder, rows};
    return 3;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static void add_attention(struct tensor_list *list, const struct area_config *area, size_t layer,
                          size_t c, size_t n_heads, const char *prefix, const char *name)
{
    static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    char full[96];
    snprintf(full, sizeof(full), "%s%s.", prefix, name);
    for (size_t i = 0; i < sizeof(projections) / sizeof(projections[0]); i++)
        tensor_list_add_pair(list, c, c, full, projections[i]);
    tensor_list_add_area_key(list, area, layer, c / n_heads, full);
    snprintf(full, sizeof(full), "%s_layer_norm", name);
    tensor_list_add_pair(list, c, 0, prefix, full);
}

static void add_feed_forward(struct tensor_list *list, size_t c, size_t f, const char *prefix)
{
    tensor_list_add_pair(list, f, c, prefix, "fc1");
    tensor_list_add_pair(list, c, f, prefix, "fc2");
    tensor_list_add_pair(list, c, 0, prefix, "final_layer_norm");
}

/* What stands before and after the layers of a side. */
static void add_side(const struct config *config, struct tensor_list *list, const char *prefix)
{
    size_t c = (size_t)config->d_model;
    size_t n = (size_t)(config->max_positions + config->first_position);
    if (config->has_learned_positions)
        tensor_list_add(list, n, c, "%sembed_positions.weight", prefix);
    if (config->normalize_embedding)
        tensor_list_add_pair(list, c, 0, prefix, "layernorm_embedding");
    if (config->normalize_before)
        tensor_list_add_pair(list, c, 0, prefix, "layer_norm");
}

void transformer_list(const struct config *config, struct tensor_list *list)
{
    size_t c = (size_t)config->d_model;
    for (size_t i = 0; i < (size_t)config->encoder_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.encoder.layers.%zu.", i);
        add_attention(list, &config->encoder_self, i, c, (size_t)config->encoder_heads, prefix,
                      "self_attn");
        add_feed_forward(list, c, (size_t)config->encoder_ffn, prefix);
    }
    for (size_t i = 0; i < (size_t)config->decoder_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.decoder.layers.%zu.", i);
        add_attention(list, &config->decoder_self, i, c, (size_t)config->decoder_heads, prefix,
                      "self_attn");
        add_attention(list, &config->decoder_cross, i, c, (size_t)config->decoder_heads, prefix,
                      "encoder_attn");
        add_feed_forward(list, c, (size_t)config->decoder_ffn, prefix);
    }
    add_side(config, list, "model.encoder.");
    add_side(config, list, "model.decoder.");
}
