/* area_config.h - section `area` of config.json: what each attention makes of areas.
 *
 * Any thread.
 */
#ifndef MODEL_AREA_CONFIG_H
#define MODEL_AREA_CONFIG_H

#include "base/json.h"
#include "model/config.h"

/* Regular attention, in no layer. */
void area_config_init(struct area_config *area);

/* Of the file's top object, for the attentions that the model has. */
int area_config_read(const struct json_object *config, size_t n,
                     const struct config_attention *attentions, struct acre_err *err);

#endif
