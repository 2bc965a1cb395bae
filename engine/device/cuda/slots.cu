#include "device/cuda/slots.h"

enum { SLOT_THREADS = 128, ALIGN_WARPS = 4 /* a row each */ };

/* ---- Coming and going ------------------------------------------------------------------------ */

GPU_CODE void begin_search(const enter_task &task, const entrant &of)
{
    struct search *search = &task.searches[of.slot];
    size_t nodes = (size_t)(task.shape.positions * task.shape.beam);
    search->model.constraint = task.constraint;
    search->model.start_token = task.start_token;
    search->model.end_token = task.end_token;
    search->model.renormalize = task.renormalize;
    search->decoding = of.decoding;
    search->nodes = task.nodes + (size_t)of.slot * nodes;
    search->penalties = task.penalties + (size_t)of.slot * (size_t)(task.shape.positions + 1);
    search->t = 0;
    search->n_live = 1;
    search->n_results = 0;
    search->score[0] = 0.0f;
    search->state[0] = 0;
    search->nodes[0].token = task.start_token;
    search->nodes[0].parent = -1;
    search->prefix = of.prefix;
    if (of.prefix.n == 1) {
        search_node(search, 1, 0)->token = of.first_token;
        search_node(search, 1, 0)->parent = 0;
    }
    task.paths[(size_t)turn_row(task.shape, of.slot, 0, 0) * (size_t)task.shape.positions] =
        cache_row(task.shape, of.slot, 0, 0);
    task.lengths[of.slot] = of.source_length;
    task.is_aligned[of.slot] = of.is_aligned;
    task.first_items[of.slot] = of.first_item;
    task.end_items[of.slot] = of.end_item;
}

/* The states that the first step reads are those of the step before it, see place_rows(). */
__global__ static void __launch_bounds__(SLOT_THREADS, 1) enter_slots(enter_task task)
{
    gpu_await_previous();
    if ((int)blockIdx.x >= *task.n_entrants)
        return;
    const entrant &of = task.entrants[blockIdx.x];
    size_t states = (size_t)turn_row(task.shape, of.slot, 1, 0) * task.state_numbers;
    for (size_t i = threadIdx.x; i < task.state_numbers; i += SLOT_THREADS)
        task.states[states + i] = 0.0f;
    if (threadIdx.x == 0)
        begin_search(task, of);
}

__global__ static void __launch_bounds__(32, 1) drop_slot(drop_task task)
{
    gpu_await_previous();
    if (threadIdx.x == 0)
        task.searches[task.slot].n_live = 0;
}

/* ---- Alignment ------------------------------------------------------------------------------- */

GPU_CODE float look_of(const align_task &task, int row, int item)
{
    float sum = 0.0f;
    for (int head = 0; head < task.n_heads; head++)
        sum += task.looks[(size_t)head * task.head_stride + (size_t)row * (size_t)task.stride +
                          (size_t)item];
    return sum;
}

/* The first of the largest, for all lanes. */
GPU_CODE int largest_of_warp(float look, int item)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(ALL_LANES, look, step);
        int other_item = __shfl_xor_sync(ALL_LANES, item, step);
        if (other > look || (other == look && other_item < item)) {
            look = other;
            item = other_item;
        }
    }
    return item;
}

__global__ static void __launch_bounds__(32 * ALIGN_WARPS, 1) align_rows(align_task task)
{
    gpu_await_previous();
    int row = (int)(blockIdx.x * ALIGN_WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
    if (row >= *task.n_rows)
        return;
    int slot = task.slots[row], most = INT32_MAX;
    int first = task.first_items[slot], end = task.end_items[slot];
    if (!task.is_aligned[slot])
        return;
    float largest = -INFINITY;
    end = end > first ? end : task.lengths[slot];
    for (int item = first + lane; item < end; item += 32) {
        float look = look_of(task, row, item);
        if (look > largest) {
            largest = look;
            most = item;
        }
    }
    most = largest_of_warp(largest, most);
    if (lane == 0)
        task.alignment[cache_row(task.shape, slot, task.places[row], task.beams[row])] =
            most < end ? most : first; /* of looks that are no numbers */
}

/* ---- Launches -------------------------------------------------------------------------------- */

void enter_launch(cudaStream_t stream, const enter_task &task, int n_entrants)
{
    gpu_launch(stream, enter_slots, dim3((unsigned)n_entrants), SLOT_THREADS, 0, task);
}

void drop_launch(cudaStream_t stream, const drop_task &task)
{
    gpu_launch(stream, drop_slot, dim3(1), 32, 0, task);
}

void align_launch(cudaStream_t stream, const align_task &task, int max_rows)
{
    dim3 grid((unsigned)((max_rows + ALIGN_WARPS - 1) / ALIGN_WARPS));
    gpu_launch(stream, align_rows, grid, 32 * ALIGN_WARPS, 0, task);
}
