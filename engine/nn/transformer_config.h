/* transformer_config.h - what configurations of Transformers have in common. Private to nn/.
 */
#ifndef NN_TRANSFORMER_CONFIG_H
#define NN_TRANSFORMER_CONFIG_H

#include "base/json.h"
#include "model/config.h"

/* Members of struct config_kind; reading is of sizes, their limits, and the activation. */
int transformer_read(const struct json_object *object, struct config *config, struct acre_err *err);
size_t transformer_attentions(struct config *config, struct config_attention *attentions);
void transformer_list(const struct config *config, struct tensor_list *list);

#endif
