#include "device/device.h"

#include <string.h>

#include "base/cpu.h"
#include "base/error.h"

int device_open(const char *name, struct device **device, struct acre_err *err)
{
    enum cpu_level level;
    if (strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0)
        return err_set(err, ACRE_EUNSUPPORTED,
                       "device: expected auto or cpu in this build, found \"%s\"", name);
    int status = cpu_detect(&level, err);
    return status != 0 ? status : device_cpu_open(level, device, err);
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}
