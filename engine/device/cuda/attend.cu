/* attend.cu - attention by rows: a block has one head of up to Q queries that see the same items.
 */
#include "device/cuda/attend.h"

#include "device/cuda/attend_tiles.h"
#include "device/cuda/coverage.cuh"

enum { ROW_WARPS = 4, ROW_THREADS = 32 * ROW_WARPS, MEMORY_QUERIES = 4 };

/* ---- Places ---------------------------------------------------------------------------------- */

/* The items of a block, for one head. */
template <class T> struct item_rows {
    T *keys, *values;    /* of item number 0 */
    size_t stride;       /* from number to number */
    const int32_t *path; /* items' numbers, or NULL: 0, 1, ... */
    int length;
    int first_row, n_rows; /* of queries */

    GPU_CODE size_t at(int m) const
    {
        return (size_t)(path ? path[m] : m) * stride;
    }
};

template <class T> GPU_CODE item_rows<T> items_of_step(const attend_task &task, int row, int head)
{
    size_t heads = (size_t)(task.n_heads * task.head_width);
    T *keys = (T *)task.items + head * task.head_width;
    bool is_there = row < *task.n_rows;
    int path = is_there && task.path_rows ? task.path_rows[row] : row;
    return {keys,
            keys + heads,
            2 * heads,
            task.paths + (size_t)path * (size_t)task.path_stride,
            is_there ? task.lengths[row] : 0,
            row,
            is_there ? 1 : 0};
}

template <class T>
GPU_CODE item_rows<T> items_of_sentence(const attend_task &task, int row, int head)
{
    if (row >= *task.n_rows)
        return {};
    size_t heads = (size_t)(task.n_heads * task.head_width), stride = (size_t)task.query_stride;
    int sentence = task.sentences[row], first = task.first[sentence];
    int seen = task.is_causal ? row + 1 - first : task.first[sentence + 1] - first;
    T *keys = (T *)task.query + (size_t)first * stride + heads + head * task.head_width;
    return {keys, keys + heads, stride, nullptr, seen, row, 1};
}

template <class T, int Q>
GPU_CODE item_rows<T> items_of_memory(const attend_task &task, int group, int head, int part)
{
    if (group >= *task.n_groups)
        return {};
    const int32_t *of = task.slots + 3 * group;
    size_t heads = (size_t)(task.n_heads * task.head_width);
    T *keys = (T *)task.items + (size_t)of[0] * task.slot_stride + head * task.head_width;
    int left = of[2] - part * Q;
    return {keys,
            keys + heads,
            2 * heads,
            nullptr,
            task.lengths[of[0]],
            of[1] + part * Q,
            left < Q ? left : Q};
}

template <class T, int Q> GPU_CODE item_rows<T> items_of_block(const attend_task &task)
{
    int x = (int)blockIdx.x, head = (int)blockIdx.y;
    if (task.items_of == ITEMS_OF_STEP)
        return items_of_step<T>(task, x, head);
    if (task.items_of == ITEMS_OF_SENTENCE)
        return items_of_sentence<T>(task, x, head);
    return items_of_memory<T, Q>(task, x, head, (int)blockIdx.z);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

/* Of each query a row of scores, with A - 1 zeros on both sides once they are exponentials, and a
 * row of coverage. */
template <int D, int Q> struct rows_shared {
    float *first_scores, *first_coverage; /* [L + 2A - 2], [L] */
    ptrdiff_t step;                       /* from query to query */
    float *parts;                         /* [warps][Q][D] */
    float *totals;                        /* [warps][Q] */

    GPU_BOTH size_t place(char *base, int max_length, int area_width)
    {
        gpu_layout layout = {base, 0};
        for (int q = 0; q < Q; q++) {
            float *row = layout.take<float>((size_t)(max_length + 2 * area_width - 2));
            float *coverage_row = layout.take<float>((size_t)max_length);
            first_scores = q == 0 ? row : first_scores;
            first_coverage = q == 0 ? coverage_row : first_coverage;
            step = q == 1 ? row - first_scores : q == 0 ? 0 : step;
        }
        parts = layout.take<float>(ROW_WARPS * Q * D);
        totals = layout.take<float>(ROW_WARPS * Q);
        return layout.bytes;
    }
    GPU_CODE float *scores(int q) const
    {
        return first_scores + q * step;
    }
    GPU_CODE float *coverage(int q) const
    {
        return first_coverage + q * step;
    }
};

/* ---- Heads of any width ---------------------------------------------------------------------- */

/* Widths of which a warp reads whole pieces are HEAD_WIDTHS; ANY other is read and written number
 * by number, in chunks of 32. */

template <bool ANY, class T> GPU_CODE numbers<T> load_part(const T *head, int part, int width)
{
    numbers<T> piece = {};
    if constexpr (ANY) {
#pragma unroll
        for (int i = 0; i < numbers<T>::N; i++)
            piece.x[i] = part + i < width ? widen(head[part + i]) : 0.0f;
    } else {
        piece.load(head + part);
    }
    return piece;
}

template <bool ANY, class T>
GPU_CODE void store_part(const numbers<T> &piece, T *head, int part, int width)
{
    if constexpr (ANY) {
#pragma unroll
        for (int i = 0; i < numbers<T>::N; i++)
            if (part + i < width)
                head[part + i] = narrow<T>(piece.x[i]);
    } else {
        piece.store(head + part);
    }
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* How lanes share the numbers of an item: LANES read one together, 16 bytes each. */
template <class T, int D> struct sharing {
    enum {
        NUMBERS = numbers<T>::N,
        LANES = D / NUMBERS,
        ITEMS = 32 / LANES, /* of a warp at one time */
    };
    int warp, item, part; /* part: the lane's first number */

    GPU_CODE sharing()
    {
        int lane = (int)threadIdx.x % 32;
        warp = (int)threadIdx.x / 32;
        item = lane / LANES;
        part = lane % LANES * NUMBERS;
    }
};

/* The new item of a step, as later steps will read it. */
template <class T, bool ANY>
GPU_CODE numbers<T> store_new(const attend_task &task, const item_rows<T> &items, int part,
                              size_t at)
{
    size_t heads = (size_t)(task.n_heads * task.head_width);
    const T *query = (const T *)task.query + (size_t)items.first_row * (size_t)task.query_stride +
                     (int)blockIdx.y * task.head_width;
    numbers<T> key = load_part<ANY>(query + heads, part, task.head_width);
    numbers<T> value = load_part<ANY>(query + 2 * heads, part, task.head_width);
    store_part<ANY>(key, items.keys + at, part, task.head_width);
    store_part<ANY>(value, items.values + at, part, task.head_width);
    return key;
}

/* Adds to the scores what the numbers first ... first + D - 1 of all items and queries give. */
template <class T, int D, int Q, bool ANY>
GPU_CODE void add_scores(const attend_task &task, const item_rows<T> &items, int first,
                         const rows_shared<D, Q> &shared)
{
    typedef sharing<T, D> how;
    how share;
    numbers<T> query[Q] = {};
#pragma unroll
    for (int q = 0; q < Q; q++)
        if (q < items.n_rows)
            query[q] = load_part<ANY>(
                (const T *)task.query + (size_t)(items.first_row + q) * (size_t)task.query_stride +
                    (int)blockIdx.y * task.head_width,
                first + share.part, task.head_width);
    for (int start = share.warp * how::ITEMS; start < items.length;
         start += ROW_WARPS * how::ITEMS) {
        int m = start + share.item;
        float scores[Q] = {};
        if (m < items.length) {
            size_t at = items.at(m);
            numbers<T> key;
            if (task.items_of == ITEMS_OF_STEP && m == items.length - 1)
                key = store_new<T, ANY>(task, items, first + share.part, at);
            else
                key = load_part<ANY>(items.keys + at, first + share.part, task.head_width);
#pragma unroll
            for (int q = 0; q < Q; q++)
#pragma unroll
                for (int i = 0; i < how::NUMBERS; i++)
                    scores[q] = fmaf(query[q].x[i], key.x[i], scores[q]);
        }
#pragma unroll
        for (int q = 0; q < Q; q++) {
            scores[q] = sum_over<how::LANES>(scores[q]);
            float *score = shared.scores(q) + task.area_width - 1 + m;
            if (m < items.length && share.part == 0 && q < items.n_rows)
                *score = first > 0 ? *score + scores[q] : scores[q];
        }
    }
}

/* ---- Coverage -------------------------------------------------------------------------------- */

/* Scores become exponentials, with zeros around them. */
template <class T> GPU_CODE void exponentiate(float *scores, int length, int a, float largest)
{
    float scale = chain_scale(a);
    for (int m = (int)threadIdx.x; m < length; m += ROW_THREADS)
        scores[a - 1 + m] = exp2_for<T>((scores[a - 1 + m] - largest) * scale);
    if ((int)threadIdx.x < a - 1)
        scores[threadIdx.x] = scores[a - 1 + length + (int)threadIdx.x] = 0.0f;
}

/* The coverage of every item, and the weights of the areas that end at this thread's. */
template <int A>
GPU_CODE float cover(const float *exponentials, int length, bool is_mean, float *coverage)
{
    float total = 0.0f;
    for (int m = (int)threadIdx.x; m < length; m += ROW_THREADS) {
        area_walk_along<A> walk;
        walk.start(is_mean);
#pragma unroll
        for (int t = 0; t < A - 1; t++)
            walk.skip(exponentials[m + t]);
        float covered = 0.0f;
#pragma unroll
        for (int t = 0; t < A; t++) {
            covered = walk.step(exponentials[m + A - 1 + t]);
            total += t == 0 ? walk.ended : 0.0f;
        }
        coverage[m] = covered;
    }
    return total;
}

/* Areas of any width: an exponential for each that contains the item. */
template <class T>
GPU_CODE float cover_wide(const float *scores, int length, int a, bool is_mean, float largest,
                          float *coverage)
{
    float total = 0.0f;
    scores += a - 1;
    for (int m = (int)threadIdx.x; m < length; m += ROW_THREADS) {
        float covered = 0.0f;
        for (int first = m - a + 1 > 0 ? m - a + 1 : 0; first <= m; first++) {
            float sum = 0.0f;
            for (int last = first; last < length && last < first + a; last++) {
                float w = (float)(last - first + 1);
                sum += scores[last] - largest;
                if (last < m)
                    continue;
                float weight = exp2_for<T>(sum / w * LOG2_E);
                covered += is_mean ? weight / w : weight;
                total += last == m ? weight : 0.0f;
            }
        }
        coverage[m] = covered;
    }
    return total;
}

GPU_CODE float cover_chain(const float *exponentials, int length, int a, bool is_mean,
                           float *coverage)
{
    switch (a) {
    case 1:
        return cover<1>(exponentials, length, is_mean, coverage);
    case 2:
        return cover<2>(exponentials, length, is_mean, coverage);
    case 3:
        return cover<3>(exponentials, length, is_mean, coverage);
    case 4:
        return cover<4>(exponentials, length, is_mean, coverage);
    default:
        return cover<5>(exponentials, length, is_mean, coverage);
    }
}

/* Each warp finds the largest score by itself. */
GPU_CODE float largest_of(const float *scores, int length)
{
    float largest = -INFINITY;
    for (int m = (int)threadIdx.x % 32; m < length; m += 32)
        largest = fmaxf(largest, scores[m]);
    return max_over<32>(largest);
}

template <class T, int D, int Q>
GPU_CODE void cover_rows(const attend_task &task, const item_rows<T> &items,
                         const rows_shared<D, Q> &shared)
{
    int a = task.area_width, warp = (int)threadIdx.x / 32;
    bool is_chain = a <= (sizeof(T) < sizeof(float) ? WIDEST_CHAIN : WIDEST_CHAIN_F32);
    if (is_chain) {
        float largest[Q];
#pragma unroll
        for (int q = 0; q < Q; q++)
            largest[q] =
                q < items.n_rows ? largest_of(shared.scores(q) + a - 1, items.length) : 0.0f;
        __syncthreads(); /* all have read the scores */
#pragma unroll
        for (int q = 0; q < Q; q++)
            if (q < items.n_rows)
                exponentiate<T>(shared.scores(q), items.length, a, largest[q]);
        __syncthreads();
    }
#pragma unroll 1
    for (int q = 0; q < Q; q++) {
        float total = 0.0f, *scores = shared.scores(q), *coverage = shared.coverage(q);
        if (q < items.n_rows)
            total = is_chain ? cover_chain(scores, items.length, a, task.is_mean, coverage)
                             : cover_wide<T>(scores, items.length, a, task.is_mean,
                                             largest_of(scores + a - 1, items.length), coverage);
        total = sum_over<32>(total);
        if (threadIdx.x % 32 == 0)
            shared.totals[warp * Q + q] = total;
    }
}

/* What the weights of a query's areas sum up to; `totals` is its entry of the first warp. */
template <int Q> GPU_CODE float total_of(const float *totals)
{
    return (totals[0] + totals[Q]) + (totals[2 * Q] + totals[3 * Q]);
}

/* Tells what every item weighs, of slots that want to know. */
template <class T, int D, int Q>
GPU_CODE void put_looks(const attend_task &task, const item_rows<T> &items,
                        const rows_shared<D, Q> &shared)
{
    int slot = task.slots[3 * blockIdx.x];
    if (!task.looks.is_wanted[slot])
        return;
    float *looks = task.looks.weights + (size_t)blockIdx.y * task.looks.head_stride;
    for (int q = 0; q < items.n_rows; q++) {
        float total = total_of<Q>(shared.totals + q);
        float *row = looks + (size_t)(items.first_row + q) * (size_t)task.looks.stride;
        for (int m = (int)threadIdx.x; m < items.length; m += ROW_THREADS)
            row[m] = shared.coverage(q)[m] / total;
    }
}

/* ---- Context --------------------------------------------------------------------------------- */

/* The numbers first ... first + D - 1 of the contexts, as parts of each warp. */
template <class T, int D, int Q, bool ANY>
GPU_CODE void add_values(const item_rows<T> &items, int first, int width,
                         const rows_shared<D, Q> &shared)
{
    typedef sharing<T, D> how;
    how share;
    float sums[Q][how::NUMBERS] = {};
    for (int start = share.warp * how::ITEMS; start < items.length;
         start += ROW_WARPS * how::ITEMS) {
        int m = start + share.item;
        if (m >= items.length)
            continue;
        numbers<T> value = load_part<ANY>(items.values + items.at(m), first + share.part, width);
#pragma unroll
        for (int q = 0; q < Q; q++) {
            float coverage = q < items.n_rows ? shared.coverage(q)[m] : 0.0f;
#pragma unroll
            for (int i = 0; i < how::NUMBERS; i++)
                sums[q][i] = fmaf(coverage, value.x[i], sums[q][i]);
        }
    }
#pragma unroll
    for (int q = 0; q < Q; q++)
#pragma unroll
        for (int i = 0; i < how::NUMBERS; i++) {
#pragma unroll
            for (int step = how::LANES; step < 32; step *= 2)
                sums[q][i] += __shfl_xor_sync(ALL_LANES, sums[q][i], step);
            if (share.item == 0)
                shared.parts[(share.warp * Q + q) * D + share.part + i] = sums[q][i];
        }
}

template <class T, int D, int Q, bool ANY>
GPU_CODE void put_context(const attend_task &task, const item_rows<T> &items, int first,
                          const rows_shared<D, Q> &shared)
{
    for (int i = (int)threadIdx.x; i < items.n_rows * D; i += ROW_THREADS) {
        if (ANY && first + i % D >= task.head_width)
            continue;
        const float *part = shared.parts + i, *totals = shared.totals + i / D;
        float sum = (part[0] + part[Q * D]) + (part[2 * Q * D] + part[3 * Q * D]);
        float total = total_of<Q>(totals);
        size_t row = (size_t)(items.first_row + i / D) * (size_t)task.context_stride;
        ((T *)task.context)[row + (size_t)((int)blockIdx.y * task.head_width + first + i % D)] =
            narrow<T>(sum / total);
    }
}

template <class T, int D, int Q, bool ANY>
__global__ static void __launch_bounds__(ROW_THREADS, Q > 1 || ANY ? 4 : 8)
    attend_rows(attend_task task)
{
    gpu_await_previous();
    item_rows<T> items = items_of_block<T, Q>(task);
    if (items.n_rows <= 0)
        return;
    rows_shared<D, Q> shared;
    shared.place(gpu_shared(), task.max_length, task.area_width);
    for (int first = 0; first < task.head_width; first += D)
        add_scores<T, D, Q, ANY>(task, items, first, shared);
    __syncthreads();
    cover_rows<T, D, Q>(task, items, shared);
    for (int first = 0; first < task.head_width; first += D) {
        __syncthreads(); /* the coverage is there; the parts have been read */
        if (Q > 1 && first == 0 && task.looks.weights)
            put_looks<T, D, Q>(task, items, shared);
        add_values<T, D, Q, ANY>(items, first, task.head_width, shared);
        __syncthreads();
        put_context<T, D, Q, ANY>(task, items, first, shared);
    }
}

/* ---- Memories -------------------------------------------------------------------------------- */

enum { STORE_THREADS = 128 };

template <class T>
__global__ static void __launch_bounds__(STORE_THREADS, 1) store_memory(store_task task)
{
    gpu_await_previous();
    int row = (int)blockIdx.x;
    if (row >= *task.n_rows)
        return;
    int sentence = task.sentences[row], m = row - task.first[sentence];
    const T *keys = (const T *)task.keys + (size_t)row * (size_t)task.key_stride;
    const T *values = (const T *)task.values + (size_t)row * (size_t)task.value_stride;
    T *to = (T *)task.memory + (size_t)task.slots[sentence] * task.slot_stride +
            (size_t)(2 * m * task.c);
    for (int i = (int)threadIdx.x; i < task.c; i += STORE_THREADS) {
        to[i] = keys[i];
        to[task.c + i] = values[i];
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

size_t attend_bytes(int max_length, int area_width)
{
    return rows_shared<128, MEMORY_QUERIES>().place(nullptr, max_length, area_width);
}

template <class T, int D, int Q, bool ANY>
static void launch_width(cudaStream_t stream, const attend_task &task, dim3 grid)
{
    rows_shared<D, Q> shared;
    size_t bytes = shared.place(nullptr, task.max_length, task.area_width);
    gpu_launch(stream, attend_rows<T, D, Q, ANY>, grid, ROW_THREADS, bytes, task);
}

template <class T, int Q>
static void launch_type(cudaStream_t stream, const attend_task &task, dim3 grid)
{
    if (task.head_width == 32)
        launch_width<T, 32, Q, false>(stream, task, grid);
    else if (task.head_width == 64)
        launch_width<T, 64, Q, false>(stream, task, grid);
    else if (task.head_width % 128 == 0)
        launch_width<T, 128, Q, false>(stream, task, grid);
    else
        launch_width<T, 32, Q, true>(stream, task, grid);
}

template <int Q>
static void launch(cudaStream_t stream, enum number_type type, const attend_task &task, dim3 grid)
{
    if (type == NUMBER_F32)
        launch_type<float, Q>(stream, task, grid);
    else if (type == NUMBER_F16)
        launch_type<f16, Q>(stream, task, grid);
    else
        launch_type<bf16, Q>(stream, task, grid);
}

void attend_step_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                        int max_rows)
{
    launch<1>(stream, type, task, dim3((unsigned)max_rows, (unsigned)task.n_heads));
}

void attend_memory_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                          int max_groups, int max_beam)
{
    unsigned parts = (unsigned)((max_beam + MEMORY_QUERIES - 1) / MEMORY_QUERIES);
    launch<MEMORY_QUERIES>(stream, type, task,
                           dim3((unsigned)max_groups, (unsigned)task.n_heads, parts));
}

void attend_sentences_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                             int max_rows, int max_tiles, size_t shared_bytes)
{
    if (attend_has_tiles(type, task, shared_bytes))
        attend_tiles_launch(stream, type, task, max_tiles, shared_bytes);
    else
        launch<1>(stream, type, task, dim3((unsigned)max_rows, (unsigned)task.n_heads));
}

void store_memory_launch(cudaStream_t stream, enum number_type type, const store_task &task,
                         int max_rows)
{
    void (*kernel)(store_task) = type == NUMBER_F32   ? store_memory<float>
                                 : type == NUMBER_F16 ? store_memory<f16>
                                                      : store_memory<bf16>;
    gpu_launch(stream, kernel, dim3((unsigned)max_rows), STORE_THREADS, 0, task);
}
