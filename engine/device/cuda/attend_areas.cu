#include "device/cuda/attend_areas.h"

#include "device/cuda/areas.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };

struct areas_shared {
    float *logits;   /* [planes][L]; then weights; void entries are -inf, then 0 */
    float *scores;   /* [L]; then coverage */
    float *maxima;   /* [WARPS] */
    float *sums;     /* [WARPS] */
    int32_t *counts; /* [WARPS] */

    GPU_BOTH size_t place(char *base, int planes, int max_length)
    {
        gpu_layout layout = {base, 0};
        logits = layout.take<float>((size_t)(planes * max_length));
        scores = layout.take<float>((size_t)max_length);
        maxima = layout.take<float>(WARPS);
        sums = layout.take<float>(WARPS);
        counts = layout.take<int32_t>(WARPS);
        return layout.bytes;
    }
};

/* One head of one query. */
struct areas_query {
    item_view view;
    int row, head, seen, columns;

    GPU_CODE areas_query(const attend_areas_task &task)
        : row((int)blockIdx.x), head((int)blockIdx.y * task.shape.head_width)
    {
        if (task.slots) {
            int slot = task.slots[row];
            view = {nullptr, slot * (int)task.slot_rows, task.lengths[slot], 0};
            view.last = view.length - 1;
        } else {
            view = view_of(task.rows, row);
        }
        seen = task.is_causal ? view.last + 1 : view.length;
        columns = columns_of(task.shape, view.length);
    }
};

/* ---- Over a block ---------------------------------------------------------------------------- */

/* The same for all threads. */
GPU_CODE float block_sum(float x, float *parts)
{
    x = sum_over<32>(x);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

GPU_CODE float block_max(float x, float *parts)
{
    x = max_over<32>(x);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    return fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
}

/* ---- Logits ---------------------------------------------------------------------------------- */

/* A warp's product of the query with a row of keys: the same for all lanes. */
template <class T>
GPU_CODE float dot(const attend_areas_task &task, const areas_query &query, const T *turned,
                   size_t row)
{
    const T *key = (const T *)task.keys + row * task.key_stride + query.head;
    float sum = 0.0f;
    for (int i = (int)threadIdx.x % 32; i < task.shape.head_width; i += 32)
        sum = fmaf(widen(turned[i]), widen(key[i]), sum);
    return sum_over<32>(sum);
}

/* q · b, where every logit has that in it and it matters. */
template <class T> GPU_CODE float bias_of(const attend_areas_task &task, const areas_query &query)
{
    const T *q = (const T *)task.query + (size_t)query.row * (size_t)task.query_stride + query.head;
    float sum = 0.0f;
    for (int i = (int)threadIdx.x % 32; i < task.shape.head_width && task.query_bias; i += 32)
        sum = fmaf(widen(q[i]), task.query_bias[i], sum);
    return sum_over<32>(sum);
}

/* Keys of areas: a warp has one entry after the other. */
template <class T>
GPU_CODE void find_logits(const attend_areas_task &task, const areas_query &query, float *logits)
{
    const T *turned =
        (const T *)task.turned + (size_t)query.row * (size_t)task.turned_stride + query.head;
    float bias = bias_of<T>(task, query);
    int n = planes_of(task.shape) * query.view.length;
    for (int i = (int)threadIdx.x / 32; i < n; i += WARPS) {
        int plane = i / query.view.length, item = i % query.view.length;
        float logit = -INFINITY;
        if (item < query.seen && area(task.shape, plane, query.columns, item).exists())
            logit = dot<T>(task, query, turned,
                           (size_t)plane * task.plane_rows + (size_t)query.view.at(item)) +
                    bias;
        if (threadIdx.x % 32 == 0)
            logits[i] = logit;
    }
    __syncthreads(); /* other threads weigh them */
}

/* Mean keys: the logit of an area is the mean of its items' scores. */
template <class T>
GPU_CODE void average_scores(const attend_areas_task &task, const areas_query &query,
                             const areas_shared &shared)
{
    const T *turned =
        (const T *)task.turned + (size_t)query.row * (size_t)task.turned_stride + query.head;
    item_view items = {nullptr, 0, query.view.length, 0}; /* the scores stand side by side */
    for (int m = (int)threadIdx.x / 32; m < query.seen; m += WARPS) {
        float score = dot<T>(task, query, turned, (size_t)query.view.at(m));
        if (threadIdx.x % 32 == 0)
            shared.scores[m] = score;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < planes_of(task.shape) * query.view.length; i += THREADS) {
        int item = i % query.view.length;
        area area(task.shape, i / query.view.length, query.columns, item);
        float logit = -INFINITY;
        if (item < query.seen && area.exists())
            logit = window_sum(area, shared.scores, items, 1) * area.share();
        shared.logits[i] = logit;
    }
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Any factor that is the same for all areas will do: see weigh() in kernels/areas.c. */
GPU_CODE float weigh(bool sigmoid, float logit, float largest)
{
    if (logit == -INFINITY)
        return 0.0f;
    if (!sigmoid)
        return expf(logit - largest);
    return largest < 0.0f ? expf(logit - largest) / (1.0f + expf(logit))
                          : 1.0f / (1.0f + expf(-logit));
}

/* How many of n weights are at least as large. */
GPU_CODE int count_at_least(const float *weights, int n, float least, int32_t *counts)
{
    int count = 0;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        count += weights[i] >= least;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        count += __shfl_xor_sync(ALL_LANES, count, step);
    __syncthreads(); /* the counts of last time have been read */
    if (threadIdx.x % 32 == 0)
        counts[threadIdx.x / 32] = count;
    __syncthreads();
    return counts[0] + counts[1] + counts[2] + counts[3];
}

/* The k-th largest of weights that are not negative, bit by bit: their bits are ordered as they
 * are. All equal ones stay, as in the authors' code. */
GPU_CODE void keep_top(float *weights, int n, int k, int32_t *counts)
{
    uint32_t least = 0;
    for (int bit = 30; bit >= 0; bit--) {
        uint32_t higher = least | 1u << bit;
        if (count_at_least(weights, n, float_of_bits(higher), counts) >= k)
            least = higher;
    }
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        if (weights[i] < float_of_bits(least))
            weights[i] = 0.0f;
}

/* Logits become weights; returns what they sum up to. */
GPU_CODE float find_weights(const attend_areas_task &task, int n, const areas_shared &shared)
{
    float largest = -INFINITY, total = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        largest = fmaxf(largest, shared.logits[i]);
    largest = block_max(largest, shared.maxima);
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        shared.logits[i] = weigh(task.sigmoid, shared.logits[i], largest);
    if (task.top_k > 0)
        keep_top(shared.logits, n, task.top_k, shared.counts);
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        total += shared.logits[i];
    return block_sum(total, shared.sums);
}

/* The weights of all areas that contain an item. */
GPU_CODE float coverage_of(const attend_areas_task &task, const areas_query &query,
                           const float *weights, int item)
{
    int x = item % query.columns, y = item / query.columns, length = query.view.length;
    int rows = length / query.columns;
    float sum = 0.0f;
    for (int plane = 0; plane < planes_of(task.shape); plane++) {
        area area(task.shape, plane, query.columns, item);
        float of_plane = 0.0f;
        for (int below = 0; below < area.height && y + below < rows; below++)
            for (int right = 0; right < area.width && x + right < query.columns; right++)
                of_plane += weights[plane * length + (y + below) * query.columns + x + right];
        sum = fmaf(of_plane, task.value == AREA_VALUE_MEAN ? area.share() : 1.0f, sum);
    }
    return sum;
}

/* ---- Context --------------------------------------------------------------------------------- */

/* Each thread has numbers of the context, and goes along all rows that weigh anything. */
template <class T>
GPU_CODE void put_context(const attend_areas_task &task, const areas_query &query,
                          const float *weights, int planes, float total)
{
    size_t out = (size_t)query.row * (size_t)task.context_stride + (size_t)query.head;
    for (int i = (int)threadIdx.x; i < task.shape.head_width; i += THREADS) {
        const T *values = (const T *)task.values + query.head + i;
        float sum = 0.0f;
        for (int plane = 0; plane < planes; plane++)
            for (int m = 0; m < query.view.length; m++) {
                float weight = weights[plane * query.view.length + m];
                size_t row = (size_t)plane * task.plane_rows + (size_t)query.view.at(m);
                if (weight != 0.0f)
                    sum = fmaf(weight, widen(values[row * task.value_stride]), sum);
            }
        ((T *)task.context)[out + (size_t)i] = narrow<T>(sum / total);
    }
}

GPU_CODE void find_coverage(const attend_areas_task &task, const areas_query &query,
                            const areas_shared &shared)
{
    for (int m = (int)threadIdx.x; m < query.view.length; m += THREADS)
        shared.scores[m] = coverage_of(task, query, shared.logits, m);
    __syncthreads();
}

GPU_CODE void put_looks(const attend_areas_task &task, const areas_query &query,
                        const float *coverage, float total)
{
    float *looks = task.looks.weights + (size_t)blockIdx.y * task.looks.head_stride +
                   (size_t)query.row * (size_t)task.looks.stride;
    for (int m = (int)threadIdx.x; m < query.view.length; m += THREADS)
        looks[m] = coverage[m] / total;
}

template <class T>
__global__ static void __launch_bounds__(THREADS, 4) attend_areas(attend_areas_task task)
{
    gpu_await_previous();
    if ((int)blockIdx.x >= *task.rows.n_rows)
        return;
    areas_query query(task);
    areas_shared shared;
    shared.place(gpu_shared(), planes_of(task.shape), task.max_length);
    int length = query.view.length;
    if (task.has_key_planes)
        find_logits<T>(task, query, shared.logits);
    else
        average_scores<T>(task, query, shared);
    float total = find_weights(task, planes_of(task.shape) * length, shared);
    bool is_told = task.looks.weights && task.looks.is_wanted[task.slots[query.row]];
    if (task.weights && (int)blockIdx.y == task.weights_head && query.row == 0)
        for (int i = (int)threadIdx.x; i < planes_of(task.shape) * length; i += THREADS)
            task.weights[i] = shared.logits[i] / total;
    if (is_told || !task.has_value_planes)
        find_coverage(task, query, shared);
    if (is_told)
        put_looks(task, query, shared.scores, total);
    if (task.has_value_planes)
        put_context<T>(task, query, shared.logits, planes_of(task.shape), total);
    else
        put_context<T>(task, query, shared.scores, 1, total);
}

/* ---- Launches -------------------------------------------------------------------------------- */

size_t attend_areas_bytes(const struct area_shape *shape, int max_length)
{
    return areas_shared().place(nullptr, shape->width * shape->height, max_length);
}

void attend_areas_launch(cudaStream_t stream, enum number_type type, const attend_areas_task &task,
                         int max_rows)
{
    dim3 grid((unsigned)max_rows, (unsigned)task.shape.n_heads);
    size_t bytes = attend_areas_bytes(&task.shape, task.max_length);
    void (*kernel)(attend_areas_task) = type == NUMBER_F32   ? attend_areas<float>
                                        : type == NUMBER_F16 ? attend_areas<f16>
                                                             : attend_areas<bf16>;
    gpu_launch(stream, kernel, grid, THREADS, bytes, task);
}
