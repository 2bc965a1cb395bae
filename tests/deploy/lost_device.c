/* The whole server with a device that is lost ACRE_LOSE_AFTER_S seconds after it was opened, as a
 * GPU that falls off its bus. Linked with --wrap=device_open: nothing of the server or the engine
 * knows of it. */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "device/device.h"

int __real_device_open(const char *name, struct device **device, struct acre_err *err);
int __wrap_device_open(const char *name, struct device **device, struct acre_err *err);

static const struct device_ops *real;
static struct device_ops ops;
static double lost_at_s; /* 0: never */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int poll(struct stream *stream, struct store *store, int most_behind,
                struct progress *progress, struct acre_err *err)
{
    if (lost_at_s > 0 && now_s() >= lost_at_s)
        return err_set(err, ACRE_EDEVICE, "the device fell off its bus");
    return real->poll(stream, store, most_behind, progress, err);
}

int __wrap_device_open(const char *name, struct device **device, struct acre_err *err)
{
    const char *after_s = getenv("ACRE_LOSE_AFTER_S");
    int status = __real_device_open(name, device, err);

    if (status != 0 || !after_s)
        return status;
    lost_at_s = now_s() + atof(after_s);
    real = (*device)->ops;
    ops = *real;
    ops.poll = poll;
    (*device)->ops = &ops;
    return 0;
}
