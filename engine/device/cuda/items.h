/* items.h - what an attention keeps of its items, row by row: of an encoder memory, of a cache, or
 * for the length of one pass.
 *
 * Plain attention keeps keys and values side by side, in its own type. Where areas are taken one by
 * one everything is float32: the items as far as they are needed, and what areas have of their own,
 * in planes: entry `row` of a plane is the area whose last item is that row's.
 */
#ifndef DEVICE_CUDA_ITEMS_H
#define DEVICE_CUDA_ITEMS_H

#include "device/cuda/area_key.h"
#include "device/cuda/areas.h"

struct area_items {
    size_t n_rows;
    void *both;                       /* plain: [rows][2][C] */
    float *keys, *values;             /* [rows][C] */
    float *base, *integral, *squares; /* likewise: keys after the first dense layer, and sums */
    float *key_planes, *value_planes; /* [planes][rows][C] */
};

struct stream;

/* What plain attention keeps its items in. */
enum number_type items_type(const struct cuda_device *device, const struct attention *attention);

/* Room for what the attention needs of it; or for any attention of C numbers. */
void items_take(struct gpu_memory *memory, const struct cuda_device *device,
                const struct attention *attention, size_t n_rows, struct area_items *items);
void items_take_all(struct gpu_memory *memory, size_t n_rows, size_t c, size_t n_planes,
                    struct area_items *items);

/* Keys and values of new rows, where areas are taken one by one. */
struct new_items {
    struct area_rows rows;
    const float *keys, *values;
    int key_stride, value_stride;
    int max_rows, max_sentences, max_length;
};

void items_append(struct stream *stream, const struct attention *attention,
                  const struct new_items *added, const struct area_items *items);

struct area_shape items_shape(const struct attention *attention);

#endif
