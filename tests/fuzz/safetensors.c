/* A model file: whatever opens must hand out only tensors that lie inside the file. */
#include "model/safetensors.h"

#include "input.h"

/* Reads the first and the last element: out of bounds is a fault that the sanitizer sees. */
static void touch(const struct tensor *tensor)
{
    float value;
    size_t n = tensor_count(tensor);
    if (n == 0)
        return;
    tensor_read(tensor, 0, 1, &value);
    tensor_read(tensor, n - 1, 1, &value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *weights;
    struct acre_err err;
    input_write("model.safetensors", data, size);
    if (safetensors_open(input_directory(), &weights, &err) != 0)
        return 0;
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const char *name = safetensors_name(weights, i);
        const struct tensor *found = safetensors_find(weights, name);
        struct tensor tensor;
        if (safetensors_get(weights, name, found->n_dims, found->shape, &tensor, &err) == 0)
            touch(&tensor);
    }
    safetensors_release(weights);
    safetensors_close(weights);
    return 0;
}
