#include "device/cuda/attention.h"

#include "device/cuda/attend.h"
#include "device/cuda/attend_areas.h"
#include "device/cuda/wait.h"

static int numbers_of(const struct attention *attention)
{
    return (int)(attention->n_heads * attention->head_width);
}

/* ---- Who the rows are ------------------------------------------------------------------------ */

/* Whole sentences, whose items are kept where they stand or, with bases, in memories. */
static struct area_rows sentence_rows(const struct rows *rows, bool has_bases)
{
    struct area_rows of = {};
    of.n_rows = rows->table.n_rows;
    of.sentences = rows->table.sentences;
    of.first = rows->table.first;
    of.n_sentences = rows->table.n_groups;
    of.bases = has_bases ? rows->table.bases : NULL;
    return of;
}

static struct area_rows step_rows(const struct rows *rows, const struct store *store)
{
    struct area_rows of = {};
    of.n_rows = rows->table.n_rows;
    of.paths = store->paths;
    of.lengths = rows->lengths;
    of.path_rows = rows->path_rows;
    of.path_stride = (int)store->shape.positions;
    return of;
}

/* ---- Plain ----------------------------------------------------------------------------------- */

static struct attend_task plain_task(const struct attention *attention, const struct rows *rows)
{
    struct attend_task task = {};
    task.n_heads = (int)attention->n_heads;
    task.head_width = (int)attention->head_width;
    task.area_width = attention->area.width;
    task.is_mean = attention->area.value == AREA_VALUE_MEAN;
    task.n_rows = rows->table.n_rows;
    return task;
}

static void put_rows(struct stream *stream, const struct rows *rows, enum number_type type,
                     const struct buffer *query, struct buffer *context, struct attend_task *task)
{
    task->query = buffer_as(stream, query, rows, type);
    task->query_stride = query->stride;
    task->context = buffer_put_as(stream, context, type);
    task->context_stride = context->stride;
}

static void attend_plainly(struct stream *stream, const struct attention *attention, bool causal,
                           const struct rows *rows, const struct buffer *qkv,
                           struct buffer *context)
{
    enum number_type type = items_type(stream->device, attention);
    struct attend_task task = plain_task(attention, rows);
    put_rows(stream, rows, type, qkv, context, &task);
    task.items_of = ITEMS_OF_SENTENCE;
    task.max_length = rows->longest;
    task.sentences = rows->table.sentences;
    task.first = rows->table.first;
    task.is_causal = causal;
    task.tiles = rows->table.tiles;
    task.n_tiles = rows->table.n_tiles;
    attend_sentences_launch(stream->cuda, type, task, rows->most_rows, rows->most_tiles,
                            stream->device->shared_bytes);
}

static void step_plainly(struct stream *stream, const struct attention *attention, size_t layer,
                         const struct rows *rows, struct store *store, const struct buffer *qkv,
                         struct buffer *context)
{
    enum number_type type = items_type(stream->device, attention);
    struct attend_task task = plain_task(attention, rows);
    put_rows(stream, rows, type, qkv, context, &task);
    task.items_of = ITEMS_OF_STEP;
    task.max_length = rows->longest_path;
    task.items = store->caches[layer].both;
    task.paths = store->paths;
    task.path_rows = rows->path_rows;
    task.path_stride = (int)store->shape.positions;
    task.lengths = rows->lengths;
    attend_step_launch(stream->cuda, type, task, rows->most_rows);
}

static size_t slot_stride(const struct attention *attention, const struct store *store)
{
    return store->shape.positions * 2 * (size_t)numbers_of(attention);
}

static void remember_plainly(struct stream *stream, const struct attention *attention, size_t layer,
                             const struct rows *rows, struct store *store,
                             const struct buffer *keys, const struct buffer *values)
{
    enum number_type type = items_type(stream->device, attention);
    size_t number = type == NUMBER_F32 ? 4 : 2, c = (size_t)numbers_of(attention);
    struct store_task task = {};
    task.keys = buffer_as(stream, keys, rows, type);
    task.values =
        values ? buffer_as(stream, values, rows, type) : (const char *)task.keys + c * number;
    task.c = (int)c;
    task.key_stride = keys->stride;
    task.value_stride = values ? values->stride : keys->stride;
    task.memory = store->memories[layer].both;
    task.slot_stride = slot_stride(attention, store);
    task.sentences = rows->table.sentences;
    task.first = rows->table.first;
    task.slots = rows->table.group_slots;
    task.n_rows = rows->table.n_rows;
    store_memory_launch(stream->cuda, type, task, rows->most_rows);
}

static void recall_plainly(struct stream *stream, const struct attention *attention, size_t layer,
                           const struct rows *rows, const struct store *store,
                           const struct buffer *query, struct buffer *context)
{
    enum number_type type = items_type(stream->device, attention);
    struct attend_task task = plain_task(attention, rows);
    put_rows(stream, rows, type, query, context, &task);
    task.items_of = ITEMS_OF_MEMORY;
    task.max_length = rows->longest_source;
    task.items = store->memories[layer].both;
    task.slot_stride = slot_stride(attention, store);
    task.lengths = store->lengths;
    task.slots = rows->table.groups;
    task.n_groups = rows->table.n_groups;
    task.looks = store_looks(store, rows, layer, attention->n_heads);
    attend_memory_launch(stream->cuda, type, task, rows->most_groups, rows->most_group_rows);
}

/* ---- Area by area ---------------------------------------------------------------------------- */

static struct attend_areas_task areas_task(const struct attention *attention,
                                           const struct area_items *items)
{
    struct attend_areas_task task = {};
    size_t c = (size_t)numbers_of(attention);
    task.shape = items_shape(attention);
    task.value = attention->area.value;
    task.top_k = attention->area.top_k;
    task.sigmoid = attention->area.sigmoid;
    task.has_key_planes = items->key_planes && attention->key;
    task.has_value_planes = attention->area.value == AREA_VALUE_MAX;
    task.keys = task.has_key_planes ? items->key_planes : items->keys;
    task.values = task.has_value_planes ? items->value_planes : items->values;
    task.key_stride = task.value_stride = c;
    task.plane_rows = items->n_rows;
    return task;
}

/* Keys with dense layers keep hidden units: the query is multiplied with the second layer. */
static void put_query(struct stream *stream, const struct attention *attention,
                      const struct rows *rows, const struct buffer *query,
                      struct attend_areas_task *task)
{
    const struct area_key *key = attention->key;
    task->query = task->turned = buffer_as(stream, query, rows, NUMBER_F32);
    task->query_stride = task->turned_stride = query->stride;
    if (!key || !key->is_dense)
        return;
    head_product_task product = {rows->table.n_rows,
                                 (int)attention->n_heads,
                                 (int)attention->head_width,
                                 task->query,
                                 NUMBER_F32,
                                 query->stride,
                                 key->turn,
                                 stream->turned,
                                 NUMBER_F32,
                                 stream->sums_stride};
    head_product_launch(stream->cuda, product, rows->most_rows);
    task->turned = stream->turned;
    task->turned_stride = stream->sums_stride;
    task->query_bias = attention->area.sigmoid ? key->query_bias : NULL;
}

static void attend_areas(struct stream *stream, const struct rows *rows, struct buffer *context,
                         struct attend_areas_task *task)
{
    task->context = buffer_put_as(stream, context, NUMBER_F32);
    task->context_stride = context->stride;
    attend_areas_launch(stream->cuda, NUMBER_F32, *task, rows->most_rows);
}

static const float *floats_of(struct stream *stream, const struct buffer *buffer,
                              const struct rows *rows)
{
    return static_cast<const float *>(buffer_as(stream, buffer, rows, NUMBER_F32));
}

static struct new_items new_items(const struct rows *rows, const struct area_rows &of,
                                  const float *keys, const float *values, int stride)
{
    return {of, keys, values, stride, stride, rows->most_rows, rows->most_groups, rows->longest};
}

static void attend_by_areas(struct stream *stream, const struct attention *attention, bool causal,
                            const struct rows *rows, const struct buffer *qkv,
                            struct buffer *context)
{
    int c = numbers_of(attention);
    const float *numbers = floats_of(stream, qkv, rows);
    struct area_rows of = sentence_rows(rows, false);
    struct new_items added = new_items(rows, of, numbers + c, numbers + 2 * c, qkv->stride);
    items_append(stream, attention, &added, &stream->areas);
    struct attend_areas_task task = areas_task(attention, &stream->areas);
    put_query(stream, attention, rows, qkv, &task);
    task.rows = of;
    task.is_causal = causal;
    task.max_length = rows->longest;
    attend_areas(stream, rows, context, &task);
}

static void step_by_areas(struct stream *stream, const struct attention *attention, size_t layer,
                          const struct rows *rows, struct store *store, const struct buffer *qkv,
                          struct buffer *context)
{
    int c = numbers_of(attention);
    const float *numbers = floats_of(stream, qkv, rows);
    struct area_rows of = step_rows(rows, store);
    struct new_items added = new_items(rows, of, numbers + c, numbers + 2 * c, qkv->stride);
    items_append(stream, attention, &added, &store->caches[layer]);
    struct attend_areas_task task = areas_task(attention, &store->caches[layer]);
    put_query(stream, attention, rows, qkv, &task);
    task.rows = of;
    task.max_length = rows->longest_path;
    attend_areas(stream, rows, context, &task);
}

static void remember_by_areas(struct stream *stream, const struct attention *attention,
                              size_t layer, const struct rows *rows, struct store *store,
                              const struct buffer *keys, const struct buffer *values)
{
    const float *numbers = floats_of(stream, keys, rows);
    const float *of_values =
        values ? floats_of(stream, values, rows) : numbers + numbers_of(attention);
    struct new_items added =
        new_items(rows, sentence_rows(rows, true), numbers, of_values, keys->stride);
    added.value_stride = values ? values->stride : keys->stride;
    items_append(stream, attention, &added, &store->memories[layer]);
}

static struct attend_areas_task memory_task(struct stream *stream,
                                            const struct attention *attention, size_t layer,
                                            const struct rows *rows, const struct store *store,
                                            const struct buffer *query)
{
    struct attend_areas_task task = areas_task(attention, &store->memories[layer]);
    put_query(stream, attention, rows, query, &task);
    task.rows.n_rows = rows->table.n_rows;
    task.slots = rows->table.slots;
    task.lengths = store->lengths;
    task.slot_rows = store->shape.positions;
    task.max_length = rows->longest_source;
    return task;
}

static void recall_by_areas(struct stream *stream, const struct attention *attention, size_t layer,
                            const struct rows *rows, const struct store *store,
                            const struct buffer *query, struct buffer *context)
{
    struct attend_areas_task task = memory_task(stream, attention, layer, rows, store, query);
    task.looks = store_looks(store, rows, layer, attention->n_heads);
    attend_areas(stream, rows, context, &task);
}

/* ---- Operations ------------------------------------------------------------------------------ */

void cuda_attend(struct stream *stream, const struct attention *attention, bool causal,
                 const struct rows *rows, const struct buffer *qkv, struct buffer *context)
{
    if (attention_is_plain(attention))
        attend_plainly(stream, attention, causal, rows, qkv, context);
    else
        attend_by_areas(stream, attention, causal, rows, qkv, context);
}

void cuda_attend_step(struct stream *stream, const struct attention *attention, size_t layer,
                      const struct rows *rows, struct store *store, const struct buffer *qkv,
                      struct buffer *context)
{
    if (attention_is_plain(attention))
        step_plainly(stream, attention, layer, rows, store, qkv, context);
    else
        step_by_areas(stream, attention, layer, rows, store, qkv, context);
}

void cuda_store_memory(struct stream *stream, const struct attention *attention, size_t layer,
                       const struct rows *rows, struct store *store, const struct buffer *keys,
                       const struct buffer *values)
{
    if (attention_is_plain(attention))
        remember_plainly(stream, attention, layer, rows, store, keys, values);
    else
        remember_by_areas(stream, attention, layer, rows, store, keys, values);
}

void cuda_attend_memory(struct stream *stream, const struct attention *attention, size_t layer,
                        const struct rows *rows, struct store *store, const struct buffer *query,
                        struct buffer *context)
{
    if (attention_is_plain(attention))
        recall_plainly(stream, attention, layer, rows, store, query, context);
    else
        recall_by_areas(stream, attention, layer, rows, store, query, context);
}

/* Plain attention's keys stand beside its values, and are of its type. */
static struct attend_areas_task
plain_weights_task(struct stream *stream, const struct attention *attention, size_t layer,
                   const struct rows *rows, const struct store *store, const struct buffer *query)
{
    enum number_type type = items_type(stream->device, attention);
    size_t number = type == NUMBER_F32 ? 4 : 2, c = (size_t)numbers_of(attention);
    struct attend_areas_task task = memory_task(stream, attention, layer, rows, store, query);
    task.query = task.turned = buffer_as(stream, query, rows, type);
    task.keys = store->memories[layer].both;
    task.values = (const char *)task.keys + c * number;
    task.key_stride = task.value_stride = 2 * c;
    return task;
}

/* A launch for one row; its context goes into scratch. */
void cuda_memory_weights(struct stream *stream, const struct attention *attention, size_t layer,
                         size_t head, const struct rows *rows, const struct store *store,
                         size_t row, const struct buffer *query, float *weights)
{
    cuda_use(stream->device);
    bool is_plain = attention_is_plain(attention);
    enum number_type type = is_plain ? items_type(stream->device, attention) : NUMBER_F32;
    struct attend_areas_task task =
        is_plain ? plain_weights_task(stream, attention, layer, rows, store, query)
                 : memory_task(stream, attention, layer, rows, store, query);
    size_t number = type == NUMBER_F32 ? 4 : 2;
    task.query = (const char *)task.query + row * (size_t)task.query_stride * number;
    task.turned = (const char *)task.turned + row * (size_t)task.turned_stride * number;
    task.slots += row;
    task.rows.n_rows = stream->one;
    task.weights = stream->weights;
    task.weights_head = (int)head;
    task.context = stream->sums;
    task.context_stride = stream->sums_stride;
    attend_areas_launch(stream->cuda, type, task, 1);
    int32_t slot = 0, length = 0;
    if (gpu_wait(stream->device->ordinal, stream->cuda) != cudaSuccess)
        return; /* the next poll tells */
    cudaMemcpy(&slot, task.slots, sizeof(slot), cudaMemcpyDeviceToHost);
    cudaMemcpy(&length, store->lengths + slot, sizeof(length), cudaMemcpyDeviceToHost);
    cudaMemcpy(weights, stream->weights,
               area_planes(&attention->area) * (size_t)length * sizeof(*weights),
               cudaMemcpyDeviceToHost);
}
