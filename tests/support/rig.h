/* rig.h - a model directory opened below acre.h: device, configuration, weights, network and one
 * workspace, for tests of these layers. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include "acre.h"
#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "nn/network.h"
#include "search/constraint.h"

enum { RIG_MAX_ROWS = 512, RIG_SLOTS = 8 };

/* The small models with golden translations; paths from the root of the tree. NULL at the end. */
extern const char *const rig_models[];

struct rig {
    struct device *device;
    struct config config;
    struct safetensors *weights;
    struct network *network;
    struct constraint *constraint; /* every token may follow */
    struct workspace workspace;    /* of RIG_SLOTS */
};

/* For products in `type`. 0 or ACRE_E...; needs rig_close() either way. */
int rig_open(struct rig *rig, const char *directory, enum compute_type type, struct acre_err *err);
void rig_close(struct rig *rig);

/* Frees all slots of the workspace. */
void rig_clear(struct rig *rig);

/* The first rows of a buffer, as wide as the model; free() them. */
float *rig_read(const struct rig *rig, const struct buffer *buffer, size_t n_rows);

#endif
