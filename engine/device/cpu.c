/* The CPU backend: products and rows through the kernel table. Weights are in cpu_weights.c,
 * attention is in cpu_attention.c. */
#include "device/cpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

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

static void place_stream(struct stream *stream, const struct stream_limits *limits,
                         size_t row_bytes)
{
    size_t lp = kernel_padded(limits->max_memory);
    size_t dp = kernel_cache_padded(KERNEL_BF16, limits->max_head_width);
    size_t planes = limits->max_planes, widest = planes * lp > dp ? planes * lp : dp;
    struct arena *arena = &stream->arena;
    stream->scores = arena_take(arena, CPU_QUERY_BLOCK * planes * lp + KERNEL_PAD, sizeof(float));
    stream->area = arena_take(arena, area_scratch(lp), sizeof(float));
    stream->query = arena_take(arena, 2 * dp, sizeof(float));
    stream->logits = arena_take(arena, CPU_ROW_BLOCK * CPU_OUTPUT_BLOCK, sizeof(float));
    stream->rows = arena_take(arena, CPU_ROW_BLOCK, row_bytes);
    stream->row_scales = arena_take(arena, CPU_ROW_BLOCK, sizeof(float));
    stream->queries =
        arena_take(arena, CPU_QUERY_BLOCK, stream->kernels->row_bytes(KERNEL_BF16, widest));
    cpu_areas_place(&stream->areas, arena, limits);
}

static int stream_open(struct device *device, const struct stream_limits *limits,
                       struct stream **out)
{
    const struct kernels *kernels = cpu_device_of(device)->kernels;
    size_t row_bytes = 0; /* of the type that takes most: models of any type share streams' size */
    for (int type = 0; type < KERNEL_TYPES; type++) {
        size_t bytes = kernels->row_bytes((enum kernel_type)type, limits->max_width);
        row_bytes = bytes > row_bytes ? bytes : row_bytes;
    }
    struct stream *stream = mem_calloc(1, sizeof(*stream));
    if (!stream)
        return ACRE_ENOMEM;
    stream->kernels = kernels;
    place_stream(stream, limits, row_bytes);
    if (arena_open(&stream->arena) != 0) {
        stream_close(stream);
        return ACRE_ENOMEM;
    }
    place_stream(stream, limits, row_bytes);
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
        tensor_read(&embedding->table, (size_t)ids[row] * c, c, out);
        for (size_t i = 0; i < c; i++)
            out[i] *= embedding->scale;
        if (!embedding->positions)
            continue;
        const float *position = embedding->positions + (size_t)positions[row] * c;
        for (size_t i = 0; i < c; i++)
            out[i] += position[i];
    }
}

struct product cpu_product(struct stream *stream, const struct packed *w, size_t m, const float *x,
                           size_t x_stride)
{
    const struct kernels *kernels = stream->kernels;
    struct product product = {.m = m, .x = x, .x_stride = x_stride * sizeof(*x), .w = *w};
    if (w->type != KERNEL_F32) {
        kernels->pack_rows(w->type, m, w->k, x, x_stride, stream->rows, stream->row_scales);
        product.x = stream->rows;
        product.x_stride = kernels->row_bytes(w->type, w->k);
        product.x_scales = stream->row_scales;
    }
    return product;
}

static const void *panels_of(const struct weight *weight)
{
    return weight ? weight->packed.panels : NULL;
}

static void linear(struct stream *stream, const struct weight *weight, size_t m, const float *x,
                   enum kernel_activation activation, const float *residual, float *y)
{
    const struct packed *w = &weight->packed;
    size_t n = w->n, k = w->k;
    for (size_t row = 0; row < m; row += CPU_ROW_BLOCK) {
        struct product product = cpu_product(stream, w, cpu_row_block(m, row), x + row * k, k);
        product.next = panels_of(weight->next);
        product.activation = activation;
        product.residual = residual ? residual + row * n : NULL;
        product.residual_stride = n;
        product.y = y + row * n;
        product.y_stride = n;
        stream->kernels->linear(&product);
    }
}

static void gather(struct stream *stream, size_t m, size_t n, const float *const *rows,
                   size_t offset, float *out)
{
    (void)stream;
    for (size_t row = 0; row < m; row++)
        memcpy(out + row * n, rows[row] + offset, n * sizeof(*out));
}

static void scatter(struct stream *stream, size_t m, size_t n, const float *in, float *const *rows,
                    size_t offset)
{
    (void)stream;
    for (size_t row = 0; row < m; row++)
        memcpy(rows[row] + offset, in + row * n, n * sizeof(*in));
}

static void lstm_cell(struct stream *stream, size_t m, size_t c, const float *gates,
                      const float *const *before, float *const *after, size_t offset, float *hidden)
{
    for (size_t row = 0; row < m; row++) {
        float *state = after[row] + offset;
        stream->kernels->lstm_cell(c, gates + row * 4 * c, before[row] + offset + c, state + c,
                                   state);
        memcpy(hidden + row * c, state, c * sizeof(*hidden));
    }
}

static void layer_norm(struct stream *stream, const struct norm *norm, size_t m, const float *x,
                       float *y)
{
    stream->kernels->layer_norm(m, norm->c, x, norm->gain, norm->bias, 1e-5f, y);
}

/* Takes the ids that may not be chosen out of the softmax. */
static void mask_logits(size_t n, size_t first_id, const uint32_t *allowed, float *logits)
{
    for (size_t i = 0; i < n; i++)
        if (!(allowed[(first_id + i) / 32] >> ((first_id + i) % 32) & 1))
            logits[i] = -INFINITY;
}

/* The scans of one block of rows: x is packed once for all columns. */
static void search_rows(struct stream *stream, const struct weight *output, size_t m,
                        const float *x, struct logit_scan *scans)
{
    struct product product = cpu_product(stream, &output->packed, m, x, output->packed.k);
    product.y = stream->logits;
    product.y_stride = CPU_OUTPUT_BLOCK;
    for (size_t column = 0; column < output->packed.n; column += CPU_OUTPUT_BLOCK) {
        size_t left = output->packed.n - column;
        size_t n = left < CPU_OUTPUT_BLOCK ? left : CPU_OUTPUT_BLOCK;
        product.w = packed_columns(&output->packed, column, n);
        product.next = n == left ? panels_of(output->next) : NULL;
        stream->kernels->linear(&product);
        for (size_t row = 0; row < m; row++) {
            float *logits = stream->logits + row * CPU_OUTPUT_BLOCK;
            if (scans[row].renormalize && scans[row].allowed)
                mask_logits(n, column, scans[row].allowed, logits);
            stream->kernels->scan_logits(n, (int32_t)column, logits, &scans[row]);
        }
    }
}

static void search_output(struct stream *stream, const struct weight *output, size_t m,
                          const float *x, struct logit_scan *scans)
{
    for (size_t row = 0; row < m; row += CPU_ROW_BLOCK)
        search_rows(stream, output, cpu_row_block(m, row), x + row * output->packed.k, scans + row);
}

static void cpu_close(struct device *device)
{
    mem_free(device);
}

int device_cpu_open(enum cpu_level level, struct device **out, struct acre_err *err)
{
    static const struct device_ops ops = {
        .close = cpu_close,
        .weight_open = cpu_weight_open,
        .norm_open = cpu_norm_open,
        .embedding_open = cpu_embedding_open,
        .area_key_open = cpu_area_key_open,
        .weight_close = cpu_weight_close,
        .weight_follow = cpu_weight_follow,
        .norm_close = cpu_norm_close,
        .embedding_close = cpu_embedding_close,
        .area_key_close = cpu_area_key_close,
        .stream_open = stream_open,
        .stream_close = stream_close,
        .alloc = device_alloc,
        .free = device_free,
        .forget = device_forget,
        .cache_row_floats = cpu_cache_row_floats,
        .memory_floats = cpu_memory_floats,
        .embed = embed,
        .linear = linear,
        .gather = gather,
        .scatter = scatter,
        .lstm_cell = lstm_cell,
        .layer_norm = layer_norm,
        .attend = cpu_attend,
        .attend_step = cpu_attend_step,
        .store_memory = cpu_store_memory,
        .attend_memory = cpu_attend_memory,
        .memory_weights = cpu_memory_weights,
        .search_output = search_output,
    };
    struct cpu_device *cpu = mem_calloc(1, sizeof(*cpu));
    if (!cpu)
        return err_set(err, ACRE_ENOMEM, "no memory for the CPU device");
    cpu->kernels = kernels_find(level);
    snprintf(cpu->name, sizeof(cpu->name), "cpu %s", cpu->kernels->name);
    cpu->device.ops = &ops;
    cpu->device.name = cpu->name;
    *out = &cpu->device;
    return 0;
}
