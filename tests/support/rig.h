/* rig.h - a model directory opened below acre.h: device, configuration, weights, transformer and
 * one stream with a workspace, for tests of these layers. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include "acre.h"
#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "nn/network.h"

enum { RIG_MAX_ROWS = 512 };

/* The small models with golden translations; paths from the root of the tree. NULL at the end. */
extern const char *const rig_models[];

struct rig {
    struct device *device;
    struct config config;
    struct safetensors *weights;
    struct transformer *transformer;
    struct network network; /* the transformer */
    struct stream *stream;
    struct workspace workspace;
};

/* For products in `type`. 0 or ACRE_E...; needs rig_close() either way. */
int rig_open(struct rig *rig, const char *directory, enum kernel_type type, struct acre_err *err);
void rig_close(struct rig *rig);

#endif
