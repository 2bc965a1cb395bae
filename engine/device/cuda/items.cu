#include "device/cuda/items.h"

#include "device/cuda/stream.h"

/* ---- Room ------------------------------------------------------------------------------------ */

enum number_type items_type(const struct cuda_device *device, const struct attention *attention)
{
    return cuda_half_of(device, attention->type);
}

static bool has_key_planes(const struct attention *attention)
{
    return attention->key != NULL;
}

static bool has_value_planes(const struct attention *attention)
{
    return attention->area.value == AREA_VALUE_MAX;
}

void items_take(struct gpu_memory *memory, const struct cuda_device *device,
                const struct attention *attention, size_t n_rows, struct area_items *items)
{
    size_t c = attention->n_heads * attention->head_width, n = n_rows * c;
    size_t planes = area_planes(&attention->area);
    const struct area_key *key = attention->key;
    items->n_rows = n_rows;
    if (attention_is_plain(attention)) {
        size_t number = items_type(device, attention) == NUMBER_F32 ? 4 : 2;
        items->both = gpu_take(memory, 2 * n * number, GPU_RAW);
        return;
    }
    gpu_take(memory, &items->values, n);
    if (!key || key->is_largest)
        gpu_take(memory, &items->keys, n);
    if (key && key->is_dense && !key->is_largest)
        gpu_take(memory, &items->base, n);
    if (key && key->has_deviation) {
        gpu_take(memory, &items->integral, n);
        gpu_take(memory, &items->squares, n);
    }
    if (has_key_planes(attention))
        gpu_take(memory, &items->key_planes, planes * n);
    if (has_value_planes(attention))
        gpu_take(memory, &items->value_planes, planes * n);
}

void items_take_all(struct gpu_memory *memory, size_t n_rows, size_t c, size_t n_planes,
                    struct area_items *items)
{
    size_t n = n_rows * c;
    items->n_rows = n_rows;
    gpu_take(memory, &items->keys, n);
    gpu_take(memory, &items->values, n);
    gpu_take(memory, &items->base, n);
    gpu_take(memory, &items->integral, n);
    gpu_take(memory, &items->squares, n);
    gpu_take(memory, &items->key_planes, n_planes * n);
    gpu_take(memory, &items->value_planes, n_planes * n);
}

struct area_shape items_shape(const struct attention *attention)
{
    struct area_shape shape;
    shape.width = attention->area.width;
    shape.height = attention->area.height > 1 ? attention->area.height : 1;
    shape.memory_height = attention->area.memory_height > 1 ? attention->area.memory_height : 1;
    shape.n_heads = (int)attention->n_heads;
    shape.head_width = (int)attention->head_width;
    return shape;
}

/* ---- New rows -------------------------------------------------------------------------------- */

static void put(struct stream *stream, const struct new_items *added, int c, const float *x,
                int stride, float *items)
{
    item_task task = {added->rows, c, x, NUMBER_F32, stride, items};
    items_launch(stream->cuda, task, added->max_rows);
}

static void put_maxima(struct stream *stream, const struct new_items *added,
                       const struct area_shape &shape, const struct area_items *of,
                       const float *items, float *planes)
{
    feature_task task = {};
    task.rows = added->rows;
    task.shape = shape;
    task.items = items;
    task.maxima = planes;
    task.out_type = NUMBER_F32;
    task.plane_rows = of->n_rows;
    features_launch(stream->cuda, task, added->max_rows);
}

/* The keys' sums and deviations are made of integral images, and means after the first layer. */
static void prepare_dense(struct stream *stream, const struct area_key *key,
                          const struct new_items *added, const struct area_shape &shape,
                          const struct area_items *items)
{
    int c = shape.n_heads * shape.head_width;
    if (key->has_deviation) {
        integral_task images = {added->rows,       shape,           added->keys,   NUMBER_F32,
                                added->key_stride, items->integral, items->squares};
        integral_launch(stream->cuda, images, added->max_sentences, added->max_length,
                        added->max_rows);
    }
    if (key->is_largest)
        return;
    head_product_task product = {
        added->rows.n_rows, shape.n_heads, shape.head_width, added->keys, NUMBER_F32,
        added->key_stride,  key->base,     stream->rows,     NUMBER_F32,  stream->sums_stride};
    head_product_launch(stream->cuda, product, added->max_rows);
    put(stream, added, c, stream->rows, stream->sums_stride, items->base);
}

static void put_keys(struct stream *stream, const struct area_key *key,
                     const struct new_items *added, const struct area_shape &shape,
                     const struct area_items *items)
{
    if (!key->is_dense) {
        put_maxima(stream, added, shape, items, items->keys, items->key_planes);
        return;
    }
    prepare_dense(stream, key, added, shape, items);
    area_key_task task = {};
    task.rows = added->rows;
    task.shape = shape;
    task.is_largest = key->is_largest;
    task.base = items->base;
    task.items = items->keys;
    if (key->has_deviation) {
        task.integral = items->integral;
        task.squares = items->squares;
    }
    task.w = key->is_largest ? key->base : key->deviation;
    task.constants = key->constants;
    task.keys = items->key_planes;
    task.out_type = NUMBER_F32;
    task.plane_rows = items->n_rows;
    area_keys_launch(stream->cuda, task, added->max_rows);
}

void items_append(struct stream *stream, const struct attention *attention,
                  const struct new_items *added, const struct area_items *items)
{
    struct area_shape shape = items_shape(attention);
    int c = shape.n_heads * shape.head_width;
    const struct area_key *key = attention->key;
    put(stream, added, c, added->values, added->value_stride, items->values);
    if (!key || key->is_largest)
        put(stream, added, c, added->keys, added->key_stride, items->keys);
    if (key)
        put_keys(stream, key, added, shape, items);
    if (has_value_planes(attention))
        put_maxima(stream, added, shape, items, items->values, items->value_planes);
}
