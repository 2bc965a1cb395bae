/* The CPU backend's attention, by the scores identity of area attention: the products are those of
 * regular attention (queries with packed keys, coverage with packed values), and between them every
 * score row is replaced by the coverage of its items. All of it is float32.
 */
#include "device/cpu.h"

#include <string.h>

/* context rows of `m` queries of one head. `seen` is what query 0 sees of the memory, each later
 * query one item more; pass causal = false where all see everything. */
static void attend_head(struct stream *stream, const struct attention *attention, size_t m,
                        const float *query, size_t query_stride, const struct head_memory *memory,
                        bool causal, size_t seen, float *context, size_t context_stride)
{
    const struct kernels *kernels = stream->kernels;
    size_t lp = kernel_padded(memory->length);
    if (!cpu_is_plain(attention)) {
        cpu_areas_attend(stream, attention, m, query, query_stride, memory, causal, seen, context,
                         context_stride);
        return;
    }
    kernels->linear(&(struct product){
        .m = m,
        .x = query,
        .x_stride = query_stride * sizeof(float),
        .w = {.n = memory->length, .k = attention->head_width, .panels = memory->keys},
        .y = stream->scores,
        .y_stride = lp,
    });
    for (size_t row = 0; row < m; row++) {
        float *scores = stream->scores + row * lp;
        size_t l = causal ? seen + row : memory->length;
        kernels->area_coverage(l, &attention->area, scores, stream->area);
        memset(scores + l, 0, (lp - l) * sizeof(float));
    }
    kernels->linear(&(struct product){
        .m = m,
        .x = stream->scores,
        .x_stride = lp * sizeof(float),
        .w = {.n = attention->head_width, .k = memory->length, .panels = memory->values},
        .y = context,
        .y_stride = context_stride,
    });
}

static void attend_sentence(struct stream *stream, const struct attention *attention, bool causal,
                            size_t length, const float *qkv, float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    float *keys = stream->areas.keys, *values = stream->areas.values;
    struct head_memory memory = {keys, values, length};
    for (size_t offset = 0; offset < c; offset += d) {
        cpu_areas_pack(stream, attention, length, qkv + c + offset, qkv + 2 * c + offset, 3 * c,
                       keys, values);
        for (size_t row = 0; row < length; row += CPU_QUERY_BLOCK) {
            size_t m = length - row < CPU_QUERY_BLOCK ? length - row : CPU_QUERY_BLOCK;
            attend_head(stream, attention, m, qkv + row * 3 * c + offset, 3 * c, &memory, causal,
                        row + 1, context + row * c + offset, c);
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

/* A cache row is the keys of all heads, then the values, each head padded to Dp with zeros (the
 * memory is zeroed and the padding never written). */
size_t cpu_cache_row_floats(const struct attention *attention)
{
    if (!cpu_is_plain(attention))
        return cpu_areas_cache_row_floats(attention);
    return 2 * attention->n_heads * kernel_padded(attention->head_width);
}

static void store_step(const struct attention *attention, const float *keys, const float *values,
                       float *row)
{
    size_t d = attention->head_width, dp = kernel_padded(d);
    for (size_t h = 0; h < attention->n_heads; h++) {
        memcpy(row + h * dp, keys + h * d, d * sizeof(float));
        memcpy(row + (attention->n_heads + h) * dp, values + h * d, d * sizeof(float));
    }
}

static void attend_step_row(struct stream *stream, const struct attention *attention,
                            const int32_t *path, size_t length, float *cache, const float *qkv,
                            float *context)
{
    size_t d = attention->head_width, dp = kernel_padded(d), c = attention->n_heads * d;
    size_t stride = cpu_cache_row_floats(attention);
    float *query = stream->query, *out = stream->query + dp;
    store_step(attention, qkv + c, qkv + 2 * c, cache + (size_t)path[length - 1] * stride);
    memset(query, 0, dp * sizeof(float));
    for (size_t h = 0; h < attention->n_heads; h++) {
        memcpy(query, qkv + h * d, d * sizeof(float));
        stream->kernels->scores_rows(length, dp, query, cache + h * dp, path, stride,
                                     stream->scores);
        stream->kernels->area_coverage(length, &attention->area, stream->scores, stream->area);
        stream->kernels->context_rows(length, dp, stream->scores,
                                      cache + (attention->n_heads + h) * dp, path, stride, out);
        memcpy(context + h * d, out, d * sizeof(float));
    }
}

void cpu_attend_step(struct stream *stream, const struct attention *attention,
                     const struct step_rows *rows, float *cache, const float *qkv, float *context)
{
    size_t c = attention->n_heads * attention->head_width;
    for (size_t r = 0; r < rows->n_rows; r++) {
        size_t length = (size_t)rows->lengths[r];
        if (cpu_is_plain(attention))
            attend_step_row(stream, attention, rows->paths[r], length, cache, qkv + r * 3 * c,
                            context + r * c);
        else
            cpu_areas_attend_step(stream, attention, rows->paths[r], length, cache, qkv + r * 3 * c,
                                  context + r * c);
    }
}

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
                      const float *keys, const float *values, size_t stride, float *memory)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    for (size_t offset = 0; offset < c; offset += d, memory += head_floats(attention, length))
        cpu_areas_pack(stream, attention, length, keys + offset, values + offset, stride, memory,
                       memory + cpu_areas_key_floats(attention, length));
}

static struct head_memory head_of(const struct attention *attention, size_t head, size_t length,
                                  const float *memory)
{
    const float *keys = memory + head * head_floats(attention, length);
    return (struct head_memory){keys, keys + cpu_areas_key_floats(attention, length), length};
}

void cpu_attend_memory(struct stream *stream, const struct attention *attention, size_t n_sentences,
                       const struct memory_rows *rows, const float *query, float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    for (size_t b = 0; b < n_sentences; b++) {
        size_t end = rows[b].first_row + rows[b].n_rows;
        for (size_t h = 0; h < attention->n_heads; h++) {
            struct head_memory memory = head_of(attention, h, rows[b].length, rows[b].memory);
            for (size_t row = rows[b].first_row; row < end; row += CPU_QUERY_BLOCK) {
                size_t m = end - row < CPU_QUERY_BLOCK ? end - row : CPU_QUERY_BLOCK;
                attend_head(stream, attention, m, query + row * c + h * d, c, &memory, false, 0,
                            context + row * c + h * d, c);
            }
        }
    }
}

void cpu_memory_weights(struct stream *stream, const struct attention *attention, size_t head,
                        size_t length, const float *memory, const float *query, float *weights)
{
    struct head_memory one = head_of(attention, head, length, memory);
    cpu_areas_weights(stream, attention, &one, query, weights);
}
