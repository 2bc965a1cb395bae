#include "device/cuda/linear.h"

#include "device/cuda/tensor.h"

enum {
    SLICES = 4,       /* of K */
    STEP_BYTES = 128, /* of a row that are fetched together, in pieces of 16 */
    PIECES = STEP_BYTES / 16,
    MULTIPLY_PIECES = 2, /* of a row that one matrix instruction takes */
};

int linear_depth(enum number_type type, int k)
{
    int bytes = type == NUMBER_F32 ? 4 : type == NUMBER_INT8 ? 1 : 2;
    return (k * bytes + LINEAR_ROW_BYTES - 1) / LINEAR_ROW_BYTES * LINEAR_ROW_BYTES / bytes;
}

int linear_columns(int n)
{
    return (n + LINEAR_COLUMNS - 1) / LINEAR_COLUMNS * LINEAR_COLUMNS;
}

/* ---- What both tilings share ----------------------------------------------------------------- */

template <class T> struct sum_of {
    typedef float type;
};

template <> struct sum_of<int8_t> {
    typedef int32_t type;
};

GPU_CODE void activate(enum activation activation, four<float> *y)
{
    switch (activation) {
    case ACTIVATION_RELU:
#pragma unroll
        for (int i = 0; i < 4; i++)
            y->x[i] = fmaxf(y->x[i], 0.0f);
        break;
    case ACTIVATION_SWISH:
#pragma unroll
        for (int i = 0; i < 4; i++)
            y->x[i] = y->x[i] / (1.0f + expf(-y->x[i]));
        break;
    case ACTIVATION_GELU:
#pragma unroll
        for (int i = 0; i < 4; i++)
            y->x[i] = 0.5f * y->x[i] * (1.0f + erff(y->x[i] * 0.70710678f));
        break;
    default:
        break;
    }
}

/* From sums with their bias to y: four columns of a row, as all that follows. */
GPU_CODE void finish(const linear_task &task, four<float> y, int row, int column)
{
    size_t at = (size_t)row * (size_t)task.y_stride + (size_t)column;
    activate(task.activation, &y);
    if (task.residual) {
        four<float> residual = load_four(task.residual + at);
#pragma unroll
        for (int i = 0; i < 4; i++)
            y.x[i] = __fadd_rn(y.x[i], residual.x[i]);
    }
    store_adjacent(task.y, task.y_type, at, y);
    if (task.narrow)
        store_adjacent(task.narrow, task.narrow_type, at, y);
}

GPU_CODE void finish_sums(const linear_task &task, const four<float> &sums, int row, int column)
{
    four<float> y = load_four(task.bias + column);
#pragma unroll
    for (int i = 0; i < 4; i++)
        y.x[i] += sums.x[i];
    finish(task, y, row, column);
}

GPU_CODE void finish_sums(const linear_task &task, const four<int32_t> &sums, int row, int column)
{
    four<float> y = load_four(task.bias + column), scales = load_four(task.w_scales + column);
    float x_scale = task.x_scales[row];
#pragma unroll
    for (int i = 0; i < 4; i++)
        y.x[i] = fmaf((float)sums.x[i], x_scale * scales.x[i], y.x[i]);
    finish(task, y, row, column);
}

/* Where piece `p` of a tile's row is: eight rows' same pieces are in different banks. */
GPU_CODE char *piece_of(char *tile, int row, int p)
{
    return tile + row * STEP_BYTES + ((p ^ row) & (PIECES - 1)) * 16;
}

/* STEP_BYTES of each of ROWS rows, by THREADS threads; zeros instead of rows that are not there. A
 * thread has the same piece of all its rows, so that little is left to compute for each. */
template <int ROWS, int THREADS>
GPU_CODE void fetch(char *tile, const char *from, size_t stride, int n_rows, int thread)
{
    int row = thread / PIECES, piece = thread % PIECES;
    from += (size_t)row * stride + piece * 16;
#pragma unroll
    for (int more = 0; more < ROWS; more += THREADS / PIECES)
        copy_16(piece_of(tile, row + more, piece), from + more * stride, row + more < n_rows);
}

/* Rows from the block's first one on, when the kernel before has ended: until then the block has
 * asked for its first weights. One without rows must not leave before they have come. */
GPU_CODE int rows_left(const linear_task &task, int first_row)
{
    gpu_await_previous();
    int n = *task.n_rows - first_row;
    if (n <= 0) {
        copy_commit();
        copy_wait<0>();
    }
    return n;
}

/* sums[ROWS,COLUMNS] += x · wᵀ of one step, for the tile rows from x_row and the columns from w_row
 * on. */
template <class T, int ROWS, int COLUMNS>
GPU_CODE void multiply_step(char *x_tile, int x_row, char *w_tile, int w_row, int lane,
                            typename sum_of<T>::type (*sums)[COLUMNS / 8][4])
{
#pragma unroll
    for (int p = 0; p < PIECES; p += MULTIPLY_PIECES) {
        uint32_t b[COLUMNS / 16][4];
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) /* 8 columns twice, of each both pieces */
            load_matrices(b[j], piece_of(w_tile, w_row + 16 * j + lane / 16 * 8 + lane % 8,
                                         p + lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < ROWS / 16; i++) {
            uint32_t a[4];
            load_matrices(a, piece_of(x_tile, x_row + 16 * i + lane % 16, p + lane / 16));
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; j++)
                multiply(sums[i][j], a, b[j / 2] + j % 2 * 2, T());
        }
    }
}

/* What a warp has summed goes through shared memory, [ROWS][SUM_STRIDE], so that a thread gets four
 * columns of a row instead of two here and two there. The stride puts the pairs that are written
 * together into different banks. */
enum { SUM_COLUMNS = 32, SUM_STRIDE = SUM_COLUMNS + 8 };

template <class SUM, int ROWS>
GPU_CODE void put_sums(SUM (*sums)[SUM_COLUMNS / 8][4], int lane, SUM *part)
{
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
        for (int j = 0; j < SUM_COLUMNS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                part[(16 * i + lane / 4 + e / 2 * 8) * SUM_STRIDE + 8 * j + lane % 4 * 2 + e % 2] =
                    sums[i][j][e];
}

/* ---- Few rows: a warp for each slice --------------------------------------------------------- */

/* A block has ROWS rows and SLICE_COLUMNS columns. Each warp sums its slice of K in tiles of its
 * own, so that only __syncwarp() stands in its loop; then the slices are added up. */
enum { SLICE_THREADS = 32 * SLICES, SLICE_COLUMNS = SUM_COLUMNS };

template <class T, int ROWS, int STAGES> struct slices_shared {
    enum {
        X_BYTES = ROWS * STEP_BYTES,
        STAGE_BYTES = X_BYTES + SLICE_COLUMNS * STEP_BYTES,
    };
    char *stages[SLICES]; /* [STAGES][STAGE_BYTES], of each warp; then its sums */

    GPU_BOTH size_t place(char *base)
    {
        gpu_layout layout = {base, 0};
        for (int s = 0; s < SLICES; s++)
            stages[s] = layout.take<char>(STAGES * STAGE_BYTES);
        return layout.bytes;
    }
};

template <class T, int ROWS, int STAGES>
__global__ static void __launch_bounds__(SLICE_THREADS, 1) multiply_slices(linear_task task)
{
    typedef typename sum_of<T>::type sum;
    typedef slices_shared<T, ROWS, STAGES> memory;
    int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    int first_row = (int)blockIdx.y * ROWS, first_column = (int)blockIdx.x * SLICE_COLUMNS;
    memory shared;
    shared.place(gpu_shared());
    char *stages = shared.stages[0] + warp * (shared.stages[1] - shared.stages[0]);
    size_t row_bytes = (size_t)task.k * sizeof(T), slice_bytes = row_bytes / SLICES;
    size_t x_bytes = (size_t)task.x_stride * sizeof(T);
    int n_steps = (int)(slice_bytes / STEP_BYTES);
    const char *x = (const char *)task.x + (size_t)first_row * x_bytes + warp * slice_bytes;
    const char *w = (const char *)task.w + (size_t)first_column * row_bytes + warp * slice_bytes;
    sum sums[ROWS / 16][SLICE_COLUMNS / 8][4] = {};

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        if (s < n_steps)
            fetch<SLICE_COLUMNS, 32>(stages + s * memory::STAGE_BYTES + memory::X_BYTES,
                                     w + s * STEP_BYTES, row_bytes, SLICE_COLUMNS, lane);
    int n_rows = rows_left(task, first_row);
    if (n_rows <= 0)
        return;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < n_steps)
            fetch<ROWS, 32>(stages + s * memory::STAGE_BYTES, x + s * STEP_BYTES, x_bytes, n_rows,
                            lane);
        copy_commit();
    }
    for (int step = 0; step < n_steps; step++) {
        copy_wait<STAGES - 2>();
        __syncwarp(); /* this step is there for all lanes, and all are done with the last one */
        int next = step + STAGES - 1;
        if (next < n_steps) {
            char *stage = stages + next % STAGES * memory::STAGE_BYTES;
            fetch<ROWS, 32>(stage, x + next * STEP_BYTES, x_bytes, n_rows, lane);
            fetch<SLICE_COLUMNS, 32>(stage + memory::X_BYTES, w + next * STEP_BYTES, row_bytes,
                                     SLICE_COLUMNS, lane);
        }
        copy_commit();
        char *stage = stages + step % STAGES * memory::STAGE_BYTES;
        multiply_step<T, ROWS, SLICE_COLUMNS>(stage, 0, stage + memory::X_BYTES, 0, lane, sums);
    }
    __syncwarp(); /* the sums take the place of what was multiplied */
    put_sums<sum, ROWS>(sums, lane, (sum *)stages);
    __syncthreads();
#pragma unroll 1
    for (int i = thread; i < ROWS * (SLICE_COLUMNS / 4); i += SLICE_THREADS) {
        int row = i / (SLICE_COLUMNS / 4), column = i % (SLICE_COLUMNS / 4) * 4;
        if (row >= n_rows)
            continue;
        four<sum> total = load_four((const sum *)shared.stages[0] + row * SUM_STRIDE + column);
#pragma unroll
        for (int s = 1; s < SLICES; s++) {
            four<sum> more = load_four((const sum *)shared.stages[s] + row * SUM_STRIDE + column);
#pragma unroll
            for (int e = 0; e < 4; e++)
                total.x[e] += more.x[e];
        }
        finish_sums(task, total, first_row + row, first_column + column);
    }
}

/* ---- Many rows: a part of the tile for each warp --------------------------------------------- */

/* A block has ROWS rows and TILE_COLUMNS columns, each warp 32 by 32 of them: the slices one after
 * the other. */
enum { TILE_COLUMNS = 64, TILE_STAGES = 3, WARP_TILE = SUM_COLUMNS };

template <int ROWS> struct tile_shared {
    enum {
        THREADS = ROWS / WARP_TILE * (TILE_COLUMNS / WARP_TILE) * 32,
        X_BYTES = ROWS * STEP_BYTES,
        STAGE_BYTES = X_BYTES + TILE_COLUMNS * STEP_BYTES,
    };
    char *stages;

    GPU_BOTH size_t place(char *base)
    {
        gpu_layout layout = {base, 0};
        stages = layout.take<char>(TILE_STAGES * STAGE_BYTES);
        return layout.bytes;
    }
};

/* The sums of a slice are added to those of the slices before it. */
template <class SUM> GPU_CODE void end_slice(bool is_first, SUM *sums, SUM *totals)
{
#pragma unroll
    for (int i = 0; i < WARP_TILE / 16 * (WARP_TILE / 8) * 4; i++) {
        totals[i] = is_first ? sums[i] : totals[i] + sums[i];
        sums[i] = 0;
    }
}

template <class T, int ROWS>
__global__ static void __launch_bounds__(tile_shared<ROWS>::THREADS, 1)
    multiply_tiles(linear_task task)
{
    typedef typename sum_of<T>::type sum;
    typedef tile_shared<ROWS> memory;
    enum { THREADS = memory::THREADS };
    int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    int first_row = (int)blockIdx.y * ROWS, first_column = (int)blockIdx.x * TILE_COLUMNS;
    memory shared;
    shared.place(gpu_shared());
    size_t row_bytes = (size_t)task.k * sizeof(T);
    size_t x_bytes = (size_t)task.x_stride * sizeof(T);
    int n_steps = (int)(row_bytes / STEP_BYTES), slice_steps = n_steps / SLICES, left = slice_steps;
    int warp_row = warp / 2 * WARP_TILE, warp_column = warp % 2 * WARP_TILE;
    const char *x = (const char *)task.x + (size_t)first_row * x_bytes;
    const char *w = (const char *)task.w + (size_t)first_column * row_bytes;
    sum sums[WARP_TILE / 16][WARP_TILE / 8][4] = {}, totals[WARP_TILE / 16][WARP_TILE / 8][4];

#pragma unroll
    for (int s = 0; s < TILE_STAGES - 1; s++)
        fetch<TILE_COLUMNS, THREADS>(shared.stages + s * memory::STAGE_BYTES + memory::X_BYTES,
                                     w + s * STEP_BYTES, row_bytes, TILE_COLUMNS, thread);
    int n_rows = rows_left(task, first_row);
    if (n_rows <= 0)
        return;
#pragma unroll
    for (int s = 0; s < TILE_STAGES - 1; s++) {
        fetch<ROWS, THREADS>(shared.stages + s * memory::STAGE_BYTES, x + s * STEP_BYTES, x_bytes,
                             n_rows, thread);
        copy_commit();
    }
    for (int step = 0; step < n_steps; step++) {
        copy_wait<TILE_STAGES - 2>();
        __syncthreads(); /* this step is there for all, and all are done with the last one */
        int next = step + TILE_STAGES - 1;
        if (next < n_steps) {
            char *stage = shared.stages + next % TILE_STAGES * memory::STAGE_BYTES;
            fetch<ROWS, THREADS>(stage, x + next * STEP_BYTES, x_bytes, n_rows, thread);
            fetch<TILE_COLUMNS, THREADS>(stage + memory::X_BYTES, w + next * STEP_BYTES, row_bytes,
                                         TILE_COLUMNS, thread);
        }
        copy_commit();
        char *stage = shared.stages + step % TILE_STAGES * memory::STAGE_BYTES;
        multiply_step<T, WARP_TILE, WARP_TILE>(stage, warp_row, stage + memory::X_BYTES,
                                               warp_column, lane, sums);
        if (--left == 0) {
            end_slice(step < slice_steps, &sums[0][0][0], &totals[0][0][0]);
            left = slice_steps;
        }
    }
    __syncthreads(); /* the sums take the place of what was multiplied */
    sum *part = (sum *)shared.stages + warp * (WARP_TILE * SUM_STRIDE);
    put_sums<sum, WARP_TILE>(totals, lane, part);
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < WARP_TILE * (WARP_TILE / 4); i += 32) {
        int row = i / (WARP_TILE / 4), column = i % (WARP_TILE / 4) * 4;
        if (warp_row + row < n_rows)
            finish_sums(task, load_four(part + row * SUM_STRIDE + column),
                        first_row + warp_row + row, first_column + warp_column + column);
    }
}

/* ---- f32 ------------------------------------------------------------------------------------- */

/* A thread has ROWS / 8 rows and 4 columns. */
enum { F32_THREADS = 128, F32_COLUMNS = 64, F32_STEP = 32 };

template <int ROWS> struct f32_shared {
    enum { X_STRIDE = ROWS + 4, W_STRIDE = F32_COLUMNS + 4 };
    float *x, *w; /* [F32_STEP][stride], transposed */

    GPU_BOTH size_t place(char *base)
    {
        gpu_layout layout = {base, 0};
        x = layout.take<float>(F32_STEP * X_STRIDE);
        w = layout.take<float>(F32_STEP * W_STRIDE);
        return layout.bytes;
    }
};

template <int ROWS>
GPU_CODE void fetch_transposed(float *to, int to_stride, const float *from, int stride, int n_rows,
                               int thread)
{
#pragma unroll
    for (int i = thread; i < ROWS * F32_STEP / 4; i += F32_THREADS) {
        int row = i / (F32_STEP / 4), k = i % (F32_STEP / 4) * 4;
        numbers<float> four = {};
        if (row < n_rows)
            four.load(from + (size_t)row * (size_t)stride + k);
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[(k + j) * to_stride + row] = four.x[j];
    }
}

template <int ROWS>
__global__ static void __launch_bounds__(F32_THREADS, 1) multiply_f32(linear_task task)
{
    gpu_await_previous();
    typedef f32_shared<ROWS> memory;
    enum { R = ROWS / 8 };
    int thread = (int)threadIdx.x, my_row = thread / 16 * R, my_column = thread % 16 * 4;
    int first_row = (int)blockIdx.y * ROWS, first_column = (int)blockIdx.x * F32_COLUMNS;
    int n_rows = *task.n_rows - first_row;
    if (n_rows <= 0)
        return;
    memory shared;
    shared.place(gpu_shared());
    const float *x = (const float *)task.x + (size_t)first_row * (size_t)task.x_stride;
    const float *w = (const float *)task.w + (size_t)first_column * (size_t)task.k;
    four<float> sums[R] = {};
    for (int first = 0; first < task.k; first += F32_STEP) {
        fetch_transposed<ROWS>(shared.x, memory::X_STRIDE, x + first, task.x_stride, n_rows,
                               thread);
        fetch_transposed<F32_COLUMNS>(shared.w, memory::W_STRIDE, w + first, task.k, F32_COLUMNS,
                                      thread);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < F32_STEP; k++) {
            numbers<float> columns;
            columns.load(shared.w + k * memory::W_STRIDE + my_column);
#pragma unroll
            for (int r = 0; r < R; r++) {
                float number = shared.x[k * memory::X_STRIDE + my_row + r];
#pragma unroll
                for (int c = 0; c < 4; c++)
                    sums[r].x[c] = fmaf(number, columns.x[c], sums[r].x[c]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++)
        if (my_row + r < n_rows)
            finish_sums(task, sums[r], first_row + my_row + r, first_column + my_column);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static unsigned tiles_of(int n, int tile)
{
    return (unsigned)((n + tile - 1) / tile);
}

template <class T, int ROWS, int STAGES>
static void launch_slices(cudaStream_t stream, const linear_task &task, int max_rows)
{
    slices_shared<T, ROWS, STAGES> shared;
    dim3 grid(tiles_of(task.n, SLICE_COLUMNS), tiles_of(max_rows, ROWS));
    gpu_launch(stream, multiply_slices<T, ROWS, STAGES>, grid, SLICE_THREADS, shared.place(nullptr),
               task);
}

template <class T, int ROWS>
static void launch_tiles(cudaStream_t stream, const linear_task &task, int max_rows)
{
    tile_shared<ROWS> shared;
    dim3 grid(tiles_of(task.n, TILE_COLUMNS), tiles_of(max_rows, ROWS));
    gpu_launch(stream, multiply_tiles<T, ROWS>, grid, tile_shared<ROWS>::THREADS,
               shared.place(nullptr), task);
}

template <int ROWS>
static void launch_f32(cudaStream_t stream, const linear_task &task, int max_rows)
{
    f32_shared<ROWS> shared;
    dim3 grid(tiles_of(task.n, F32_COLUMNS), tiles_of(max_rows, ROWS));
    gpu_launch(stream, multiply_f32<ROWS>, grid, F32_THREADS, shared.place(nullptr), task);
}

/* Three stages where a block may have so much shared memory. */
template <class T, int ROWS>
static bool launch_stages(cudaStream_t stream, const linear_task &task, int max_rows,
                          size_t shared_bytes)
{
    slices_shared<T, ROWS, 3> three;
    slices_shared<T, ROWS, 2> two;
    if (three.place(nullptr) <= shared_bytes)
        launch_slices<T, ROWS, 3>(stream, task, max_rows);
    else if (two.place(nullptr) <= shared_bytes)
        launch_slices<T, ROWS, 2>(stream, task, max_rows);
    else
        return false;
    return true;
}

static int tile_for(int max_rows)
{
    return max_rows <= 16 ? 16 : max_rows <= 128 ? 32 : max_rows <= 512 ? 64 : 128;
}

template <class T>
static void launch_tensor(cudaStream_t stream, const linear_task &task, int max_rows, int tile,
                          size_t shared_bytes)
{
    if (tile == 128 && tile_shared<128>().place(nullptr) <= shared_bytes)
        launch_tiles<T, 128>(stream, task, max_rows);
    else if (tile >= 64)
        launch_tiles<T, 64>(stream, task, max_rows);
    else if (tile != 32 || !launch_stages<T, 32>(stream, task, max_rows, shared_bytes))
        launch_stages<T, 16>(stream, task, max_rows, shared_bytes);
}

void linear_launch(cudaStream_t stream, enum number_type type, const linear_task &task,
                   int max_rows, int tile, size_t shared_bytes)
{
    tile = tile > 0 ? tile : tile_for(max_rows);
    if (type == NUMBER_F16)
        launch_tensor<f16>(stream, task, max_rows, tile, shared_bytes);
    else if (type == NUMBER_BF16)
        launch_tensor<bf16>(stream, task, max_rows, tile, shared_bytes);
    else if (type == NUMBER_INT8)
        launch_tensor<int8_t>(stream, task, max_rows, tile, shared_bytes);
    else if (tile <= 16)
        launch_f32<16>(stream, task, max_rows);
    else
        launch_f32<64>(stream, task, max_rows);
}

/* ---- Quantisation ---------------------------------------------------------------------------- */

enum { QUANTISE_WARPS = 4 }; /* a row each */

template <class T>
__global__ static void __launch_bounds__(32 * QUANTISE_WARPS, 1) quantise(quantise_task task)
{
    gpu_await_previous();
    int row = (int)(blockIdx.x * QUANTISE_WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
    if (row >= *task.n_rows)
        return;
    const T *x = (const T *)task.x + (size_t)row * (size_t)task.x_stride;
    uint32_t *out = (uint32_t *)(task.rows + (size_t)row * (size_t)task.depth);
    float largest = 0.0f;
    for (int i = lane; i < task.k; i += 32)
        largest = fmaxf(largest, fabsf(widen(x[i])));
    largest = max_over<32>(largest);
    float inverse = largest > 0.0f ? __fdiv_rn(127.0f, largest) : 0.0f;
    for (int i = lane; i < task.depth / 4; i += 32) {
        uint32_t four = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float number = 4 * i + j < task.k ? widen(x[4 * i + j]) : 0.0f;
            four |= ((uint32_t)__float2int_rn(__fmul_rn(number, inverse)) & 0xff) << 8 * j;
        }
        out[i] = four;
    }
    if (lane == 0)
        task.scales[row] = __fdiv_rn(largest, 127.0f);
}

void quantise_launch(cudaStream_t stream, enum number_type x_type, const quantise_task &task,
                     int max_rows)
{
    dim3 grid(tiles_of(max_rows, QUANTISE_WARPS));
    void (*kernel)(quantise_task) = x_type == NUMBER_F32   ? quantise<float>
                                    : x_type == NUMBER_F16 ? quantise<f16>
                                                           : quantise<bf16>;
    gpu_launch(stream, kernel, grid, 32 * QUANTISE_WARPS, 0, task);
}
