/* GPUs are opened one after the other, by their numbers. Those that cannot be used are left out as
 * long as there are others, which the caller is told. */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static int n_of_kind(const struct device_set *devices)
{
    int n = devices->n > 0 ? devices->all[0]->n_alike : MAX_DEVICES;
    return n < MAX_DEVICES ? n : MAX_DEVICES;
}

static int open_gpus(struct device_set *devices, struct acre_err *err)
{
    struct acre_err first = {.code = 0};
    char name[16];
    for (int i = 0; i < n_of_kind(devices); i++) {
        struct acre_err why = {.code = 0};
        snprintf(name, sizeof(name), "cuda:%d", i);
        int status = device_open(name, &devices->all[devices->n], &why);
        devices->n += status == 0;
        if (status != 0 && first.code == 0)
            first = why;
    }
    return err_set(err, devices->n > 0 ? 0 : first.code, "%s", first.text);
}

int devices_open(const char *name, struct device_set *devices, struct acre_err *err)
{
    *devices = (struct device_set){.n = 0};
    if (strcmp(name, "cuda") == 0)
        return open_gpus(devices, err);
    int status = device_open(name, &devices->all[0], err);
    devices->n = status == 0;
    return status;
}

void devices_close(const struct device_set *devices)
{
    for (size_t i = 0; i < devices->n; i++)
        device_close(devices->all[i]);
}
