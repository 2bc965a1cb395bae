/* The CPU backend's keys of areas with dense layers (Eq. 9): key = W2·h + b2,
 * h = relu(W1·features + b1). The features' parts of W1 are applied where they cost least: to the
 * items where the feature is a mean, to the areas where it is a deviation or a maximum, at load to
 * the embeddings of the sizes. W2 is applied to the query, q·(W2·h) = (W2ᵀ·q)·h, so that areas keep
 * h; q·b2 is the same for all areas and only sigmoids see it. Products are f32 or bf16.
 */
#include "device/cpu/area_keys.h"

#include <string.h>

#include "base/mem.h"
#include "device/area_constants.h"
#include "device/cpu/products.h"

void cpu_area_key_close(struct area_key *key)
{
    if (key)
        arena_close(&key->arena);
    mem_free(key);
}

/* A [D,D] weight in an arena; its bias is added elsewhere. */
static struct packed place_square(struct arena *arena, enum compute_type type, size_t d)
{
    return (struct packed){.type = type,
                           .n = d,
                           .k = d,
                           .panels = arena_take(arena, 1, kernel_packed_bytes(type, d, d))};
}

static void place_key(struct area_key *key, enum compute_type type, size_t d, size_t n_planes)
{
    key->base = place_square(&key->arena, type, d);
    key->deviation = place_square(&key->arena, type, d);
    key->query = place_square(&key->arena, type, d);
    key->query_bias = arena_take(&key->arena, d, sizeof(float));
    key->constants = arena_take(&key->arena, n_planes * kernel_padded(d), sizeof(float));
}

static void read_columns(const struct tensor *weight, size_t first, size_t d, float *out)
{
    size_t inputs = weight->shape[1];
    for (size_t row = 0; row < d; row++)
        tensor_read(weight, row * inputs + first, d, out + row * d);
}

/* scratch: d * d + 2 * d floats. */
static void fill_key(struct area_key *key, const struct area_key_parts *parts, size_t d,
                     const struct area_rule *area, float *scratch)
{
    float *square = scratch, *pair = scratch + d * d;
    struct area_walk walk = {.rule = area};
    read_columns(&parts->fc1_weight, 0, d, square);
    kernels_pack(key->base.type, d, d, square, d, (float *)(uintptr_t)key->base.panels);
    if (key->has_deviation) {
        read_columns(&parts->fc1_weight, area_key_is_sum(parts->mode) ? 0 : d, d, square);
        kernels_pack(key->base.type, d, d, square, d, (float *)(uintptr_t)key->deviation.panels);
    }
    area_constants_scale(&parts->fc2_weight, parts->scale, d * d, square);
    kernels_pack_transposed(key->base.type, d, d, square, d, (float *)(uintptr_t)key->query.panels);
    area_constants_scale(&parts->fc2_bias, parts->scale, d, key->query_bias);
    while (area_next(&walk))
        area_constants_fill(parts, d, &walk, pair, key->constants + walk.plane * kernel_padded(d));
}

int cpu_area_key_open(struct device *device, const struct area_key_parts *parts,
                      const struct attention *attention, struct area_key **out)
{
    (void)device;
    size_t d = attention->head_width, n_planes = area_planes(&attention->area);
    struct area_key *key = mem_calloc(1, sizeof(*key));
    float *scratch = mem_alloc((d * d + 2 * d) * sizeof(*scratch));
    int status = key && scratch ? 0 : ACRE_ENOMEM;
    if (status == 0) {
        key->is_largest = parts->mode == AREA_KEY_MAX || parts->mode == AREA_KEY_MAX_CONCAT;
        key->is_dense = area_key_inputs(parts->mode, d) > 0;
        key->has_deviation = area_key_has_deviation(parts->mode);
        place_key(key, attention->type, d, n_planes);
        status = arena_open(&key->arena);
    }
    if (status == 0) {
        place_key(key, attention->type, d, n_planes);
        if (key->is_dense)
            fill_key(key, parts, d, &attention->area, scratch);
        *out = key;
    } else {
        cpu_area_key_close(key);
    }
    mem_free(scratch);
    return status;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Of any number of rows, x_stride floats apart; y[M,N] without gaps. */
static void multiply(struct stream *stream, const struct packed *w, size_t m, const float *x,
                     size_t x_stride, const float *bias, enum activation activation, float *y)
{
    for (size_t row = 0; row < m; row += CPU_ROW_BLOCK) {
        struct product product =
            cpu_product(stream, w, cpu_row_block(m, row), x + row * x_stride, x_stride);
        product.w.bias = bias;
        product.activation = activation;
        product.y = y + row * w->n;
        product.y_stride = w->n;
        stream->kernels->linear(&product);
    }
}

void cpu_area_key_base(struct stream *stream, const struct area_key *key, size_t m, const float *x,
                       size_t stride, float *y)
{
    multiply(stream, &key->base, m, x, stride, NULL, ACTIVATION_NONE, y);
}

void cpu_area_key_hidden(struct stream *stream, const struct area_key *key, size_t plane, size_t m,
                         const float *windows, float share, const float *deviations, float *hidden)
{
    size_t d = key->base.n;
    const float *constants = key->constants + plane * kernel_padded(d);
    if (key->is_largest) {
        multiply(stream, &key->base, m, windows, d, constants, ACTIVATION_RELU, hidden);
        return;
    }
    if (key->has_deviation)
        multiply(stream, &key->deviation, m, deviations, d, NULL, ACTIVATION_NONE, hidden);
    else
        memset(hidden, 0, m * d * sizeof(*hidden));
    stream->kernels->area_hidden(m, d, share, windows, constants, hidden);
}

const float *cpu_area_key_query(struct stream *stream, const struct area_key *key, size_t m,
                                const float *query, size_t *stride)
{
    if (!key || !key->is_dense)
        return query;
    multiply(stream, &key->query, m, query, *stride, NULL, ACTIVATION_NONE, stream->areas.query);
    *stride = key->query.n;
    return stream->areas.query;
}
