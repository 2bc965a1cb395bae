#include "rig.h"

#include <stdlib.h>
#include <string.h>

const char *const rig_models[] = {
    "tests/golden/models/tiny-token",     "tests/golden/models/tiny-area",
    "tests/golden/models/tiny-area-mean", "tests/golden/models/tiny-char",
    "tests/golden/models/odd-sizes",      "tests/golden/models/two-vocabs",
    "tests/golden/models/area-concat",    "tests/golden/models/area-max",
    "tests/golden/models/area-sum",       NULL,
};

static int open_workspace(struct rig *rig)
{
    const struct config *config = &rig->config;
    const struct constraint_options any = {.vocab_size = config->decoder_vocab_size,
                                           .end_token = config->end_token};
    int status = constraint_open(&any, &rig->constraint);
    const struct workspace_limits limits = {
        .n_slots = RIG_SLOTS,
        .max_beam = 1,
        .max_rows = RIG_MAX_ROWS,
        .search = {rig->constraint, config->start_token, config->end_token, false},
    };
    return status ? status : workspace_open(rig->network, &limits, &rig->workspace);
}

int rig_open(struct rig *rig, const char *directory, enum compute_type type, struct acre_err *err)
{
    memset(rig, 0, sizeof(*rig));
    int status = config_load(directory, "", network_kinds, &rig->config, err);
    rig->config.compute_type = type;
    if (status == 0)
        status = safetensors_open(directory, &rig->weights, err);
    if (status == 0)
        status = device_open("cpu", &rig->device, err);
    if (status == 0)
        status = network_open(rig->device, &rig->config, rig->weights, &rig->network, err);
    return status ? status : open_workspace(rig);
}

void rig_close(struct rig *rig)
{
    workspace_close(&rig->workspace);
    constraint_close(rig->constraint);
    network_close(rig->network);
    safetensors_close(rig->weights);
    config_fini(&rig->config);
    device_close(rig->device);
}

void rig_clear(struct rig *rig)
{
    for (size_t slot = 0; slot < RIG_SLOTS; slot++)
        workspace_drop(&rig->workspace, slot);
}

float *rig_read(const struct rig *rig, const struct buffer *buffer, size_t n_rows)
{
    size_t c = (size_t)rig->config.d_model;
    float *rows = malloc(n_rows * c * sizeof(*rows));
    rig->device->ops->read(rig->workspace.stream, buffer, n_rows, c, rows);
    return rows;
}
