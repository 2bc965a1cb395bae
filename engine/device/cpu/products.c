#include "device/cpu/products.h"

#include <math.h>

struct product cpu_product(struct stream *stream, const struct packed *w, size_t m, const float *x,
                           size_t x_stride)
{
    const struct kernels *kernels = stream->kernels;
    struct product product = {.m = m, .x = x, .x_stride = x_stride * sizeof(*x), .w = *w};
    if (w->type != COMPUTE_F32) {
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

void cpu_linear(struct stream *stream, const struct weight *weight, size_t m, const float *x,
                enum activation activation, const float *residual, float *y)
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

void cpu_attention_product(struct stream *stream, enum compute_type type, size_t m, size_t n,
                           size_t k, const float *x, size_t x_stride, const void *panels, float *y,
                           size_t y_stride)
{
    const struct kernels *kernels = stream->kernels;
    struct product product = {.m = m, .x = x, .x_stride = x_stride * sizeof(*x)};
    product.w = (struct packed){.type = type, .n = n, .k = k, .panels = panels};
    product.y = y;
    product.y_stride = y_stride;
    if (type != COMPUTE_F32) {
        kernels->pack_rows(type, m, k, x, x_stride, stream->queries, NULL);
        product.x = stream->queries;
        product.x_stride = kernels->row_bytes(type, k);
    }
    kernels->linear(&product);
}

/* Takes the ids that may not be chosen out of the softmax. */
static void mask_logits(size_t n, size_t first_id, const uint32_t *allowed, float *logits)
{
    for (size_t i = 0; i < n; i++)
        if (!(allowed[(first_id + i) / 32] >> ((first_id + i) % 32) & 1))
            logits[i] = -INFINITY;
}

static void find_wanted(size_t n, size_t first_id, const float *logits, struct logit_scan *scan)
{
    size_t id = scan->has_wanted ? (size_t)scan->best[0].id : 0;
    if (scan->has_wanted && id >= first_id && id < first_id + n)
        scan->wanted = logits[id - first_id];
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
            find_wanted(n, column, logits, &scans[row]);
            stream->kernels->scan_logits(n, (int32_t)column, logits, &scans[row]);
        }
    }
}

void cpu_scan_output(struct stream *stream, const struct weight *output, size_t m, const float *x,
                     struct logit_scan *scans)
{
    for (size_t row = 0; row < m; row += CPU_ROW_BLOCK)
        search_rows(stream, output, cpu_row_block(m, row), x + row * output->packed.k, scans + row);
}
