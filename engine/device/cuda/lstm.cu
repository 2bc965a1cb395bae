#include "device/cuda/lstm.h"

enum { LSTM_THREADS = 128 };

GPU_CODE float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__global__ static void __launch_bounds__(LSTM_THREADS, 1) step_cells(cell_task task)
{
    gpu_await_previous();
    int r = (int)blockIdx.x, i = (int)(blockIdx.y * LSTM_THREADS + threadIdx.x), row = r;
    if (r >= *task.n_rows || i >= task.c)
        return;
    if (task.first) {
        row = task.first[r] + task.t;
        if (row >= task.first[r + 1])
            return;
    }
    const float *recurrent = task.recurrent + (size_t)r * (size_t)task.recurrent_stride + i;
    float gates[4];
#pragma unroll
    for (int g = 0; g < 4; g++)
        gates[g] = task.gates[(size_t)row * (size_t)task.gates_stride + (size_t)(g * task.c + i)] +
                   recurrent[g * task.c];
    size_t before = (size_t)(task.before ? task.before[r] : r) * task.cell_stride + (size_t)i;
    size_t after = (size_t)(task.after ? task.after[r] : r) * task.cell_stride + (size_t)i;
    float kept = sigmoid(gates[1]) * task.cells[before];
    float cell = fmaf(sigmoid(gates[0]), tanhf(gates[2]), kept);
    float hidden = sigmoid(gates[3]) * tanhf(cell);
    task.cells[after] = cell;
    put_hidden(task.hidden, row, i, adjacent<float, 1>{{hidden}});
    if (task.carried.numbers)
        put_hidden(task.carried, r, i, adjacent<float, 1>{{hidden}});
}

__global__ static void __launch_bounds__(LSTM_THREADS, 1) read_states(states_task task)
{
    gpu_await_previous();
    int r = (int)blockIdx.x, state = r < *task.n_rows ? task.of[r] : 0;
    if (r >= *task.n_rows)
        return;
    const float *from = task.states + (size_t)(state < 0 ? 0 : state) * task.state_stride;
    for (int i = (int)threadIdx.x; i < task.width; i += LSTM_THREADS)
        store_number(task.x, task.type, (size_t)r * (size_t)task.x_stride + (size_t)i,
                     state < 0 ? 0.0f : from[i]);
}

__global__ static void __launch_bounds__(LSTM_THREADS, 1) write_states(states_task task)
{
    gpu_await_previous();
    int r = (int)blockIdx.x, state = r < *task.n_rows ? task.of[r] : -1;
    if (state < 0)
        return;
    float *to = task.states + (size_t)state * task.state_stride;
    for (int i = (int)threadIdx.x; i < task.width; i += LSTM_THREADS)
        to[i] = load_number(task.x, task.type, (size_t)r * (size_t)task.x_stride + (size_t)i);
}

void cell_launch(cudaStream_t stream, const cell_task &task, int max_rows)
{
    dim3 grid((unsigned)max_rows, (unsigned)((task.c + LSTM_THREADS - 1) / LSTM_THREADS));
    gpu_launch(stream, step_cells, grid, LSTM_THREADS, 0, task);
}

void states_read_launch(cudaStream_t stream, const states_task &task, int max_rows)
{
    gpu_launch(stream, read_states, dim3((unsigned)max_rows), LSTM_THREADS, 0, task);
}

void states_write_launch(cudaStream_t stream, const states_task &task, int max_rows)
{
    gpu_launch(stream, write_states, dim3((unsigned)max_rows), LSTM_THREADS, 0, task);
}
