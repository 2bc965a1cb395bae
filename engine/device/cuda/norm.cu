#include "device/cuda/norm.h"

enum {
    ROW_WARPS = 4, /* of a block, a row each */
    WIDE = 3072,   /* wider rows have a block each: no GPU must be asked for shared memory below */
};

/* The row of this warp; -1: it has none. */
GPU_CODE int row_of_warp(const int32_t *n_rows)
{
    int row = (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    return row < *n_rows ? row : -1;
}

__global__ static void __launch_bounds__(32 * ROW_WARPS, 1) embed(embed_task task)
{
    gpu_await_previous();
    int row = row_of_warp(task.n_rows), width = task.hidden.width;
    if (row < 0)
        return;
    size_t token = (size_t)task.ids[row] * (size_t)width;
    for (int i = (int)threadIdx.x % 32; i < width; i += 32) {
        float x = task.scale * load_number(task.table, task.table_type, token + (size_t)i);
        if (task.positions)
            x = __fadd_rn(x, task.positions[(size_t)task.places[row] * (size_t)width + (size_t)i]);
        put_hidden(task.hidden, row, i, adjacent<float, 1>{{x}});
    }
}

/* N adjacent numbers at a time. Each lane reads what it wrote itself: no barrier. */
template <int N>
__global__ static void __launch_bounds__(32 * ROW_WARPS, 1) close_sublayer(close_task task)
{
    gpu_await_previous();
    int row = row_of_warp(task.n_rows), lane = (int)threadIdx.x % 32, width = task.hidden.width;
    gpu_layout layout = {gpu_shared(), 0};
    float *x = layout.take<float>(blockDim.x / 32 * (size_t)width) + (int)threadIdx.x / 32 * width;
    if (row < 0)
        return;
    const float *sums = task.sums + (size_t)row * (size_t)task.sums_stride;
    size_t first = (size_t)row * (size_t)task.hidden.stride;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
    for (int i = N * lane; i < width; i += N * 32) {
        adjacent<float, N> numbers = load_adjacent<N>(sums + i);
        if (!task.is_alone) {
            adjacent<float, N> hidden = load_adjacent<N>(task.hidden.numbers + first + i);
#pragma unroll
            for (int j = 0; j < N; j++)
                numbers.x[j] = __fadd_rn(hidden.x[j], numbers.x[j]);
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += numbers.x[j];
        narrow_adjacent<float>(x, (size_t)i, numbers);
    }
    float mean = sum_over<32>(sum) / (float)width;
    for (int i = N * lane; i < width; i += N * 32) {
        adjacent<float, N> numbers = load_adjacent<N>(x + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            squares = fmaf(numbers.x[j] - mean, numbers.x[j] - mean, squares);
    }
    float scale = 1.0f / sqrtf(sum_over<32>(squares) / (float)width + task.epsilon);
    for (int i = N * lane; i < width; i += N * 32) {
        adjacent<float, N> numbers = load_adjacent<N>(x + i);
        adjacent<float, N> gain = load_adjacent<N>(task.gain + i);
        adjacent<float, N> bias = load_adjacent<N>(task.bias + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            numbers.x[j] = fmaf((numbers.x[j] - mean) * scale, gain.x[j], bias.x[j]);
        put_hidden(task.hidden, row, i, numbers);
    }
}

static dim3 grid_for(int max_rows, int warps)
{
    return dim3((unsigned)((max_rows + warps - 1) / warps));
}

void embed_launch(cudaStream_t stream, const embed_task &task, int max_rows)
{
    gpu_launch(stream, embed, grid_for(max_rows, ROW_WARPS), 32 * ROW_WARPS, 0, task);
}

size_t close_bytes(int width, int rows)
{
    gpu_layout layout;
    layout.take<float>((size_t)rows * (size_t)width);
    return layout.bytes;
}

void close_launch(cudaStream_t stream, const close_task &task, int max_rows)
{
    int width = task.hidden.width, warps = width <= WIDE ? ROW_WARPS : 1;
    bool by_four = width % 4 == 0 && task.hidden.stride % 4 == 0 && task.sums_stride % 4 == 0;
    gpu_launch(stream, by_four ? close_sublayer<4> : close_sublayer<1>, grid_for(max_rows, warps),
               32 * warps, close_bytes(width, warps), task);
}
