#include "device/device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"

enum { MAX_ORDINAL = 99 };

/* The number of "cuda" or "cuda:N"; -1 of anything else. */
static int cuda_ordinal(const char *name)
{
    char *end;
    if (strncmp(name, "cuda", 4) != 0)
        return -1;
    if (name[4] == '\0')
        return 0;
    if (name[4] != ':' || !isdigit((unsigned char)name[5]))
        return -1;
    long ordinal = strtol(name + 5, &end, 10);
    return *end == '\0' && ordinal <= MAX_ORDINAL ? (int)ordinal : -1;
}

bool device_is_known(const char *name)
{
    return strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0 || cuda_ordinal(name) >= 0;
}

static int open_cpu(struct device **device, struct acre_err *err)
{
    enum cpu_level level;
    int status = cpu_detect(&level, err);
    return status != 0 ? status : device_cpu_open(level, device, err);
}

/* The first that can be used; else why the first one cannot. */
static int open_gpu(struct device **device, struct acre_err *err)
{
    int status = device_cuda_open(0, device, err);
    for (int i = 1; status != 0 && i < MAX_DEVICES; i++)
        if (device_cuda_open(i, device, NULL) == 0)
            return err_set(err, 0, "%s", "");
    return status;
}

static int open_any(struct device **device, struct acre_err *err)
{
    struct acre_err why;
    if (open_gpu(device, &why) == 0) {
        err_set(err, 0, "%s", "");
        return 0;
    }
    int status = open_cpu(device, err);
    return status != 0 ? status : err_set(err, 0, "%s", why.text);
}

int device_open(const char *name, struct device **device, struct acre_err *err)
{
    if (!device_is_known(name))
        return err_set(err, ACRE_EUNSUPPORTED, "device: expected " ACRE_DEVICES ", found \"%s\"",
                       name);
    if (strcmp(name, "auto") == 0)
        return open_any(device, err);
    if (strcmp(name, "cpu") == 0)
        return open_cpu(device, err);
    return strcmp(name, "cuda") == 0 ? open_gpu(device, err)
                                     : device_cuda_open(cuda_ordinal(name), device, err);
}

int device_explain(const struct device *device, int status, const char *name, const char *what,
                   struct acre_err *err)
{
    if (status == ACRE_EDEVICE)
        return err_set(err, status, "%s: %s was lost while the weights went there", name,
                       device->name);
    return err_set(err, status, "%s: no memory for %s", name, what);
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
    int status = device->ops->weight_open(device, type, parts, n_parts, weight);
    if (status == ACRE_EDEVICE)
        return device_explain(device, status, name, "", err);
    if (status != 0)
        return err_set(err, ACRE_ENOMEM,
                       "%s: expected memory for the packed weights, found %zu MiB free on %s", name,
                       device->ops->free_bytes(device) >> 20, device->name);
    return 0;
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
}
