#include "model/config_keys.h"

#include <stdio.h>

#include "base/error.h"

int config_get_ints(const struct json_object *object, size_t n, const struct config_int *keys,
                    struct config *config, struct acre_err *err)
{
    for (size_t i = 0; i < n; i++) {
        int *value = (int *)(void *)((char *)config + keys[i].offset);
        int status = json_get_int(object, keys[i].field, keys[i].min, keys[i].max, value, err);
        if (status)
            return status;
    }
    return 0;
}

int config_check_flag(const struct json_object *object, const char *field, bool wanted,
                      struct acre_err *err)
{
    bool value = wanted;
    int status = json_opt_bool(object, field, &value, err);
    if (status || value == wanted)
        return status;
    return err_set(err, ACRE_EUNSUPPORTED, "%s: %s: expected %s, found %s, which is not supported",
                   object->file, field, wanted ? "true" : "false", value ? "true" : "false");
}

int config_check_heads(const struct json_object *object, const char *field, int d_model, int heads,
                       struct acre_err *err)
{
    char expected[64];
    if (d_model % heads == 0)
        return 0;
    snprintf(expected, sizeof(expected), "a divisor of d_model, which is %d", d_model);
    return json_fail(object, field, expected, json_find(object, field), err);
}
