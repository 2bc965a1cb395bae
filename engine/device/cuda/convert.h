/* convert.h - rows of numbers from one type to another. */
#ifndef DEVICE_CUDA_CONVERT_H
#define DEVICE_CUDA_CONVERT_H

#include "device/cuda/gpu.h"

struct convert_task {
    const void *from; /* [R, from_stride] of from_type, `width` numbers of each row */
    void *to;         /* [R, to_stride] of to_type */
    enum number_type from_type, to_type;
    int from_stride, to_stride, width;
    const int32_t *n_rows; /* on the device; NULL: as many as are launched for */
};

/* What kernels are compiled for, see gpu_compiled_for(). */
cudaError_t convert_compiled_for(int *architecture);

void convert_launch(cudaStream_t stream, const convert_task &task, int max_rows);

#endif
