/* buffer.h - activations on the GPU: rows as float32, or rounded to 16 bits, or both.
 *
 * An operation that writes a buffer notes in which forms it did; one that reads asks for a form,
 * and where that is missing the rows are converted first. The notes are the host's: they follow
 * from the operations alone. Rows begin at multiples of ROW_NUMBERS, with zeros behind what is
 * written, or numbers of wider rows that were there before, which meet zeros in weights.
 */
#ifndef DEVICE_CUDA_BUFFER_H
#define DEVICE_CUDA_BUFFER_H

#include "device/cuda/norm.h" /* struct hidden_rows */
#include "device/cuda/rows.h"
#include "device/cuda/stream.h"

enum { ROW_NUMBERS = 256 };

/* What of a buffer is there. */
struct buffer_forms {
    bool has_numbers;
    enum number_type narrow; /* F32: nothing is rounded */
};

struct buffer {
    struct gpu_memory memory;
    int stride;
    float *numbers; /* [max_rows][stride] */
    void *narrow;   /* likewise, of 16 bits */
    struct buffer_forms *forms;
};

int cuda_buffer_open(struct device *device, size_t max_rows, size_t max_width,
                     struct buffer **buffer);
void cuda_buffer_close(struct buffer *buffer);

/* The rows of a pass in the form that is asked for. */
const void *buffer_as(struct stream *stream, const struct buffer *buffer, const struct rows *rows,
                      enum number_type type);

/* Where to write the rows as float32 and, unless `narrow` is F32, rounded. */
struct hidden_rows buffer_put(struct stream *stream, struct buffer *buffer, int width,
                              enum number_type narrow);

/* Where to write them in one form only. */
void *buffer_put_as(struct stream *stream, struct buffer *buffer, enum number_type type);

void cuda_read(struct stream *stream, const struct buffer *buffer, size_t n_rows, size_t width,
               float *out);
void cuda_write(struct stream *stream, struct buffer *buffer, size_t n_rows, size_t width,
                const float *in);

#endif
