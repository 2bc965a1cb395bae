#include "tensor/compute.h"

#include <string.h>

static const char *const names[COMPUTE_TYPES] = {
    [COMPUTE_F32] = "f32", [COMPUTE_BF16] = "bf16", [COMPUTE_INT8] = "int8", [COMPUTE_F16] = "f16"};

const char *compute_type_name(enum compute_type type)
{
    return names[type];
}

bool compute_type_parse(const char *name, enum compute_type *type)
{
    for (int i = 0; i < COMPUTE_TYPES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *type = (enum compute_type)i;
            return true;
        }
    }
    return false;
}
