/* lstm.h - the CPU backend's LSTM layers, over whole sentences and in a step. Used by the
 * thread of the stream; what a hypothesis carries to the next step is in the store. */
#ifndef DEVICE_CPU_LSTM_H
#define DEVICE_CPU_LSTM_H

#include "device/cpu/products.h"
#include "device/cpu/store.h"

/* gates[R,4C], hidden[R,C]: see lstm_layer of device.h. */
void cpu_lstm_layer(struct stream *stream, const struct weight *recurrent, size_t layer,
                    const struct rows *rows, struct store *store, float *gates, float *hidden);

#endif
