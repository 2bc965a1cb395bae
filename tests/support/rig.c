#include "rig.h"

#include <string.h>

const char *const rig_models[] = {
    "tests/golden/models/tiny-token",     "tests/golden/models/tiny-area",
    "tests/golden/models/tiny-area-mean", "tests/golden/models/tiny-char",
    "tests/golden/models/odd-sizes",      "tests/golden/models/two-vocabs",
    "tests/golden/models/area-concat",    "tests/golden/models/area-max",
    "tests/golden/models/area-sum",       NULL,
};

static int open_stream(struct rig *rig)
{
    struct stream_limits limits = transformer_stream_limits(rig->transformer);
    if (limits.max_memory < RIG_MAX_ROWS)
        limits.max_memory = RIG_MAX_ROWS;
    int status = rig->device->ops->stream_open(rig->device, &limits, &rig->stream);
    return status ? status : network_workspace_init(&rig->network, RIG_MAX_ROWS, &rig->workspace);
}

int rig_open(struct rig *rig, const char *directory, enum kernel_type type, struct acre_err *err)
{
    memset(rig, 0, sizeof(*rig));
    int status = config_load(directory, &rig->config, err);
    rig->config.compute_type = type;
    if (status == 0)
        status = safetensors_open(directory, &rig->weights, err);
    if (status == 0)
        status = device_open("cpu", &rig->device, err);
    if (status == 0)
        status = transformer_open(rig->device, &rig->config, rig->weights, &rig->transformer, err);
    rig->network = (struct network){rig->device, rig->transformer, NULL};
    return status ? status : open_stream(rig);
}

void rig_close(struct rig *rig)
{
    if (rig->device) {
        network_workspace_fini(&rig->network, &rig->workspace);
        rig->device->ops->stream_close(rig->stream);
    }
    transformer_close(rig->transformer);
    safetensors_close(rig->weights);
    config_fini(&rig->config);
    device_close(rig->device);
}
