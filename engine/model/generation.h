/* generation.h - decoding keys of config.json and generation_config.json, as transformers counts
 * them. Any thread.
 */
#ifndef MODEL_GENERATION_H
#define MODEL_GENERATION_H

#include "base/json.h"
#include "model/config.h"

struct generation {
    int num_beams, max_length, min_length, max_new_tokens, min_new_tokens;
    int pad_token, end_token, start_token, first_token, forced_end_token;
    float length_penalty, beam_threshold;
};

extern const struct generation generation_defaults;

/* Reads the keys of one file in place of those read earlier, as transformers does: of these only
 * ids of tokens stay, where this file does not say. Once config's sizes are known. */
int generation_read(const struct json_object *object, struct generation *generation,
                    struct config *config, struct acre_err *err);

/* Puts into config what the files say together. `file` is blamed, as either may say each key. */
int generation_finish(const char *file, const struct generation *generation, struct config *config,
                      struct acre_err *err);

#endif
