/* lstm.h - cells of LSTMs, and the states that hypotheses carry from step to step.
 *
 * The recurrent part of the gates is a product (linear.h) of the hidden states before; a launch
 * here takes one step of all rows. States are rows of float32 numbers, found by their number.
 */
#ifndef DEVICE_CUDA_LSTM_H
#define DEVICE_CUDA_LSTM_H

#include "device/cuda/norm.h" /* struct hidden_rows */

/* c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), for row r of a step, or for item t
 * of sentence r: nothing where the sentence has no such item. */
struct cell_task {
    const float *gates;     /* [R][gates_stride]: i, f, g, o, each C: what the input gave */
    const float *recurrent; /* [r][recurrent_stride] */
    int gates_stride, recurrent_stride, c;
    const int32_t *n_rows; /* of a step, or sentences */

    const int32_t *first; /* sentences: [n_rows + 1]; NULL: a step */
    int t;

    float *cells;                  /* [states][cell_stride] */
    const int32_t *before, *after; /* [r]: states; NULL: the row's own number */
    size_t cell_stride;

    struct hidden_rows hidden;  /* [R]: h */
    struct hidden_rows carried; /* [r]: h for the product of the next step; numbers NULL: none */
};

void cell_launch(cudaStream_t stream, const cell_task &task, int max_rows);

/* Between states and rows of activations: x[r] and state number of[r], `width` numbers each. */
struct states_task {
    float *states; /* [states][state_stride] */
    size_t state_stride;
    const int32_t *of; /* [R]; negative: zeros are read, nothing is written */
    const int32_t *n_rows;
    void *x; /* [R][x_stride] of `type` */
    int x_stride, width;
    enum number_type type;
};

void states_read_launch(cudaStream_t stream, const states_task &task, int max_rows);
void states_write_launch(cudaStream_t stream, const states_task &task, int max_rows);

#endif
