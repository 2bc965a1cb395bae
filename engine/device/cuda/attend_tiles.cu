/* attend_tiles.cu - area attention of whole sentences, by one pass over tiles of keys.
 *
 * For each query are kept its largest score so far M, the sum of its areas' weights, its context O,
 * and its last 2(A - 1) scores. A tile of 64 keys begins with item n. With its scores, M grows to
 * M', and the sum and O shrink by 2^(M - M'). Every area counts with its last item; an item's
 * coverage is complete A - 1 items later, so that the values' tile begins with item n - (A - 1):
 *
 *   y_i  = 2^((s_i - M') / N)     i = n - 2(A-1) ... n + 63: the scores kept are raised anew
 *   e_wi = y_i^(N/w) ... y_(i-w+1)^(N/w), the area of w items that ends at i
 *   sum += e_wi                   of i = n ... n + 63, all w
 *   c_m  = all e of areas that contain m,    O += c_m v_m,    m = n - (A-1) ... n + 63 - (A-1)
 *
 * A warp has 16 queries: both products on tensor cores, between them two lanes for each query, half
 * of its tile's items each. With A = 1 this is FlashAttention-2.
 */
#include "device/cuda/attend_tiles.h"

#include "device/cuda/coverage.cuh"
#include "device/cuda/tensor.h"

enum {
    TILE = ATTEND_TILE, /* queries, and keys */
    TILE_THREADS = TILE / 16 * 32,
    HALF_TILE = TILE / 2,
    PIECE = 8, /* numbers of 16 bytes */
};

static constexpr float LEAST_SCORE = -1e30f; /* that of a query that has seen nothing */

/* ---- Shared memory --------------------------------------------------------------------------- */

template <class T, int D> struct tiles_shared {
    T *queries, *keys, *values; /* [64][D], [stages][64][D] */
    T *coverage;                /* [64][64] */
    float *scores;              /* [64][stride]: 2(A - 1) kept, then the tile's */
    float *factors;             /* [64]: 2^(M - M'), in the end the sum */
    int stride;                 /* odd: rows are in different banks */

    GPU_BOTH size_t place(char *base, int area_width, int stages)
    {
        gpu_layout layout = {base, 0};
        stride = TILE + 2 * (area_width - 1) + 1;
        queries = layout.take<T>(TILE * D);
        keys = layout.take<T>((size_t)(stages * TILE * D));
        values = layout.take<T>((size_t)(stages * TILE * D));
        coverage = layout.take<T>(TILE * TILE);
        scores = layout.take<float>((size_t)(TILE * stride));
        factors = layout.take<float>(TILE);
        return layout.bytes;
    }
};

/* Where piece p of a row of W numbers is: no two of eight rows in the same banks. */
template <int W, class T> GPU_CODE T *piece_of(T *tile, int row, int p)
{
    int swizzled = W == 32 ? p ^ (row / 2 & 3) : p ^ (row & 7);
    return tile + row * W + swizzled * PIECE;
}

/* ---- One block ------------------------------------------------------------------------------- */

/* 64 queries of one head of a sentence. */
struct query_tile {
    int first, length; /* the sentence's rows */
    int query;         /* the first one, in the sentence */
    int seen;          /* items that any of them sees */
};

GPU_CODE query_tile tile_of_block(const attend_task &task)
{
    const int32_t *of = task.tiles + 2 * blockIdx.x;
    query_tile tile;
    tile.first = task.first[of[0]];
    tile.length = task.first[of[0] + 1] - tile.first;
    tile.query = of[1];
    int end = tile.query + TILE < tile.length ? tile.query + TILE : tile.length;
    tile.seen = task.is_causal ? end : tile.length;
    return tile;
}

/* 64 rows of one head, items row ... row + 63 of the sentence; zeros where there is none. A thread
 * has the same piece of all its rows. */
template <class T, int D>
GPU_CODE void fetch(const attend_task &task, const query_tile &tile, int part, int row, T *to)
{
    size_t heads = (size_t)(task.n_heads * task.head_width);
    const T *from = (const T *)task.query + (size_t)tile.first * (size_t)task.query_stride +
                    part * heads + (size_t)((int)blockIdx.y * D);
    int r = (int)threadIdx.x / (D / PIECE), p = (int)threadIdx.x % (D / PIECE);
#pragma unroll
    for (int more = 0; more < TILE; more += TILE_THREADS / (D / PIECE)) {
        int item = row + r + more;
        bool is_there = item >= 0 && item < tile.length;
        size_t at = is_there ? (size_t)item * (size_t)task.query_stride : 0;
        copy_16(piece_of<D>(to, r + more, p), from + at + (size_t)(p * PIECE), is_there);
    }
}

/* The tile of keys that begins with item n, and that of values. */
template <class T, int D>
GPU_CODE void fetch_items(const attend_task &task, const query_tile &tile, int n, T *keys,
                          T *values)
{
    fetch<T, D>(task, tile, 1, n, keys);
    fetch<T, D>(task, tile, 2, n - (task.area_width - 1), values);
    copy_commit();
}

/* The warp's 16 queries by 64 keys, times log2(e), into its rows of scores; no item that a query
 * does not see. */
template <class T, int D>
GPU_CODE void score_tile(const attend_task &task, const query_tile &tile, int n, T *keys,
                         const tiles_shared<T, D> &shared)
{
    int lane = (int)threadIdx.x % 32, first_row = (int)threadIdx.x / 32 * 16;
    float sums[TILE / 8][4] = {};
#pragma unroll
    for (int p = 0; p < D / PIECE; p += 2) {
        uint32_t a[4], b[4];
        load_matrices(a, piece_of<D>(shared.queries, first_row + lane % 16, p + lane / 16));
#pragma unroll
        for (int j = 0; j < TILE / 16; j++) {
            load_matrices(b,
                          piece_of<D>(keys, 16 * j + lane / 16 * 8 + lane % 8, p + lane / 8 % 2));
            multiply(sums[2 * j], a, b, T());
            multiply(sums[2 * j + 1], a, b + 2, T());
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int row = first_row + lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        int seen = task.is_causal ? tile.query + row + 1 : tile.length;
        float *scores = shared.scores + row * shared.stride + 2 * (task.area_width - 1) + column;
        if (seen > tile.length)
            seen = tile.length;
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            scores[8 * j] = n + 8 * j + column < seen ? sums[j][e] * LOG2_E : -INFINITY;
    }
}

/* ---- Areas ----------------------------------------------------------------------------------- */

/* What two lanes know of their query; only their sums differ. */
struct query_state {
    float largest, sum;
};

/* Goes along half of a tile: 2(A - 1) scores before it, then its 32. Returns the weights of the
 * areas that end there; the coverage is that of the 32 items that begin A - 1 before it. */
template <class T, int A>
GPU_CODE float cover_half(const float *scores, float largest, bool is_mean, int row, int first,
                          T *coverage)
{
    const float scale = 1.0f / (LOG2_E / chain_scale(A));
    area_walk_along<A> walk;
    float ended = 0.0f;
    walk.start(is_mean);
#pragma unroll
    for (int t = 0; t < A - 1; t++)
        walk.skip(exp2_fast((scores[t] - largest) * scale));
#pragma unroll
    for (int t = 0; t < A - 1; t++)
        walk.step(exp2_fast((scores[A - 1 + t] - largest) * scale));
    scores += 2 * (A - 1);
    for (int i = 0; i < HALF_TILE; i += PIECE) {
        numbers<T> covered;
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
            covered.x[j] = walk.step(exp2_fast((scores[i + j] - largest) * scale));
            ended += walk.ended;
        }
        covered.store(piece_of<TILE>(coverage, row, (first + i) / PIECE));
    }
    return ended;
}

template <class T>
GPU_CODE float cover_half(int a, const float *scores, float largest, bool is_mean, int row,
                          int first, T *coverage)
{
    switch (a) {
    case 1:
        return cover_half<T, 1>(scores, largest, is_mean, row, first, coverage);
    case 2:
        return cover_half<T, 2>(scores, largest, is_mean, row, first, coverage);
    case 3:
        return cover_half<T, 3>(scores, largest, is_mean, row, first, coverage);
    case 4:
        return cover_half<T, 4>(scores, largest, is_mean, row, first, coverage);
    default:
        return cover_half<T, 5>(scores, largest, is_mean, row, first, coverage);
    }
}

/* From the warp's rows of scores to their coverage, and the factors by which contexts shrink. */
template <class T, int D>
GPU_CODE void cover_tile(const attend_task &task, const tiles_shared<T, D> &shared,
                         query_state *state)
{
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16 + lane / 2;
    int first = lane % 2 * HALF_TILE, kept = 2 * (task.area_width - 1);
    float *scores = shared.scores + row * shared.stride;
    float largest = state->largest;
    for (int i = 0; i < HALF_TILE; i++)
        largest = fmaxf(largest, scores[kept + first + i]);
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    float factor = exp2_fast(state->largest - largest);
    float ended = cover_half<T>(task.area_width, scores + first, largest, task.is_mean, row, first,
                                shared.coverage);
    state->sum = fmaf(state->sum, factor, ended);
    state->largest = largest;
    if (lane % 2 == 0)
        shared.factors[row] = factor;
    __syncwarp(); /* all have their scores; coverage and factors are there */
    if (lane % 2 == 0)
        for (int i = 0; i < kept; i++)
            scores[i] = scores[TILE + i];
}

/* ---- Contexts -------------------------------------------------------------------------------- */

template <class T, int D>
GPU_CODE void add_values(T *values, const tiles_shared<T, D> &shared, float (*context)[4])
{
    int lane = (int)threadIdx.x % 32, first_row = (int)threadIdx.x / 32 * 16;
    float upper = shared.factors[first_row + lane / 4];
    float lower = shared.factors[first_row + lane / 4 + 8];
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            context[j][e] *= e < 2 ? upper : lower;
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        uint32_t a[4], b[4];
        load_matrices(a, piece_of<TILE>(shared.coverage, first_row + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            load_matrices_transposed(b, piece_of<D>(values, 16 * k + lane % 16, 2 * j + lane / 16));
            multiply(context[2 * j], a, b, T());
            multiply(context[2 * j + 1], a, b + 2, T());
        }
    }
}

template <class T, int D>
GPU_CODE void put_context(const attend_task &task, const query_tile &tile,
                          const tiles_shared<T, D> &shared, const query_state &state,
                          float (*context)[4])
{
    int lane = (int)threadIdx.x % 32, first_row = (int)threadIdx.x / 32 * 16;
    float sum = state.sum + __shfl_xor_sync(ALL_LANES, state.sum, 1);
    if (lane % 2 == 0)
        shared.factors[first_row + lane / 2] = sum;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int row = first_row + lane / 4 + e / 2 * 8, query = tile.query + row;
        T *to = (T *)task.context + (size_t)(tile.first + query) * (size_t)task.context_stride +
                (int)blockIdx.y * D + lane % 4 * 2 + e % 2;
        float total = shared.factors[row];
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            if (query < tile.length)
                to[8 * j] = narrow<T>(context[j][e] / total);
    }
}

struct tiles_task {
    attend_task attend;
    int stages; /* tiles of items that shared memory has room for */
};

template <class T, int D>
__global__ static void __launch_bounds__(TILE_THREADS, 1) attend_tiles(tiles_task both)
{
    gpu_await_previous();
    const attend_task &task = both.attend;
    int stages = both.stages;
    if ((int)blockIdx.x >= *task.n_tiles)
        return;
    query_tile tile = tile_of_block(task);
    tiles_shared<T, D> shared;
    shared.place(gpu_shared(), task.area_width, stages);
    query_state state = {LEAST_SCORE, 0.0f};
    float context[D / 8][4] = {};
    int kept = 2 * (task.area_width - 1), end = tile.seen + task.area_width - 1;
    if (threadIdx.x % 2 == 0)
        for (int i = 0; i < kept; i++)
            shared.scores[(int)threadIdx.x / 2 * shared.stride + i] = -INFINITY;
    fetch<T, D>(task, tile, 0, tile.query, shared.queries);
    fetch_items<T, D>(task, tile, 0, shared.keys, shared.values);
    for (int n = 0; n < end; n += TILE) {
        int stage = n / TILE % stages * TILE * D, next = (n / TILE + 1) % stages * TILE * D;
        bool has_next = n + TILE < end;
        if (stages > 1 && has_next) {
            fetch_items<T, D>(task, tile, n + TILE, shared.keys + next, shared.values + next);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads(); /* the tile is there for all */
        score_tile<T, D>(task, tile, n, shared.keys + stage, shared);
        __syncwarp();
        cover_tile<T, D>(task, shared, &state);
        add_values<T, D>(shared.values + stage, shared, context);
        __syncthreads(); /* all are done with the tile */
        if (stages == 1 && has_next)
            fetch_items<T, D>(task, tile, n + TILE, shared.keys, shared.values);
    }
    put_context<T, D>(task, tile, shared, state, context);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* How many tiles of items shared memory has room for, at most 2. */
static int stages_for(const attend_task &task, size_t shared_bytes)
{
    for (int stages = 2; stages > 0; stages--) {
        size_t bytes;
        if (task.head_width == 32)
            bytes = tiles_shared<f16, 32>().place(nullptr, task.area_width, stages);
        else if (task.head_width == 64)
            bytes = tiles_shared<f16, 64>().place(nullptr, task.area_width, stages);
        else
            bytes = tiles_shared<f16, 128>().place(nullptr, task.area_width, stages);
        if (bytes <= shared_bytes)
            return stages;
    }
    return 0;
}

bool attend_has_tiles(enum number_type type, const attend_task &task, size_t shared_bytes)
{
    bool is_of_tiles = task.head_width == 32 || task.head_width == 64 || task.head_width == 128;
    return type != NUMBER_F32 && is_of_tiles && task.area_width <= WIDEST_CHAIN &&
           stages_for(task, shared_bytes) > 0;
}

template <class T, int D>
static void launch_width(cudaStream_t stream, const tiles_task &task, int max_tiles)
{
    tiles_shared<T, D> shared;
    size_t bytes = shared.place(nullptr, task.attend.area_width, task.stages);
    dim3 grid((unsigned)max_tiles, (unsigned)task.attend.n_heads);
    gpu_launch(stream, attend_tiles<T, D>, grid, TILE_THREADS, bytes, task);
}

template <class T>
static void launch_type(cudaStream_t stream, const tiles_task &task, int max_tiles)
{
    if (task.attend.head_width == 32)
        launch_width<T, 32>(stream, task, max_tiles);
    else if (task.attend.head_width == 64)
        launch_width<T, 64>(stream, task, max_tiles);
    else
        launch_width<T, 128>(stream, task, max_tiles);
}

void attend_tiles_launch(cudaStream_t stream, enum number_type type, const attend_task &task,
                         int max_tiles, size_t shared_bytes)
{
    tiles_task both = {task, stages_for(task, shared_bytes)};
    if (type == NUMBER_F16)
        launch_type<f16>(stream, both, max_tiles);
    else
        launch_type<bf16>(stream, both, max_tiles);
}
