#include "device/cuda/buffer.h"

#include "device/cuda/convert.h"
#include "device/cuda/graphs.h"
#include "device/cuda/wait.h"

int cuda_buffer_open(struct device *device, size_t max_rows, size_t max_width, struct buffer **out)
{
    struct buffer *buffer = cuda_new<struct buffer>();
    if (!buffer)
        return ACRE_ENOMEM;
    cuda_use(cuda_device_of(device));
    buffer->stride = cuda_padded(max_width, ROW_NUMBERS);
    size_t n = max_rows * (size_t)buffer->stride;
    gpu_take(&buffer->memory, &buffer->numbers, n, GPU_ZEROED);
    buffer->narrow = gpu_take(&buffer->memory, n * sizeof(uint16_t), GPU_ZEROED);
    buffer->forms = cuda_new<struct buffer_forms>();
    int status = buffer->forms ? cuda_status(buffer->memory.error) : ACRE_ENOMEM;
    if (status != 0) {
        cuda_buffer_close(buffer);
        return status;
    }
    buffer->forms->has_numbers = true;
    *out = buffer;
    return 0;
}

void cuda_buffer_close(struct buffer *buffer)
{
    if (!buffer)
        return;
    gpu_release(&buffer->memory);
    mem_free(buffer->forms);
    mem_free(buffer);
}

/* Whole rows: how wide they are is not known here. */
static void convert(struct stream *stream, const struct buffer *buffer, const struct rows *rows,
                    enum number_type from, enum number_type to)
{
    convert_task task = {from == NUMBER_F32 ? buffer->numbers : buffer->narrow,
                         to == NUMBER_F32 ? buffer->numbers : buffer->narrow,
                         from,
                         to,
                         buffer->stride,
                         buffer->stride,
                         buffer->stride,
                         rows->table.n_rows};
    convert_launch(stream->cuda, task, rows->most_rows);
}

const void *buffer_as(struct stream *stream, const struct buffer *buffer, const struct rows *rows,
                      enum number_type type)
{
    struct buffer_forms in_vain = *buffer->forms;
    bool is_noted = graphs_note_read(stream->graphs, buffer->forms);
    struct buffer_forms *forms = is_noted ? buffer->forms : &in_vain;
    bool is_there = type == NUMBER_F32 ? forms->has_numbers : forms->narrow == type;
    if (!is_there && !forms->has_numbers) {
        convert(stream, buffer, rows, forms->narrow, NUMBER_F32);
        forms->has_numbers = true;
    }
    if (!is_there && type != NUMBER_F32) {
        convert(stream, buffer, rows, NUMBER_F32, type);
        forms->narrow = type;
    }
    return type == NUMBER_F32 ? buffer->numbers : buffer->narrow;
}

struct hidden_rows buffer_put(struct stream *stream, struct buffer *buffer, int width,
                              enum number_type narrow)
{
    if (graphs_note_written(stream->graphs, buffer->forms))
        *buffer->forms = {true, narrow};
    return {buffer->numbers, narrow == NUMBER_F32 ? NULL : buffer->narrow, narrow, width,
            buffer->stride};
}

void *buffer_put_as(struct stream *stream, struct buffer *buffer, enum number_type type)
{
    if (graphs_note_written(stream->graphs, buffer->forms))
        *buffer->forms = {type == NUMBER_F32, type};
    return type == NUMBER_F32 ? buffer->numbers : buffer->narrow;
}

/* ---- Looking in ------------------------------------------------------------------------------ */

void cuda_read(struct stream *stream, const struct buffer *buffer, size_t n_rows, size_t width,
               float *out)
{
    size_t stride = (size_t)buffer->stride;
    cuda_use(stream->device);
    if (!buffer->forms->has_numbers) {
        convert_task task = {buffer->narrow,
                             buffer->numbers,
                             buffer->forms->narrow,
                             NUMBER_F32,
                             buffer->stride,
                             buffer->stride,
                             (int)width,
                             NULL};
        convert_launch(stream->cuda, task, (int)n_rows);
    }
    if (gpu_wait(stream->device->ordinal, stream->cuda) != cudaSuccess)
        return; /* the next poll tells */
    for (size_t row = 0; row < n_rows; row++)
        cudaMemcpy(out + row * width, buffer->numbers + row * stride, width * sizeof(*out),
                   cudaMemcpyDeviceToHost);
}

void cuda_write(struct stream *stream, struct buffer *buffer, size_t n_rows, size_t width,
                const float *in)
{
    size_t stride = (size_t)buffer->stride;
    cuda_use(stream->device);
    if (gpu_wait(stream->device->ordinal, stream->cuda) != cudaSuccess)
        return;
    for (size_t row = 0; row < n_rows; row++)
        cudaMemcpy(buffer->numbers + row * stride, in + row * width, width * sizeof(*in),
                   cudaMemcpyHostToDevice);
    gpu_settle();
    *buffer->forms = {true, NUMBER_F32};
}
