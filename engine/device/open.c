#include "device/device.h"

#include <string.h>

#include "base/cpu.h"
#include "base/error.h"

bool device_is_known(const char *name)
{
    return strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0;
}

int device_open(const char *name, struct device **device, struct acre_err *err)
{
    enum cpu_level level;
    if (!device_is_known(name))
        return err_set(err, ACRE_EUNSUPPORTED,
                       "device: expected " ACRE_DEVICES " in this build, found \"%s\"", name);
    int status = cpu_detect(&level, err);
    return status != 0 ? status : device_cpu_open(level, device, err);
}

int device_bind_weight(struct device *device, enum compute_type type,
                       const struct weight_part *parts, size_t n_parts, const char *name,
                       struct weight **weight, struct acre_err *err)
{
    size_t k = parts->n_columns > 0 ? parts->n_columns : parts->weight.shape[1];
    if (type == COMPUTE_INT8 && k > COMPUTE_MAX_INT8_K)
        return err_set(err, ACRE_EOPTION,
                       "%s: expected at most %d columns for products in int8, found %zu", name,
                       COMPUTE_MAX_INT8_K, k);
    if (device->ops->weight_open(device, type, parts, n_parts, weight) != 0)
        return err_set(err, ACRE_ENOMEM, "%s: no memory for the packed weights", name);
    return 0;
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}
