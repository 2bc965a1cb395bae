#include "device/device.h"

#include <string.h>

#include "base/cpu.h"
#include "base/error.h"

int device_open(const char *name, const char *compute_type, struct device **device,
                struct acre_err *err)
{
    if (strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "device: expected auto or cpu in this build, found \"%s\"", name);
    if (strcmp(compute_type, "auto") != 0 && strcmp(compute_type, "f32") != 0)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "compute_type: expected auto or f32 in this build, found \"%s\"",
                       compute_type);
    enum cpu_level level;
    int status = cpu_detect(&level, err);
    if (status != 0)
        return status;
    return device_cpu_open(level, device, err);
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}
