/* The CUDA backend's weights. A matrix goes over in parts of STAGED numbers, as float32 rows; there
 * they are rounded, or quantised, into rows padded with zeros. Loading waits for all of it. */
#include "device/cuda/weights.h"

#include "device/cuda/convert.h"
#include "device/cuda/linear.h"
#include "device/cuda/norm.h"
#include "device/cuda/wait.h"

extern "C" {
#include "device/positions.h"
}

enum { STAGED = 1 << 20 /* numbers that are on their way at a time, or one row */ };

/* ---- Weights --------------------------------------------------------------------------------- */

void cuda_weight_close(struct weight *weight)
{
    if (weight)
        gpu_release(&weight->memory);
    mem_free(weight);
}

/* The hardware has caches and enough threads that wait. */
void cuda_weights_order(struct device *, struct weight *const *, size_t)
{
}

static size_t part_columns(const struct weight_part *part)
{
    return part->n_columns > 0 ? part->n_columns : part->weight.shape[1];
}

static void scale_all(float *numbers, size_t n, float scale)
{
    for (size_t i = 0; i < n && scale != 1.0f; i++)
        numbers[i] *= scale;
}

static void read_rows(const struct weight_part *part, size_t first, size_t n, float *rows)
{
    size_t columns = part->weight.shape[1], k = part_columns(part);
    for (size_t row = 0; row < n; row++)
        tensor_read(&part->weight, (first + row) * columns + part->first_column, k, rows + row * k);
    scale_all(rows, n * k, part->scale);
}

/* n staged rows become those of the weight from `first` on. */
static void pack_rows(const struct cuda_device *device, const struct weight *weight, size_t first,
                      int n)
{
    size_t at = first * (size_t)weight->kp;
    int32_t count = n; /* read when the copy is made, until the end */
    if (weight->type == NUMBER_INT8) {
        quantise_task task = {device->staging,
                              (int8_t *)weight->numbers + at,
                              weight->scales + first,
                              device->n_rows,
                              weight->k,
                              weight->kp,
                              weight->k};
        cudaMemcpyAsync(device->n_rows, &count, sizeof(count), cudaMemcpyHostToDevice,
                        device->stream);
        quantise_launch(device->stream, NUMBER_F32, task, n);
    } else {
        size_t number = weight->type == NUMBER_F32 ? 4 : 2;
        convert_task task = {device->staging, (char *)weight->numbers + at * number,
                             NUMBER_F32,      weight->type,
                             weight->k,       weight->kp,
                             weight->k,       NULL};
        convert_launch(device->stream, task, n);
    }
    gpu_wait(device->ordinal, device->stream);
}

static void pack_part(const struct cuda_device *device, const struct weight_part *part,
                      const struct weight *weight, size_t first, float *rows, size_t most)
{
    size_t n = part->weight.shape[0];
    for (size_t row = 0; row < n; row += most) {
        size_t left = n - row < most ? n - row : most;
        read_rows(part, row, left, rows);
        cudaMemcpyAsync(device->staging, rows, left * (size_t)weight->k * sizeof(float),
                        cudaMemcpyHostToDevice, device->stream);
        pack_rows(device, weight, first + row, (int)left);
    }
}

static void put_bias(const struct cuda_device *device, const struct weight_part *part,
                     const struct weight *weight, size_t first, float *numbers)
{
    size_t n = part->weight.shape[0];
    if (!part->bias.data)
        return;
    tensor_read(&part->bias, 0, n, numbers);
    scale_all(numbers, n, part->scale);
    cudaMemcpyAsync(weight->bias + first, numbers, n * sizeof(float), cudaMemcpyHostToDevice,
                    device->stream);
    gpu_wait(device->ordinal, device->stream);
}

static void take_weight(const struct cuda_device *device, enum compute_type type,
                        const struct weight_part *parts, size_t n_parts, struct weight *weight)
{
    weight->type = cuda_weight_type(device, type);
    weight->half = cuda_half_of(device, type);
    weight->k = (int)part_columns(&parts[0]);
    for (size_t i = 0; i < n_parts; i++)
        weight->n += (int)parts[i].weight.shape[0];
    weight->kp = linear_depth(weight->type, weight->k);
    weight->np = linear_columns(weight->n);
    size_t number = weight->type == NUMBER_F32 ? 4 : weight->type == NUMBER_INT8 ? 1 : 2;
    size_t np = (size_t)weight->np;
    weight->numbers = gpu_take(&weight->memory, np * (size_t)weight->kp * number, GPU_ZEROED);
    gpu_take(&weight->memory, &weight->bias, np, GPU_ZEROED);
    if (weight->type == NUMBER_INT8)
        gpu_take(&weight->memory, &weight->scales, np, GPU_ZEROED);
}

/* The staged rows, also the biases. */
static int pack(const struct cuda_device *device, const struct weight_part *parts, size_t n_parts,
                const struct weight *weight)
{
    size_t most = STAGED / (size_t)weight->k, n = (size_t)weight->n;
    most = most > 0 ? most : 1;
    size_t numbers = most * (size_t)weight->k > n ? most * (size_t)weight->k : n;
    float *rows = static_cast<float *>(mem_alloc(numbers * sizeof(float)));
    if (!rows)
        return ACRE_ENOMEM;
    for (size_t i = 0, first = 0; i < n_parts; first += parts[i].weight.shape[0], i++) {
        pack_part(device, &parts[i], weight, first, rows, most);
        put_bias(device, &parts[i], weight, first, rows);
    }
    mem_free(rows);
    cudaError_t error = gpu_wait(device->ordinal, device->stream); /* of any launch or wait above */
    cudaGetLastError();                                            /* no poll's to tell */
    return cuda_status(error);
}

int cuda_weight_open(struct device *device, enum compute_type type, const struct weight_part *parts,
                     size_t n_parts, struct weight **out)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct weight *weight = cuda_new<struct weight>();
    if (!weight)
        return ACRE_ENOMEM;
    cuda_use(cuda);
    take_weight(cuda, type, parts, n_parts, weight);
    int status = weight->k > STAGED ? ACRE_ENOMEM : cuda_status(weight->memory.error);
    pthread_mutex_lock(&cuda->loading);
    if (status == 0 && !cuda->staging)
        gpu_take(&cuda->memory, &cuda->staging, STAGED);
    if (status == 0 && !cuda->n_rows)
        gpu_take(&cuda->memory, &cuda->n_rows, 1);
    if (status == 0)
        status = cuda_status(cuda->memory.error);
    cuda->memory.error = cudaSuccess; /* the next weight may find memory */
    if (status == 0)
        status = pack(cuda, parts, n_parts, weight);
    pthread_mutex_unlock(&cuda->loading);
    if (status != 0) {
        cuda_weight_close(weight);
        return status;
    }
    *out = weight;
    return 0;
}

/* ---- Norms and embeddings -------------------------------------------------------------------- */

void cuda_upload(struct gpu_memory *memory, const void *from, size_t bytes, void **out)
{
    *out = from ? gpu_take(memory, bytes, GPU_RAW) : NULL;
    if (!*out)
        return;
    gpu_note(memory, cudaMemcpy(*out, from, bytes, cudaMemcpyHostToDevice));
    gpu_note(memory, gpu_settle());
}

/* A vector of a model file, as float32. */
static void upload_tensor(struct gpu_memory *memory, const struct tensor *tensor, float **out)
{
    size_t n = tensor_count(tensor);
    float *numbers = static_cast<float *>(mem_alloc(n * sizeof(float)));
    if (!numbers) {
        gpu_note(memory, cudaErrorMemoryAllocation);
        return;
    }
    tensor_read(tensor, 0, n, numbers);
    cuda_upload(memory, numbers, n * sizeof(float), (void **)out);
    mem_free(numbers);
}

void cuda_norm_close(struct norm *norm)
{
    if (norm)
        gpu_release(&norm->memory);
    mem_free(norm);
}

int cuda_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                   float epsilon, struct norm **out)
{
    struct norm *norm = cuda_new<struct norm>();
    if (!norm)
        return ACRE_ENOMEM;
    cuda_use(cuda_device_of(device));
    norm->c = (int)tensor_count(gain);
    if (close_bytes(norm->c, 1) > cuda_device_of(device)->shared_bytes) {
        cuda_norm_close(norm);
        return ACRE_EUNSUPPORTED;
    }
    norm->epsilon = epsilon;
    upload_tensor(&norm->memory, gain, &norm->gain);
    upload_tensor(&norm->memory, bias, &norm->bias);
    int status = cuda_status(norm->memory.error);
    if (status != 0) {
        cuda_norm_close(norm);
        return status;
    }
    *out = norm;
    return 0;
}

void cuda_embedding_close(struct embedding *embedding)
{
    if (!embedding)
        return;
    gpu_release(&embedding->memory);
    mem_free(embedding->host_table);
    mem_free(embedding);
}

int cuda_embedding_open(struct device *device, const struct tensor *table, float scale,
                        struct embedding **out)
{
    struct embedding *embedding = cuda_new<struct embedding>();
    if (!embedding) {
        mem_free((void *)(uintptr_t)table->data);
        return ACRE_ENOMEM;
    }
    cuda_use(cuda_device_of(device));
    embedding->host_table = (void *)(uintptr_t)table->data;
    embedding->type = table->dtype == DTYPE_F32   ? NUMBER_F32
                      : table->dtype == DTYPE_F16 ? NUMBER_F16
                                                  : NUMBER_BF16;
    embedding->c = (int)table->shape[1];
    embedding->scale = scale;
    cuda_upload(&embedding->memory, table->data, tensor_count(table) * dtype_bytes(table->dtype),
                &embedding->table);
    int status = cuda_status(embedding->memory.error);
    if (status != 0) {
        cuda_embedding_close(embedding);
        return status;
    }
    *out = embedding;
    return 0;
}

void cuda_position_embedding_close(struct position_embedding *positional)
{
    if (!positional)
        return;
    gpu_release(&positional->memory);
    mem_free(positional);
}

int cuda_position_embedding_open(struct device *device, const struct positions *positions, size_t c,
                                 struct position_embedding **out)
{
    struct position_embedding *positional = cuda_new<struct position_embedding>();
    if (!positional)
        return ACRE_ENOMEM;
    cuda_use(cuda_device_of(device));
    size_t n = positions->n * c;
    float *numbers = static_cast<float *>(mem_alloc(n * sizeof(float)));
    int status = numbers ? 0 : ACRE_ENOMEM;
    if (status == 0) {
        positions_fill(positions, c, numbers);
        cuda_upload(&positional->memory, numbers, n * sizeof(float), (void **)&positional->numbers);
        status = cuda_status(positional->memory.error);
    }
    mem_free(numbers);
    if (status != 0) {
        cuda_position_embedding_close(positional);
        return status;
    }
    *out = positional;
    return 0;
}
