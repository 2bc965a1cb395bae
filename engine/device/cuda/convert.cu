#include "device/cuda/convert.h"

enum { CONVERT_THREADS = 128 };

__global__ static void __launch_bounds__(CONVERT_THREADS, 1) convert(convert_task task)
{
    gpu_await_previous();
    size_t row = blockIdx.x;
    if (task.n_rows && (int)row >= *task.n_rows)
        return;
    for (int i = (int)threadIdx.x; i < task.width; i += CONVERT_THREADS)
        store_number(
            task.to, task.to_type, row * (size_t)task.to_stride + (size_t)i,
            load_number(task.from, task.from_type, row * (size_t)task.from_stride + (size_t)i));
}

void convert_launch(cudaStream_t stream, const convert_task &task, int max_rows)
{
    gpu_launch(stream, convert, dim3((unsigned)max_rows), CONVERT_THREADS, 0, task);
}

cudaError_t convert_compiled_for(int *architecture)
{
    return gpu_compiled_for(convert, architecture);
}
