/* config_keys.h - what the readers of config.json have in common. Any thread.
 */
#ifndef MODEL_CONFIG_KEYS_H
#define MODEL_CONFIG_KEYS_H

#include <stddef.h>

#include "base/json.h"
#include "model/config.h"

enum { CONFIG_MAX_WIDTH = 65536 };

/* A key whose value is an integer, and the member of struct config for it. */
struct config_int {
    const char *field;
    int min, max;
    size_t offset;
};

#define CONFIG_INT(field, min, max, member)                                                        \
    {                                                                                              \
        field, min, max, offsetof(struct config, member)                                           \
    }

int config_get_ints(const struct json_object *object, size_t n, const struct config_int *keys,
                    struct config *config, struct acre_err *err);

/* A flag that is supported with one value only, which is also its default. */
int config_check_flag(const struct json_object *object, const char *field, bool wanted,
                      struct acre_err *err);

/* That the heads, as the field says, share d_model among them. */
int config_check_heads(const struct json_object *object, const char *field, int d_model, int heads,
                       struct acre_err *err);

#endif
