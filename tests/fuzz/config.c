/* config.json: what loads must be within the bounds that the rest of the engine relies on. */
#include "model/config.h"

#include <stdlib.h>

#include "input.h"
#include "nn/network.h" /* network_kinds */

static void check(const struct config *config)
{
    bool is_transformer = config->encoder_self.n_layers > 0;
    if (is_transformer &&
        (config->d_model % config->encoder_heads != 0 || !(config->position_steps >= 1.0)))
        abort();
    if (config->encoder_layers < 1 || config->encoder_layers > CONFIG_MAX_LAYERS ||
        config->decoder_layers > CONFIG_MAX_LAYERS)
        abort();
    if (config->end_token < 0 || config->end_token >= config->vocab_size ||
        config->start_token < 0 || config->start_token >= config->decoder_vocab_size)
        abort();
    for (int i = 0; i < config->n_forbidden; i++)
        if (config->forbidden[i] < 0 || config->forbidden[i] >= config->decoder_vocab_size)
            abort();
    if (config_max_area_width(config) < 1 || config_max_area_width(config) > MAX_AREA_WIDTH)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct acre_err err;
    input_write("config.json", data, size);
    if (config_load(input_directory(), "en-de", network_kinds, &config, &err) != 0)
        return 0;
    check(&config);
    config_fini(&config);
    return 0;
}
