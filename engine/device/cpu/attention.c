/* The CPU backend's attention, by the scores identity of area attention: the products are those of
 * regular attention (queries with packed keys, coverage with packed values), and between them every
 * score row is replaced by the coverage of its items. Sums are float32; keys and values are that,
 * too, or bfloat16, which halves what attention reads.
 */
#include "device/cpu/attention.h"

#include <string.h>

#include "device/cpu/area_keys.h"
#include "device/cpu/area_steps.h"
#include "device/cpu/areas.h"

static void attend_head(struct stream *stream, const struct attention *attention,
                        const struct head_queries *queries, const struct head_memory *memory,
                        float *context, size_t context_stride)
{
    size_t d = attention->head_width, length = memory->length, lp = kernel_padded(length);
    if (!attention_is_plain(attention)) {
        cpu_areas_attend(stream, attention, queries, memory, context, context_stride);
        return;
    }
    cpu_attention_product(stream, attention->type, queries->n, length, d, queries->query,
                          queries->stride, memory->keys, stream->scores, lp);
    for (size_t row = 0; row < queries->n; row++) {
        float *scores = stream->scores + row * lp;
        size_t l = seen_by(queries, row, length);
        stream->kernels->area_coverage(l, &attention->area, scores, stream->area);
        memset(scores + l, 0, (lp - l) * sizeof(float));
        cpu_add_item_weights(queries, row, l, scores);
    }
    cpu_attention_product(stream, attention->type, queries->n, d, length, stream->scores, lp,
                          memory->values, context, context_stride);
}

static size_t query_block(size_t n_rows, size_t row)
{
    return n_rows - row < CPU_QUERY_BLOCK ? n_rows - row : CPU_QUERY_BLOCK;
}

static void attend_sentence(struct stream *stream, const struct attention *attention, bool causal,
                            size_t length, const float *qkv, float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    float *keys = stream->areas.keys, *values = stream->areas.values;
    struct head_memory memory = {.keys = keys, .values = values, .length = length};
    for (size_t offset = 0; offset < c; offset += d) {
        struct head_rows rows = {qkv + c + offset, qkv + 2 * c + offset, 3 * c, 3 * c};
        cpu_areas_pack(stream, attention, length, &rows, keys, values);
        for (size_t row = 0; row < length; row += CPU_QUERY_BLOCK) {
            struct head_queries queries = {
                .n = query_block(length, row),
                .query = qkv + row * 3 * c + offset,
                .stride = 3 * c,
                .for_keys_stride = 3 * c,
                .causal = causal,
                .seen = row + 1,
            };
            queries.for_keys = cpu_area_key_query(stream, attention->key, queries.n, queries.query,
                                                  &queries.for_keys_stride);
            attend_head(stream, attention, &queries, &memory, context + row * c + offset, c);
        }
    }
}

void cpu_attend(struct stream *stream, const struct attention *attention, bool causal,
                size_t n_sentences, const size_t *first, const float *qkv, float *context)
{
    size_t c = attention->n_heads * attention->head_width;
    for (size_t b = 0; b < n_sentences; b++)
        attend_sentence(stream, attention, causal, first[b + 1] - first[b], qkv + first[b] * 3 * c,
                        context + first[b] * c);
}

/* ---- One step -------------------------------------------------------------------------------- */

/* A cache row is the keys of all heads, then the values, each head padded with zeros to whole
 * KERNEL_PADs. A block of bf16 has two of these, so that neighbours may share one. */
static size_t heads_padded(const struct attention *attention)
{
    return kernel_cache_padded(attention->type,
                               attention->n_heads * kernel_padded(attention->head_width));
}

size_t cpu_cache_row_floats(const struct attention *attention)
{
    if (!attention_is_plain(attention))
        return cpu_areas_cache_row_floats(attention);
    return 2 * kernel_cache_floats(attention->type, heads_padded(attention));
}

/* The whole blocks that hold a head: n numbers, of which the head's begin at `begin`. */
struct head_blocks {
    size_t floats; /* in front of them */
    size_t n, begin;
};

static struct head_blocks blocks_of(const struct attention *attention, size_t head)
{
    enum compute_type type = attention->type;
    size_t first = head * kernel_padded(attention->head_width);
    size_t block = kernel_cache_padded(type, 1), begin = first % block;
    return (struct head_blocks){
        .floats = kernel_cache_floats(type, first - begin),
        .n = kernel_cache_padded(type, begin + attention->head_width),
        .begin = begin,
    };
}

/* Numbers first ... first + KERNEL_PAD - 1 of a row, of x[H,D]. */
static void copy_part(const struct attention *attention, const float *x, size_t first, float *part)
{
    size_t d = attention->head_width, head = first / kernel_padded(d);
    size_t i = first % kernel_padded(d), n = d - i < KERNEL_PAD ? d - i : KERNEL_PAD;
    if (head < attention->n_heads)
        memcpy(part, x + head * d + i, n * sizeof(*x));
}

/* x[H,D], keys or values. */
static void store_heads(struct stream *stream, const struct attention *attention, const float *x,
                        float *row)
{
    enum compute_type type = attention->type;
    size_t n = heads_padded(attention), block = kernel_cache_padded(type, 1);
    if (n == attention->n_heads * attention->head_width) {
        stream->kernels->store_row(type, n, x, row);
        return;
    }
    for (size_t first = 0; first < n; first += block) {
        float numbers[2 * KERNEL_PAD] = {0};
        for (size_t i = 0; i < block; i += KERNEL_PAD)
            copy_part(attention, x, first + i, numbers + i);
        stream->kernels->store_row(type, block, numbers, row + kernel_cache_floats(type, first));
    }
}

/* x[d] as number `begin` and the following of padded[n], between zeros. */
static const float *pad(size_t d, const float *x, size_t begin, size_t n, float *padded)
{
    if (d == n)
        return x;
    memset(padded, 0, n * sizeof(*x));
    memcpy(padded + begin, x, d * sizeof(*x));
    return padded;
}

/* Blocks may hold a part of a neighbour: the query has zeros there, and its values are left out. */
static void attend_step_head(struct stream *stream, const struct attention *attention,
                             const struct step_rows *rows, size_t r, size_t head,
                             const float *cache, const float *query, float *context)
{
    enum compute_type type = attention->type;
    const int32_t *path = rows->paths[r];
    size_t length = (size_t)rows->lengths[r], d = attention->head_width;
    size_t stride = cpu_cache_row_floats(attention);
    struct head_blocks blocks = blocks_of(attention, head);
    const float *keys = cache + blocks.floats, *values = keys + stride / 2;
    float *out = blocks.n == d ? context : stream->query + blocks.n;
    query = pad(d, query, blocks.begin, blocks.n, stream->query);
    stream->kernels->scores_rows(type, length, blocks.n, query, keys, path, stride, stream->scores);
    stream->kernels->area_coverage(length, &attention->area, stream->scores, stream->area);
    stream->kernels->context_rows(type, length, blocks.n, stream->scores, values, path, stride,
                                  out);
    if (out != context)
        memcpy(context, out + blocks.begin, d * sizeof(*context));
}

static void attend_step_row(struct stream *stream, const struct attention *attention,
                            const struct step_rows *rows, size_t r, float *cache, const float *qkv,
                            float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    size_t stride = cpu_cache_row_floats(attention);
    float *row = cache + (size_t)rows->paths[r][rows->lengths[r] - 1] * stride;
    store_heads(stream, attention, qkv + c, row);
    store_heads(stream, attention, qkv + 2 * c, row + stride / 2);
    for (size_t h = 0; h < attention->n_heads; h++)
        attend_step_head(stream, attention, rows, r, h, cache, qkv + h * d, context + h * d);
}

void cpu_attend_step(struct stream *stream, const struct attention *attention,
                     const struct step_rows *rows, float *cache, const float *qkv, float *context)
{
    size_t c = attention->n_heads * attention->head_width;
    for (size_t r = 0; r < rows->n_rows; r++) {
        size_t length = (size_t)rows->lengths[r];
        if (attention_is_plain(attention))
            attend_step_row(stream, attention, rows, r, cache, qkv + r * 3 * c, context + r * c);
        else
            cpu_areas_attend_step(stream, attention, rows->paths[r], length, cache, qkv + r * 3 * c,
                                  context + r * c);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Per head: keys, then values. */
static size_t head_floats(const struct attention *attention, size_t length)
{
    return cpu_areas_key_floats(attention, length) + cpu_areas_value_floats(attention, length);
}

size_t cpu_memory_floats(const struct attention *attention, size_t length)
{
    return attention->n_heads * head_floats(attention, length);
}

void cpu_store_memory(struct stream *stream, const struct attention *attention, size_t length,
                      const float *keys, size_t key_stride, const float *values,
                      size_t value_stride, float *memory)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    for (size_t offset = 0; offset < c; offset += d, memory += head_floats(attention, length)) {
        struct head_rows rows = {keys + offset, values + offset, key_stride, value_stride};
        cpu_areas_pack(stream, attention, length, &rows, memory,
                       memory + cpu_areas_key_floats(attention, length));
    }
}

static struct head_memory head_of(const struct attention *attention, size_t head, size_t length,
                                  const float *memory)
{
    const float *keys = memory + head * head_floats(attention, length);
    return (struct head_memory){
        .keys = keys,
        .values = keys + cpu_areas_key_floats(attention, length),
        .length = length,
    };
}

/* All heads of n queries of one sentence, from row `row` on; query[R,C]. */
static void attend_rows(struct stream *stream, const struct attention *attention, size_t row,
                        size_t n, const struct memory_rows *rows, const float *query,
                        float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d, stride = d;
    query += row * c;
    context += row * c;
    const float *for_keys =
        cpu_area_key_query(stream, attention->key, n * attention->n_heads, query, &stride);
    for (size_t h = 0; h < attention->n_heads; h++) {
        struct head_memory memory = head_of(attention, h, rows->length, rows->memory);
        struct head_queries queries = {.n = n,
                                       .query = query + h * d,
                                       .for_keys = for_keys + h * d,
                                       .stride = c,
                                       .for_keys_stride = c,
                                       .item_stride = rows->length};
        if (rows->item_weights)
            queries.item_weights = rows->item_weights + (row - rows->first_row) * rows->length;
        attend_head(stream, attention, &queries, &memory, context + h * d, c);
    }
}

void cpu_attend_memory(struct stream *stream, const struct attention *attention, size_t n_sentences,
                       const struct memory_rows *rows, const float *query, float *context)
{
    for (size_t b = 0; b < n_sentences; b++) {
        size_t end = rows[b].first_row + rows[b].n_rows;
        for (size_t row = rows[b].first_row; row < end; row += CPU_QUERY_BLOCK)
            attend_rows(stream, attention, row, query_block(end, row), &rows[b], query, context);
    }
}

void cpu_memory_weights(struct stream *stream, const struct attention *attention, size_t head,
                        size_t length, const float *memory, const float *query, float *weights)
{
    struct head_memory one = head_of(attention, head, length, memory);
    cpu_areas_weights(stream, attention, &one, query, weights);
}
