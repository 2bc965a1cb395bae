/* The CPU backend: weights packed once into panels, products and rows through the kernel table.
 *
 * Attention follows the scores identity of area attention: the products are those of regular
 * attention (queries with packed keys, coverage with packed values), and between them every score
 * row is replaced by the coverage of its items.
 */
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"

enum {
    QUERY_BLOCK = 32,   /* query rows whose scores are in scratch at one time */
    OUTPUT_BLOCK = 512, /* vocabulary columns, likewise */
};

struct cpu_device {
    struct device device; /* first: device_ops get a pointer to it */
    const struct kernels *kernels;
    char name[64];
};

struct weight {
    size_t n, k;
    struct arena arena;
    float *panels; /* [Np/16][K][16] */
    float *bias;   /* [Np] */
};

struct norm {
    size_t c;
    float *gain, *bias; /* owned, one block */
};

struct embedding {
    struct tensor table;
    float scale;
    float *positions; /* owned, [P,C] */
};

struct stream {
    const struct kernels *kernels;
    struct arena arena;
    float *keys, *values; /* of one head of one sentence, packed */
    float *scores;        /* [QUERY_BLOCK][Lp] */
    float *area;          /* scratch of area_coverage */
    float *query;         /* [2][Dp]: one head's query and its context */
    float *logits;        /* [rows][OUTPUT_BLOCK] */
};

static const struct kernels *kernels_of(const struct device *device)
{
    return ((const struct cpu_device *)device)->kernels;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void weight_close(struct weight *weight)
{
    if (!weight)
        return;
    arena_close(&weight->arena);
    mem_free(weight);
}

static void place_weight(struct weight *weight)
{
    size_t padded = kernel_padded(weight->n);
    weight->panels = arena_take(&weight->arena, padded * weight->k, sizeof(float));
    weight->bias = arena_take(&weight->arena, padded, sizeof(float));
}

static void scale_row(size_t n, float scale, float *row)
{
    for (size_t i = 0; i < n && scale != 1.0f; i++)
        row[i] *= scale;
}

/* Panel by panel, so that the float32 copy of a large matrix never exists. `first` counts columns
 * of the joined weight. */
static void pack_part(const struct weight_part *part, struct weight *weight, size_t first,
                      float *rows)
{
    size_t n = part->weight.shape[0], k = weight->k;
    for (size_t row = 0; row < n;) {
        size_t column = first + row, lane = column % KERNEL_PANEL;
        size_t count = KERNEL_PANEL - lane < n - row ? KERNEL_PANEL - lane : n - row;
        tensor_read(&part->weight, row * k, count * k, rows);
        scale_row(count * k, part->scale, rows);
        float *panel = weight->panels + column / KERNEL_PANEL * KERNEL_PANEL * k;
        if (count == KERNEL_PANEL) {
            kernels_pack(count, k, rows, k, panel);
        } else {
            for (size_t c = 0; c < count; c++)
                for (size_t i = 0; i < k; i++)
                    panel[i * KERNEL_PANEL + lane + c] = rows[c * k + i];
        }
        row += count;
    }
    if (part->bias.data) {
        tensor_read(&part->bias, 0, n, weight->bias + first);
        scale_row(n, part->scale, weight->bias + first);
    }
}

static int weight_open(struct device *device, const struct weight_part *parts, size_t n_parts,
                       struct weight **out)
{
    (void)device;
    struct weight *weight = mem_calloc(1, sizeof(*weight));
    if (!weight)
        return ACRE_ENOMEM;
    weight->k = parts[0].weight.shape[1];
    for (size_t i = 0; i < n_parts; i++)
        weight->n += parts[i].weight.shape[0];
    float *rows = mem_alloc(KERNEL_PANEL * weight->k * sizeof(*rows));
    place_weight(weight);
    if (!rows || arena_open(&weight->arena) != 0) {
        mem_free(rows);
        weight_close(weight);
        return ACRE_ENOMEM;
    }
    place_weight(weight);
    for (size_t i = 0, first = 0; i < n_parts; first += parts[i].weight.shape[0], i++)
        pack_part(&parts[i], weight, first, rows);
    mem_free(rows);
    *out = weight;
    return 0;
}

static void norm_close(struct norm *norm)
{
    if (norm)
        mem_free(norm->gain);
    mem_free(norm);
}

static int norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                     struct norm **out)
{
    (void)device;
    struct norm *norm = mem_calloc(1, sizeof(*norm));
    if (!norm)
        return ACRE_ENOMEM;
    norm->c = tensor_count(gain);
    norm->gain = mem_alloc(2 * norm->c * sizeof(float));
    if (!norm->gain) {
        norm_close(norm);
        return ACRE_ENOMEM;
    }
    norm->bias = norm->gain + norm->c;
    tensor_read(gain, 0, norm->c, norm->gain);
    tensor_read(bias, 0, norm->c, norm->bias);
    *out = norm;
    return 0;
}

static void embedding_close(struct embedding *embedding)
{
    if (embedding)
        mem_free(embedding->positions);
    mem_free(embedding);
}

/* Column c of the sines has the angle position / 10000^(2c / C), and so has the cosine C/2 on. */
static void fill_positions(size_t n_positions, size_t c, float *out)
{
    size_t n_sines = (c + 1) / 2;
    for (size_t i = 0; i < c; i++) {
        size_t pair = i < n_sines ? i : i - n_sines;
        double frequency = pow(10000.0, -2.0 * (double)pair / (double)c);
        for (size_t position = 0; position < n_positions; position++) {
            double angle = (double)position * frequency;
            out[position * c + i] = (float)(i < n_sines ? sin(angle) : cos(angle));
        }
    }
}

static int embedding_open(struct device *device, const struct tensor *table, float scale,
                          size_t n_positions, struct embedding **out)
{
    (void)device;
    size_t c = table->shape[1];
    struct embedding *embedding = mem_calloc(1, sizeof(*embedding));
    if (!embedding)
        return ACRE_ENOMEM;
    embedding->table = *table;
    embedding->scale = scale;
    embedding->positions = mem_alloc(n_positions * c * sizeof(float));
    if (!embedding->positions) {
        embedding_close(embedding);
        return ACRE_ENOMEM;
    }
    fill_positions(n_positions, c, embedding->positions);
    *out = embedding;
    return 0;
}

static float *device_alloc(struct device *device, size_t n_floats)
{
    (void)device;
    return mem_map(n_floats * sizeof(float));
}

static void device_free(struct device *device, float *memory, size_t n_floats)
{
    (void)device;
    mem_unmap(memory, n_floats * sizeof(float));
}

static void device_forget(struct device *device, float *part, size_t n_floats)
{
    (void)device;
    mem_forget(part, n_floats * sizeof(float));
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void stream_close(struct stream *stream)
{
    if (stream)
        arena_close(&stream->arena);
    mem_free(stream);
}

static void place_stream(struct stream *stream, const struct stream_limits *limits)
{
    size_t lp = kernel_padded(limits->max_memory), dp = kernel_padded(limits->max_head_width);
    struct arena *arena = &stream->arena;
    stream->keys = arena_take(arena, lp * dp, sizeof(float));
    stream->values = arena_take(arena, lp * dp, sizeof(float));
    stream->scores = arena_take(arena, QUERY_BLOCK * lp, sizeof(float));
    stream->area = arena_take(arena, area_scratch(lp), sizeof(float));
    stream->query = arena_take(arena, 2 * dp, sizeof(float));
    stream->logits = arena_take(arena, limits->max_rows * OUTPUT_BLOCK, sizeof(float));
}

static int stream_open(struct device *device, const struct stream_limits *limits,
                       struct stream **out)
{
    struct stream *stream = mem_calloc(1, sizeof(*stream));
    if (!stream)
        return ACRE_ENOMEM;
    stream->kernels = kernels_of(device);
    place_stream(stream, limits);
    if (arena_open(&stream->arena) != 0) {
        stream_close(stream);
        return ACRE_ENOMEM;
    }
    place_stream(stream, limits);
    *out = stream;
    return 0;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void embed(struct stream *stream, const struct embedding *embedding, size_t m,
                  const int32_t *ids, const int32_t *positions, float *out)
{
    (void)stream;
    size_t c = embedding->table.shape[1];
    for (size_t row = 0; row < m; row++, out += c) {
        const float *position = embedding->positions + (size_t)positions[row] * c;
        tensor_read(&embedding->table, (size_t)ids[row] * c, c, out);
        for (size_t i = 0; i < c; i++)
            out[i] = out[i] * embedding->scale + position[i];
    }
}

static void linear(struct stream *stream, const struct weight *weight, size_t m, const float *x,
                   enum kernel_activation activation, const float *residual, float *y)
{
    stream->kernels->linear(&(struct product){
        .m = m,
        .n = weight->n,
        .k = weight->k,
        .x = x,
        .x_stride = weight->k,
        .panels = weight->panels,
        .bias = weight->bias,
        .activation = activation,
        .residual = residual,
        .residual_stride = weight->n,
        .y = y,
        .y_stride = weight->n,
    });
}

static void layer_norm(struct stream *stream, const struct norm *norm, size_t m, const float *x,
                       float *y)
{
    stream->kernels->layer_norm(m, norm->c, x, norm->gain, norm->bias, 1e-5f, y);
}

/* The memory of one head: keys as panels of items, values as panels of columns. */
struct head_memory {
    const float *keys;   /* [Lp/16][D][16] */
    const float *values; /* [Dp/16][L][16] */
    size_t length;
};

/* context rows of `m` queries of one head. `seen` is what query 0 sees of the memory, each later
 * query one item more; pass causal = false where all see everything. */
static void attend_head(struct stream *stream, const struct attention *attention, size_t m,
                        const float *query, size_t query_stride, const struct head_memory *memory,
                        bool causal, size_t seen, float *context, size_t context_stride)
{
    const struct kernels *kernels = stream->kernels;
    size_t lp = kernel_padded(memory->length);
    kernels->linear(&(struct product){
        .m = m,
        .n = memory->length,
        .k = attention->head_width,
        .x = query,
        .x_stride = query_stride,
        .panels = memory->keys,
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
        .n = attention->head_width,
        .k = memory->length,
        .x = stream->scores,
        .x_stride = lp,
        .panels = memory->values,
        .y = context,
        .y_stride = context_stride,
    });
}

static void attend_sentence(struct stream *stream, const struct attention *attention, bool causal,
                            size_t length, const float *qkv, float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    struct head_memory memory = {stream->keys, stream->values, length};
    for (size_t offset = 0; offset < c; offset += d) {
        kernels_pack(length, d, qkv + c + offset, 3 * c, stream->keys);
        kernels_pack_transposed(d, length, qkv + 2 * c + offset, 3 * c, stream->values);
        for (size_t row = 0; row < length; row += QUERY_BLOCK) {
            size_t m = length - row < QUERY_BLOCK ? length - row : QUERY_BLOCK;
            attend_head(stream, attention, m, qkv + row * 3 * c + offset, 3 * c, &memory, causal,
                        row + 1, context + row * c + offset, c);
        }
    }
}

static void attend(struct stream *stream, const struct attention *attention, bool causal,
                   size_t n_sentences, const size_t *first, const float *qkv, float *context)
{
    size_t c = attention->n_heads * attention->head_width;
    for (size_t b = 0; b < n_sentences; b++)
        attend_sentence(stream, attention, causal, first[b + 1] - first[b], qkv + first[b] * 3 * c,
                        context + first[b] * c);
}

/* A cache row is the keys of all heads, then the values, each head padded to Dp with zeros (the
 * memory is zeroed and the padding never written). */
static size_t cache_row_floats(const struct attention *attention)
{
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
    size_t stride = cache_row_floats(attention);
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

static void attend_step(struct stream *stream, const struct attention *attention,
                        const struct step_rows *rows, float *cache, const float *qkv,
                        float *context)
{
    size_t c = attention->n_heads * attention->head_width;
    for (size_t r = 0; r < rows->n_rows; r++)
        attend_step_row(stream, attention, rows->paths[r], (size_t)rows->lengths[r], cache,
                        qkv + r * 3 * c, context + r * c);
}

/* Per head: keys [Lp * D], then values [Dp * L]. */
static size_t head_floats(const struct attention *attention, size_t length)
{
    size_t d = attention->head_width;
    return kernel_padded(length) * d + kernel_padded(d) * length;
}

static size_t memory_floats(const struct attention *attention, size_t length)
{
    return attention->n_heads * head_floats(attention, length);
}

static void store_memory(struct stream *stream, const struct attention *attention, size_t length,
                         const float *keys_values, float *memory)
{
    (void)stream;
    size_t d = attention->head_width, c = attention->n_heads * d;
    for (size_t offset = 0; offset < c; offset += d, memory += head_floats(attention, length)) {
        kernels_pack(length, d, keys_values + offset, 2 * c, memory);
        kernels_pack_transposed(d, length, keys_values + c + offset, 2 * c,
                                memory + kernel_padded(length) * d);
    }
}

static void attend_memory(struct stream *stream, const struct attention *attention,
                          size_t n_sentences, const struct memory_rows *rows, const float *query,
                          float *context)
{
    size_t d = attention->head_width, c = attention->n_heads * d;
    for (size_t b = 0; b < n_sentences; b++) {
        size_t length = rows[b].length, end = rows[b].first_row + rows[b].n_rows;
        const float *head = rows[b].memory;
        for (size_t offset = 0; offset < c; offset += d, head += head_floats(attention, length)) {
            struct head_memory memory = {head, head + kernel_padded(length) * d, length};
            for (size_t row = rows[b].first_row; row < end; row += QUERY_BLOCK) {
                size_t m = end - row < QUERY_BLOCK ? end - row : QUERY_BLOCK;
                attend_head(stream, attention, m, query + row * c + offset, c, &memory, false, 0,
                            context + row * c + offset, c);
            }
        }
    }
}

/* Takes the ids that may not be chosen out of the softmax. */
static void mask_logits(size_t n, size_t first_id, const uint32_t *allowed, float *logits)
{
    for (size_t i = 0; i < n; i++)
        if (!(allowed[(first_id + i) / 32] >> ((first_id + i) % 32) & 1))
            logits[i] = -INFINITY;
}

static void search_output(struct stream *stream, const struct weight *output, size_t m,
                          const float *x, struct logit_scan *scans)
{
    for (size_t column = 0; column < output->n; column += OUTPUT_BLOCK) {
        size_t n = output->n - column < OUTPUT_BLOCK ? output->n - column : OUTPUT_BLOCK;
        stream->kernels->linear(&(struct product){
            .m = m,
            .n = n,
            .k = output->k,
            .x = x,
            .x_stride = output->k,
            .panels = output->panels + column * output->k,
            .bias = output->bias + column,
            .y = stream->logits,
            .y_stride = OUTPUT_BLOCK,
        });
        for (size_t row = 0; row < m; row++) {
            float *logits = stream->logits + row * OUTPUT_BLOCK;
            if (scans[row].renormalize && scans[row].allowed)
                mask_logits(n, column, scans[row].allowed, logits);
            stream->kernels->scan_logits(n, (int32_t)column, logits, &scans[row]);
        }
    }
}

static void cpu_close(struct device *device)
{
    mem_free(device);
}

int device_cpu_open(enum cpu_level level, struct device **out, struct acre_err *err)
{
    static const struct device_ops ops = {
        .close = cpu_close,
        .weight_open = weight_open,
        .norm_open = norm_open,
        .embedding_open = embedding_open,
        .weight_close = weight_close,
        .norm_close = norm_close,
        .embedding_close = embedding_close,
        .stream_open = stream_open,
        .stream_close = stream_close,
        .alloc = device_alloc,
        .free = device_free,
        .forget = device_forget,
        .cache_row_floats = cache_row_floats,
        .memory_floats = memory_floats,
        .embed = embed,
        .linear = linear,
        .layer_norm = layer_norm,
        .attend = attend,
        .attend_step = attend_step,
        .store_memory = store_memory,
        .attend_memory = attend_memory,
        .search_output = search_output,
    };
    struct cpu_device *cpu = mem_calloc(1, sizeof(*cpu));
    if (!cpu)
        return err_set(err, ACRE_ENOMEM, "no memory for the CPU device");
    cpu->kernels = kernels_find(level);
    snprintf(cpu->name, sizeof(cpu->name), "cpu %s f32", cpu->kernels->name);
    cpu->device.ops = &ops;
    cpu->device.name = cpu->name;
    *out = &cpu->device;
    return 0;
}
