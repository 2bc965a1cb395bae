/* pass.h - what the passes of any network work on. */
#ifndef NN_PASS_H
#define NN_PASS_H

#include "acre.h"
#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"

/* Activations of up to max_rows rows, on the device. What a network does not use is NULL. */
struct workspace {
    size_t max_rows;
    float *hidden;        /* [R,C]: the result of every pass */
    float *joined;        /* [R,3C]; LSTM: [R,4C], the gates of a whole layer, or the output */
    float *context;       /* [R,C] */
    float *inner;         /* [R,F]; LSTM: [R,4C], the gates of a step */
    float *states;        /* LSTM: rows of the cache, where encoders work */
    const float **before; /* LSTM: [R], owned */
    float **after;        /* LSTM: [R], owned */
    float *memory;        /* all that is on the device, n_floats */
    size_t n_floats;
};

/* Who is told what cross-attention weighs: weights[planes][Lp] of all areas, see kernels/areas.h.
 */
struct attention_listener {
    void (*tell)(void *user, const struct attention *attention, size_t layer, size_t head,
                 size_t row, const float *weights);
    void *user;
    float *weights; /* [planes][Lp] */
};

/* One decoder step for all live rows. */
struct decoder_step {
    struct step_rows rows;      /* paths into the cache */
    const int32_t *ids;         /* [R] token each row reads */
    const int32_t *positions;   /* [R] */
    size_t n_sentences;         /* rows of a sentence stand together */
    struct memory_rows *groups; /* [n_sentences]; a pass moves their memory on */
    float *cache;               /* [cache_rows][row floats], or so for each decoder layer */
    size_t cache_rows;
    const struct attention_listener *listener; /* NULL: nobody */
};

#endif
