#include "device/cuda/areas.cuh"

enum { IMAGE_THREADS = 64, AREA_THREADS = 128 };

/* ---- Integral images ------------------------------------------------------------------------- */

/* One channel of an image: where items are read and sums written. */
struct image_channel {
    const void *x;
    enum number_type type;
    size_t x_stride, stride;
    float *integral, *squares;

    /* Item `from` is added to the sums of its row so far, and these to those above it. */
    GPU_CODE void add(size_t from, int to, int above, float *row, float *row_squares) const
    {
        float number = load_number(x, type, from * x_stride);
        *row = __fadd_rn(number, *row);
        integral[(size_t)to * stride] =
            above < 0 ? *row : __fadd_rn(*row, integral[(size_t)above * stride]);
        if (!squares)
            return;
        *row_squares = __fadd_rn(__fmul_rn(number, number), *row_squares);
        squares[(size_t)to * stride] =
            above < 0 ? *row_squares : __fadd_rn(*row_squares, squares[(size_t)above * stride]);
    }
};

GPU_CODE image_channel channel_of(const integral_task &task, int channel)
{
    size_t number_bytes = task.x_type == NUMBER_F32 ? 4 : 2;
    return {(const char *)task.x + (size_t)channel * number_bytes,
            task.x_type,
            (size_t)task.x_stride,
            (size_t)(task.shape.n_heads * task.shape.head_width),
            task.integral + channel,
            task.squares ? task.squares + channel : nullptr};
}

/* A thread has one channel of one block of a sentence: blocks do not depend on each other. */
__global__ static void __launch_bounds__(IMAGE_THREADS, 1) integrate(integral_task task)
{
    gpu_await_previous();
    int channel = (int)(blockIdx.y * IMAGE_THREADS + threadIdx.x), sentence = (int)blockIdx.z;
    if (sentence >= *task.rows.n_sentences)
        return;
    int first = task.rows.first[sentence], length = task.rows.first[sentence + 1] - first;
    int columns = columns_of(task.shape, length);
    int kept = task.rows.bases ? task.rows.bases[sentence] : first;
    int across = (columns + AREA_BLOCK - 1) / AREA_BLOCK;
    int first_y = (int)blockIdx.x / across * AREA_BLOCK;
    int first_x = (int)blockIdx.x % across * AREA_BLOCK;
    if (channel >= task.shape.n_heads * task.shape.head_width)
        return;
    image_channel image = channel_of(task, channel);
    for (int y = first_y; y < first_y + AREA_BLOCK && y * columns < length; y++) {
        float row = 0.0f, squares = 0.0f;
        for (int x = first_x; x < first_x + AREA_BLOCK && x < columns; x++) {
            int item = y * columns + x;
            image.add((size_t)(first + item), kept + item, y > first_y ? kept + item - columns : -1,
                      &row, &squares);
        }
    }
}

/* The last item of a row: the sums before it are in the item before it. */
__global__ static void __launch_bounds__(IMAGE_THREADS, 1) integrate_step(integral_task task)
{
    gpu_await_previous();
    int channel = (int)(blockIdx.y * IMAGE_THREADS + threadIdx.x), row = (int)blockIdx.x;
    if (row >= *task.rows.n_rows || channel >= task.shape.n_heads * task.shape.head_width)
        return;
    item_view view = view_of(task.rows, row);
    image_channel image = channel_of(task, channel);
    float sum = 0.0f, squares = 0.0f;
    if (view.last % AREA_BLOCK > 0) {
        size_t before = (size_t)view.at(view.last - 1) * image.stride;
        sum = image.integral[before];
        squares = image.squares ? image.squares[before] : 0.0f;
    }
    image.add((size_t)row, view.at(view.last), -1, &sum, &squares);
}

/* ---- Items ----------------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(AREA_THREADS, 1) put_items(item_task task)
{
    gpu_await_previous();
    int row = (int)blockIdx.x;
    if (row >= *task.rows.n_rows)
        return;
    item_view view = view_of(task.rows, row);
    float *to = task.items + (size_t)view.at(view.last) * (size_t)task.numbers;
    for (int i = (int)threadIdx.x; i < task.numbers; i += AREA_THREADS)
        to[i] = load_number(task.x, task.x_type, (size_t)row * (size_t)task.x_stride + (size_t)i);
}

/* ---- Products of heads ----------------------------------------------------------------------- */

/* A block multiplies ROWS vectors of [Dp], in shared memory with the rows side by side. */
enum { PRODUCT_ROWS = 16 };

/* sums[r] = vector r · column of w. */
GPU_CODE void multiply_column(const float *vectors, const float *w, int d, int column, float *sums)
{
#pragma unroll
    for (int r = 0; r < PRODUCT_ROWS; r++)
        sums[r] = 0.0f;
    for (int k = 0; k < d; k++) {
        float number = w[(size_t)k * (size_t)d + (size_t)column];
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS; r++)
            sums[r] = fmaf(vectors[k * PRODUCT_ROWS + r], number, sums[r]);
    }
}

size_t head_product_bytes(int head_width)
{
    gpu_layout layout;
    layout.take<float>((size_t)(PRODUCT_ROWS * head_width));
    return layout.bytes;
}

__global__ static void __launch_bounds__(AREA_THREADS, 1) multiply_heads(head_product_task task)
{
    gpu_await_previous();
    int first = (int)blockIdx.x * PRODUCT_ROWS, d = task.head_width, head = (int)blockIdx.y * d;
    int n = *task.n_rows - first;
    if (n <= 0)
        return;
    gpu_layout layout = {gpu_shared(), 0};
    float *vectors = layout.take<float>((size_t)(PRODUCT_ROWS * d));
    for (int i = (int)threadIdx.x; i < PRODUCT_ROWS * d; i += AREA_THREADS) {
        int r = i / d, k = i % d;
        size_t at = (size_t)(first + r) * (size_t)task.x_stride + (size_t)(head + k);
        vectors[k * PRODUCT_ROWS + r] = r < n ? load_number(task.x, task.x_type, at) : 0.0f;
    }
    __syncthreads();
    for (int column = (int)threadIdx.x; column < d; column += AREA_THREADS) {
        float sums[PRODUCT_ROWS];
        multiply_column(vectors, task.w, d, column, sums);
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS; r++)
            if (r < n)
                store_number(task.y, task.y_type,
                             (size_t)(first + r) * (size_t)task.y_stride + (size_t)(head + column),
                             sums[r]);
    }
}

/* ---- Features -------------------------------------------------------------------------------- */

GPU_CODE void put_feature(const feature_task &task, void *feature, size_t at, float x)
{
    if (feature)
        store_number(feature, task.out_type, at, x);
}

__global__ static void __launch_bounds__(AREA_THREADS, 1) find_features(feature_task task)
{
    gpu_await_previous();
    int row = (int)blockIdx.x, plane = (int)blockIdx.y;
    if (row >= *task.rows.n_rows)
        return;
    size_t stride = (size_t)(task.shape.n_heads * task.shape.head_width);
    item_view view = view_of(task.rows, row);
    area area(task.shape, plane, columns_of(task.shape, view.length), view.last);
    if (!area.exists())
        return;
    size_t out = ((size_t)plane * task.plane_rows + (size_t)view.at(view.last)) * stride;
    for (size_t i = threadIdx.x; i < stride; i += AREA_THREADS) {
        if (task.maxima)
            put_feature(task, task.maxima, out + i,
                        area_maximum(area, task.items + i, view, stride));
        if (!task.integral)
            continue;
        float sum = area_sum(area, task.integral + i, view, stride);
        int count = area.width * area.height;
        put_feature(task, task.sums, out + i, sum);
        put_feature(task, task.means, out + i, __fdiv_rn(sum, (float)count));
        if (task.deviations)
            put_feature(task, task.deviations, out + i,
                        deviation_of(sum, area_sum(area, task.squares + i, view, stride), count));
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* What is multiplied with w: a row's deviation or maximum, of one channel. */
GPU_CODE float key_feature(const area_key_task &task, const area &area, const item_view &view,
                           size_t channel, size_t stride)
{
    if (task.is_largest)
        return area_maximum(area, task.items + channel, view, stride);
    float sum = area_sum(area, task.integral + channel, view, stride);
    float squares = area_sum(area, task.squares + channel, view, stride);
    return deviation_of(sum, squares, area.width * area.height);
}

/* The hidden unit of one channel, from what the feature gives. */
GPU_CODE float hidden_unit(const area_key_task &task, const area &area, const item_view &view,
                           size_t channel, size_t stride, float unit)
{
    int column = (int)channel % task.shape.head_width;
    unit += task.constants[area.plane * task.shape.head_width + column];
    if (!task.is_largest)
        unit = fmaf(area.share(), window_sum(area, task.base + channel, view, stride), unit);
    return fmaxf(unit, 0.0f);
}

/* A block has one plane and one head of PRODUCT_ROWS rows. */
__global__ static void __launch_bounds__(AREA_THREADS, 1) find_keys(area_key_task task)
{
    gpu_await_previous();
    int first = (int)blockIdx.x * PRODUCT_ROWS, d = task.shape.head_width;
    int plane = (int)blockIdx.z, n = *task.rows.n_rows - first;
    size_t stride = (size_t)(task.shape.n_heads * d), head = (size_t)((int)blockIdx.y * d);
    bool has_feature = task.is_largest || task.integral;
    if (n <= 0)
        return;
    gpu_layout layout = {gpu_shared(), 0};
    float *vectors = layout.take<float>((size_t)(PRODUCT_ROWS * d));
    for (int i = (int)threadIdx.x; i < PRODUCT_ROWS * d && has_feature; i += AREA_THREADS) {
        int r = i / d, k = i % d;
        float feature = 0.0f;
        if (r < n) {
            item_view view = view_of(task.rows, first + r);
            area area(task.shape, plane, columns_of(task.shape, view.length), view.last);
            if (area.exists())
                feature = key_feature(task, area, view, head + (size_t)k, stride);
        }
        vectors[k * PRODUCT_ROWS + r] = feature;
    }
    __syncthreads();
    for (int column = (int)threadIdx.x; column < d; column += AREA_THREADS) {
        float sums[PRODUCT_ROWS] = {};
        size_t channel = head + (size_t)column;
        if (has_feature)
            multiply_column(vectors, task.w, d, column, sums);
#pragma unroll
        for (int r = 0; r < PRODUCT_ROWS; r++) {
            if (r >= n)
                break;
            item_view view = view_of(task.rows, first + r);
            area area(task.shape, plane, columns_of(task.shape, view.length), view.last);
            size_t out = ((size_t)plane * task.plane_rows + (size_t)view.at(view.last)) * stride;
            if (area.exists())
                store_number(task.keys, task.out_type, out + channel,
                             hidden_unit(task, area, view, channel, stride, sums[r]));
        }
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static unsigned parts_of(int n, int part)
{
    return (unsigned)((n + part - 1) / part);
}

void integral_launch(cudaStream_t stream, const integral_task &task, int max_sentences,
                     int max_items, int max_rows)
{
    const area_shape &shape = task.shape;
    unsigned channels = parts_of(shape.n_heads * shape.head_width, IMAGE_THREADS);
    int down = shape.memory_height > 1 ? shape.memory_height : 1;
    unsigned blocks = parts_of(down, AREA_BLOCK) * parts_of(max_items / down, AREA_BLOCK);
    if (task.rows.sentences)
        gpu_launch(stream, integrate, dim3(blocks, channels, (unsigned)max_sentences),
                   IMAGE_THREADS, 0, task);
    else
        gpu_launch(stream, integrate_step, dim3((unsigned)max_rows, channels), IMAGE_THREADS, 0,
                   task);
}

void items_launch(cudaStream_t stream, const item_task &task, int max_rows)
{
    gpu_launch(stream, put_items, dim3((unsigned)max_rows), AREA_THREADS, 0, task);
}

void head_product_launch(cudaStream_t stream, const head_product_task &task, int max_rows)
{
    dim3 grid(parts_of(max_rows, PRODUCT_ROWS), (unsigned)task.n_heads);
    gpu_launch(stream, multiply_heads, grid, AREA_THREADS, head_product_bytes(task.head_width),
               task);
}

void features_launch(cudaStream_t stream, const feature_task &task, int max_rows)
{
    dim3 grid((unsigned)max_rows, (unsigned)(task.shape.width * task.shape.height));
    gpu_launch(stream, find_features, grid, AREA_THREADS, 0, task);
}

void area_keys_launch(cudaStream_t stream, const area_key_task &task, int max_rows)
{
    dim3 grid(parts_of(max_rows, PRODUCT_ROWS), (unsigned)task.shape.n_heads,
              (unsigned)(task.shape.width * task.shape.height));
    gpu_launch(stream, find_keys, grid, AREA_THREADS, head_product_bytes(task.shape.head_width),
               task);
}
