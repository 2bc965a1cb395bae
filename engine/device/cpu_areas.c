/* The CPU backend's attention over areas one by one: keys that are not means, values that are
 * maxima, grids, top-k, sigmoids. See kernels/areas.h for planes and windows.
 *
 * Keys with dense layers (Eq. 9): key = W2·h + b2, h = relu(W1·features + b1). The features' parts
 * of W1 are applied where they cost least: to the items where the feature is a mean, to the areas
 * where it is a deviation or a maximum, at load to the embeddings of the sizes. W2 is applied to
 * the query, q·(W2·h) = (W2ᵀ·q)·h, so that areas keep h; q·b2 is the same for all areas and only
 * sigmoids see it.
 */
#include "device/cpu.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/areas.h"

bool cpu_is_plain(const struct attention *attention)
{
    return !attention->key && area_is_plain(&attention->area);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool is_sum(enum area_key_mode mode)
{
    return mode == AREA_KEY_SUM || mode == AREA_KEY_SAMPLE_SUM;
}

static bool has_deviation(enum area_key_mode mode)
{
    return mode == AREA_KEY_CONCAT || mode == AREA_KEY_SUM;
}

size_t area_key_inputs(enum area_key_mode mode, size_t head_width)
{
    if (mode == AREA_KEY_MEAN || mode == AREA_KEY_MAX)
        return 0;
    if (is_sum(mode))
        return head_width;
    return head_width + (has_deviation(mode) ? head_width : 0) + head_width / 2 * 2;
}

void cpu_area_key_close(struct area_key *key)
{
    if (key)
        arena_close(&key->arena);
    mem_free(key);
}

/* A [D,D] weight in an arena; its bias is added elsewhere. */
static struct packed place_square(struct arena *arena, size_t d)
{
    size_t panels = kernel_padded(d) / KERNEL_PANEL;
    return (struct packed){
        .n = d, .k = d, .panels = arena_take(arena, panels, kernel_panel_bytes(KERNEL_F32, d))};
}

static void place_key(struct area_key *key, size_t d, size_t n_planes)
{
    key->base = place_square(&key->arena, d);
    key->deviation = place_square(&key->arena, d);
    key->query = place_square(&key->arena, d);
    key->query_bias = arena_take(&key->arena, d, sizeof(float));
    key->constants = arena_take(&key->arena, n_planes * kernel_padded(d), sizeof(float));
}

static void read_columns(const struct tensor *weight, size_t first, size_t d, float *out)
{
    size_t inputs = weight->shape[1];
    for (size_t row = 0; row < d; row++)
        tensor_read(weight, row * inputs + first, d, out + row * d);
}

static void read_scaled(const struct tensor *tensor, float scale, size_t n, float *out)
{
    tensor_read(tensor, 0, n, out);
    for (size_t i = 0; i < n; i++)
        out[i] *= scale;
}

/* W1's part of the embeddings of a size, and b1. */
static void fill_constants(const struct area_key_parts *parts, size_t d,
                           const struct area_walk *walk, float *embedding, float *row, float *out)
{
    size_t half = d / 2, inputs = parts->fc1_weight.shape[1];
    size_t first = is_sum(parts->mode) ? 0 : inputs - 2 * half;
    tensor_read(&parts->height_embedding, (size_t)(walk->height - 1) * half, half, embedding);
    tensor_read(&parts->width_embedding, (size_t)(walk->width - 1) * half, half, embedding + half);
    tensor_read(&parts->fc1_bias, 0, d, out);
    for (size_t n = 0; n < d; n++) {
        tensor_read(&parts->fc1_weight, n * inputs + first, 2 * half, row);
        for (size_t i = 0; i < 2 * half; i++)
            out[n] += row[i] * embedding[i];
    }
}

/* scratch: d * d + 2 * d floats. */
static void fill_key(struct area_key *key, const struct area_key_parts *parts, size_t d,
                     const struct area_rule *area, float *scratch)
{
    float *square = scratch, *embedding = scratch + d * d, *row = embedding + d;
    struct area_walk walk = {.rule = area};
    read_columns(&parts->fc1_weight, 0, d, square);
    kernels_pack(KERNEL_F32, d, d, square, d, (float *)(uintptr_t)key->base.panels);
    if (key->has_deviation) {
        read_columns(&parts->fc1_weight, is_sum(parts->mode) ? 0 : d, d, square);
        kernels_pack(KERNEL_F32, d, d, square, d, (float *)(uintptr_t)key->deviation.panels);
    }
    read_scaled(&parts->fc2_weight, parts->scale, d * d, square);
    kernels_pack_transposed(KERNEL_F32, d, d, square, d, (float *)(uintptr_t)key->query.panels);
    read_scaled(&parts->fc2_bias, parts->scale, d, key->query_bias);
    while (area_next(&walk))
        fill_constants(parts, d, &walk, embedding, row,
                       key->constants + walk.plane * kernel_padded(d));
}

int cpu_area_key_open(struct device *device, const struct area_key_parts *parts, size_t head_width,
                      const struct area_rule *area, struct area_key **out)
{
    (void)device;
    size_t d = head_width, n_planes = area_planes(area);
    struct area_key *key = mem_calloc(1, sizeof(*key));
    float *scratch = mem_alloc((d * d + 2 * d) * sizeof(*scratch));
    int status = key && scratch ? 0 : ACRE_ENOMEM;
    if (status == 0) {
        key->is_largest = parts->mode == AREA_KEY_MAX || parts->mode == AREA_KEY_MAX_CONCAT;
        key->is_dense = area_key_inputs(parts->mode, d) > 0;
        key->has_deviation = has_deviation(parts->mode);
        place_key(key, d, n_planes);
        status = arena_open(&key->arena);
    }
    if (status == 0) {
        place_key(key, d, n_planes);
        if (key->is_dense)
            fill_key(key, parts, d, area, scratch);
        *out = key;
    } else {
        cpu_area_key_close(key);
    }
    mem_free(scratch);
    return status;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

void cpu_areas_place(struct area_scratch *areas, struct arena *arena,
                     const struct stream_limits *limits)
{
    size_t lp = kernel_padded(limits->max_memory), dp = kernel_padded(limits->max_head_width);
    size_t n = lp * dp, planes = limits->max_planes;
    float **const of_items[] = {&areas->items,        &areas->squares,      &areas->means,
                                &areas->deviations,   &areas->hidden,       &areas->columns,
                                &areas->integrals[0], &areas->integrals[1], &areas->windows[0],
                                &areas->windows[1],   &areas->windows[2]};
    for (size_t i = 0; i < sizeof(of_items) / sizeof(of_items[0]); i++)
        *of_items[i] = arena_take(arena, n, sizeof(float));
    areas->keys = arena_take(arena, planes * n, sizeof(float));
    areas->values = arena_take(arena, planes * n, sizeof(float));
    areas->weights = arena_take(arena, 2 * planes * lp + 2 * lp, sizeof(float));
    areas->query = arena_take(arena, CPU_QUERY_BLOCK * dp, sizeof(float));
}

/* Keys that areas have of their own; mean keys live in the items' scores. */
static size_t key_planes(const struct attention *attention)
{
    return attention->key ? area_planes(&attention->area) : 0;
}

static size_t value_planes(const struct attention *attention)
{
    return attention->area.value == AREA_VALUE_MAX ? area_planes(&attention->area) : 0;
}

static size_t panel_floats(const struct attention *attention, size_t n, size_t k)
{
    return kernel_padded(n) / KERNEL_PANEL *
           (kernel_panel_bytes(cpu_memory_type(attention), k) / sizeof(float));
}

size_t cpu_areas_key_floats(const struct attention *attention, size_t length)
{
    size_t planes = key_planes(attention);
    return (planes > 0 ? planes : 1) * panel_floats(attention, length, attention->head_width);
}

size_t cpu_areas_value_floats(const struct attention *attention, size_t length)
{
    size_t planes = value_planes(attention);
    return panel_floats(attention, attention->head_width,
                        planes > 0 ? planes * kernel_padded(length) : length);
}

/* ---- Areas of a whole memory ----------------------------------------------------------------- */

static void multiply(const struct stream *stream, const struct packed *w, size_t m, const float *x,
                     size_t x_stride, const float *bias, const float *residual, float *y)
{
    struct product product = {.m = m, .x = x, .x_stride = x_stride * sizeof(*x), .w = *w};
    product.w.bias = bias;
    product.residual = residual;
    product.residual_stride = w->n;
    product.y = y;
    product.y_stride = w->n;
    stream->kernels->linear(&product);
}

/* hidden[m,D] of m areas of one size, from their features: means (of base·x) or maxima, deviations;
 * constants[Dp] is what the size adds. */
static void dense(const struct stream *stream, const struct area_key *key, size_t m,
                  const float *means, const float *deviations, const float *constants,
                  float *hidden)
{
    size_t d = key->base.n;
    if (key->is_largest)
        multiply(stream, &key->base, m, means, d, constants, NULL, hidden);
    else if (key->has_deviation)
        multiply(stream, &key->deviation, m, deviations, d, constants, means, hidden);
    else
        for (size_t i = 0; i < m * d; i++)
            hidden[i] = means[i] + constants[i % d];
    for (size_t i = 0; i < m * d; i++)
        hidden[i] = hidden[i] > 0.0f ? hidden[i] : 0.0f;
}

/* Of all areas of the present size: areas->means and, where keys need them, deviations. */
static void features(struct stream *stream, const struct area_key *key,
                     const struct area_walk *walk, size_t length, const float *x, size_t stride)
{
    struct area_scratch *areas = &stream->areas;
    size_t d = areas->head_width;
    float count = (float)(walk->width * walk->height);
    if (key->is_largest) {
        area_extend(walk, length, d, x, stride, true, areas->columns, areas->windows[0]);
        memcpy(areas->means, areas->windows[0], length * d * sizeof(float));
        return;
    }
    area_extend(walk, length, d, areas->items, d, false, areas->columns, areas->windows[0]);
    for (size_t i = 0; i < length * d; i++)
        areas->means[i] = areas->windows[0][i] / count;
    if (!key->has_deviation)
        return;
    area_sums(walk, length, d, areas->integrals[0], areas->windows[1]);
    area_sums(walk, length, d, areas->integrals[1], areas->windows[2]);
    area_deviations(length * d, count, areas->windows[1], areas->windows[2], areas->deviations);
}

/* The items after base, and the integral images of them and of their squares. */
static void prepare_items(struct stream *stream, const struct attention *attention, size_t length,
                          const float *x, size_t stride)
{
    const struct area_key *key = attention->key;
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width;
    if (!key->is_largest)
        multiply(stream, &key->base, length, x, stride, NULL, NULL, areas->items);
    if (!key->has_deviation)
        return;
    for (size_t i = 0; i < length; i++)
        for (size_t c = 0; c < d; c++)
            areas->squares[i * d + c] = x[i * stride + c] * x[i * stride + c];
    area_integral(&attention->area, length, d, x, stride, areas->integrals[0]);
    area_integral(&attention->area, length, d, areas->squares, d, areas->integrals[1]);
}

static void pack_keys(struct stream *stream, const struct attention *attention, size_t length,
                      const float *keys, size_t stride, float *panels)
{
    const struct area_key *key = attention->key;
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width, plane_floats = kernel_padded(length) * d;
    struct area_walk walk = {.rule = &attention->area};
    areas->head_width = d;
    prepare_items(stream, attention, length, keys, stride);
    while (area_next(&walk)) {
        const float *constants = key->constants + walk.plane * kernel_padded(d);
        features(stream, key, &walk, length, keys, stride);
        if (key->is_dense)
            dense(stream, key, length, areas->means, areas->deviations, constants, areas->hidden);
        kernels_pack(KERNEL_F32, length, d, key->is_dense ? areas->hidden : areas->means, d,
                     panels + walk.plane * plane_floats);
    }
}

/* Panels of columns over the entries of all planes, [Dp/16][planes * Lp][16]. */
static void pack_values(struct stream *stream, const struct attention *attention, size_t length,
                        const float *values, size_t stride, float *panels)
{
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width, lp = kernel_padded(length);
    size_t n = area_planes(&attention->area) * lp;
    struct area_walk walk = {.rule = &attention->area};
    memset(panels, 0, cpu_areas_value_floats(attention, length) * sizeof(*panels));
    while (area_next(&walk)) {
        area_extend(&walk, length, d, values, stride, true, areas->columns, areas->windows[0]);
        for (size_t i = 0; i < length; i++) {
            float *entry = panels + (walk.plane * lp + i) * KERNEL_PANEL;
            for (size_t c = 0; c < d; c++)
                entry[c / KERNEL_PANEL * n * KERNEL_PANEL + c % KERNEL_PANEL] =
                    areas->windows[0][i * d + c];
        }
    }
}

void cpu_areas_pack(struct stream *stream, const struct attention *attention, size_t length,
                    const float *keys, const float *values, size_t stride, float *packed_keys,
                    float *packed_values)
{
    enum kernel_type type = cpu_memory_type(attention);
    size_t d = attention->head_width;
    if (key_planes(attention) > 0)
        pack_keys(stream, attention, length, keys, stride, packed_keys);
    else
        kernels_pack(type, length, d, keys, stride, packed_keys);
    if (value_planes(attention) > 0)
        pack_values(stream, attention, length, values, stride, packed_values);
    else
        kernels_pack_transposed(type, d, length, values, stride, packed_values);
}

/* ---- Weights of a row ------------------------------------------------------------------------ */

/* The query for keys that keep h, and what q·b2 adds to every logit. */
static const float *turn_query(struct stream *stream, const struct area_key *key, size_t m,
                               const float *query, size_t *stride)
{
    if (!key || !key->is_dense)
        return query;
    multiply(stream, &key->query, m, query, *stride, NULL, NULL, stream->areas.query);
    *stride = key->query.n;
    return stream->areas.query;
}

static void add_query_bias(const struct attention *attention, const float *query, size_t n,
                           float *logits)
{
    const struct area_key *key = attention->key;
    float bias = 0.0f;
    if (!key || !key->is_dense || !attention->area.sigmoid)
        return;
    for (size_t c = 0; c < attention->head_width; c++)
        bias += query[c] * key->query_bias[c];
    for (size_t i = 0; i < n; i++)
        logits[i] += bias;
}

/* The logits of m queries, rows of planes: of all areas or, in plane 0, of the items where keys are
 * their means. */
static void memory_logits(struct stream *stream, const struct attention *attention, size_t m,
                          const float *query, size_t stride, const struct head_memory *memory,
                          float *logits)
{
    size_t row_floats = area_planes(&attention->area) * kernel_padded(memory->length);
    const float *turned = turn_query(stream, attention->key, m, query, &stride);
    cpu_attention_product(stream, cpu_memory_type(attention), m,
                          attention->key ? row_floats : memory->length, attention->head_width,
                          turned, stride, memory->keys, logits, row_floats);
}

/* Such a row becomes the weights of all areas. */
static void weigh_row(struct stream *stream, const struct attention *attention, size_t length,
                      size_t seen, const float *query, float *planes)
{
    const struct area_rule *rule = &attention->area;
    if (!attention->key)
        area_mean_logits(rule, length, planes, stream->areas.weights);
    add_query_bias(attention, query, area_planes(rule) * kernel_padded(length), planes);
    area_weights(rule, length, seen, planes, stream->areas.weights);
}

/* And then what multiplies the values: coverage of items at the row's beginning, unless values are
 * maxima. */
static void cover_row(struct stream *stream, const struct attention *attention, size_t length,
                      float *planes)
{
    if (value_planes(attention) > 0)
        return;
    area_coverage_of(&attention->area, length, planes, stream->areas.weights);
    memcpy(planes, stream->areas.weights, kernel_padded(length) * sizeof(*planes));
}

void cpu_areas_weights(struct stream *stream, const struct attention *attention,
                       const struct head_memory *memory, const float *query, float *weights)
{
    size_t d = attention->head_width;
    memory_logits(stream, attention, 1, query, d, memory, weights);
    weigh_row(stream, attention, memory->length, memory->length, query, weights);
}

void cpu_areas_attend(struct stream *stream, const struct attention *attention, size_t m,
                      const float *query, size_t query_stride, const struct head_memory *memory,
                      bool causal, size_t seen, float *context, size_t context_stride)
{
    size_t length = memory->length;
    size_t row_floats = area_planes(&attention->area) * kernel_padded(length);
    memory_logits(stream, attention, m, query, query_stride, memory, stream->scores);
    for (size_t row = 0; row < m; row++) {
        float *planes = stream->scores + row * row_floats;
        weigh_row(stream, attention, length, causal ? seen + row : length,
                  query + row * query_stride, planes);
        cover_row(stream, attention, length, planes);
    }
    cpu_attention_product(stream, KERNEL_F32, m, attention->head_width,
                          value_planes(attention) > 0 ? row_floats : length, stream->scores,
                          row_floats, memory->values, context, context_stride);
}

/* ---- One step -------------------------------------------------------------------------------- */

/* A cache row has for each head: the key, the integral images there of keys and of their squares,
 * the keys of the areas that end here, the value, the values of those areas; whatever of these the
 * attention needs, each padded to Dp with zeros. */
static size_t integral_slices(const struct attention *attention)
{
    return attention->key && attention->key->has_deviation ? 2 : 0;
}

static size_t key_slices(const struct attention *attention)
{
    return 1 + integral_slices(attention) + key_planes(attention);
}

static size_t head_stride(const struct attention *attention)
{
    return (key_slices(attention) + 1 + value_planes(attention)) *
           kernel_padded(attention->head_width);
}

size_t cpu_areas_cache_row_floats(const struct attention *attention)
{
    return attention->n_heads * head_stride(attention);
}

/* One slice of one head's part of the cache along a path. */
struct past {
    float *slice; /* of row 0 */
    size_t row_floats;
    const int32_t *path;
    size_t length;
};

static float *at(const struct past *past, size_t position)
{
    return past->slice + (size_t)past->path[position] * past->row_floats;
}

/* The last entry of an integral image along the path, from the one before it. */
static void extend_integral(const struct past *integral, size_t d, const float *x, bool squared)
{
    size_t last = integral->length - 1;
    float *sum = at(integral, last);
    const float *before = last % AREA_BLOCK > 0 ? at(integral, last - 1) : NULL;
    for (size_t c = 0; c < d; c++)
        sum[c] = (squared ? x[c] * x[c] : x[c]) + (before ? before[c] : 0.0f);
}

/* sum += what the image has from `first` to `last`, both in one block. */
static void add_range(const struct past *integral, size_t d, size_t first, size_t last, float *sum)
{
    const float *end = at(integral, last);
    const float *before = first % AREA_BLOCK > 0 ? at(integral, first - 1) : NULL;
    for (size_t c = 0; c < d; c++)
        sum[c] += end[c] - (before ? before[c] : 0.0f);
}

/* The sum of the last `width` items, as area_sums() adds it up. */
static void last_sum(const struct past *integral, size_t d, size_t width, float *sum)
{
    size_t last = integral->length - 1, first = integral->length - width;
    size_t block = last / AREA_BLOCK * AREA_BLOCK;
    memset(sum, 0, d * sizeof(*sum));
    if (first < block)
        add_range(integral, d, first, block - 1, sum);
    add_range(integral, d, first > block ? first : block, last, sum);
}

/* The deviations of the areas that end with the last item, [width][D]. */
static void last_deviations(struct area_scratch *areas, size_t d, size_t n, const struct past *x)
{
    struct past sums = *x, squares = *x;
    const float *item = at(x, x->length - 1);
    sums.slice += kernel_padded(d);
    squares.slice += 2 * kernel_padded(d);
    extend_integral(&sums, d, item, false);
    extend_integral(&squares, d, item, true);
    for (size_t w = 0; w < n; w++) {
        last_sum(&sums, d, w + 1, areas->windows[1]);
        last_sum(&squares, d, w + 1, areas->windows[2]);
        area_deviations(d, (float)(w + 1), areas->windows[1], areas->windows[2],
                        areas->deviations + w * d);
    }
}

/* Their means, or maxima, into areas->items. */
static void last_windows(struct area_scratch *areas, size_t d, size_t n, bool largest,
                         const struct past *past)
{
    float *window = areas->windows[0];
    for (size_t w = 0; w < n; w++) {
        const float *x = at(past, past->length - 1 - w);
        for (size_t c = 0; c < d; c++) {
            float most = x[c] > window[c] ? x[c] : window[c];
            float joined = largest ? most : window[c] + x[c];
            window[c] = w > 0 ? joined : x[c];
            areas->items[w * d + c] = largest ? window[c] : window[c] / (float)(w + 1);
        }
    }
}

/* The keys of the areas that end with the last item go into its cache row. */
static void store_area_keys(struct stream *stream, const struct attention *attention,
                            const struct past *past, float *planes)
{
    const struct area_key *key = attention->key;
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width, dp = kernel_padded(d), n = (size_t)attention->area.width;
    const float *features = areas->items;
    n = n < past->length ? n : past->length;
    last_windows(areas, d, n, key->is_largest, past);
    if (key->has_deviation)
        last_deviations(areas, d, n, past);
    if (key->is_dense && !key->is_largest) {
        multiply(stream, &key->base, n, areas->items, d, NULL, NULL, areas->means);
        features = areas->means;
    }
    for (size_t w = 0; w < n; w++) {
        const float *hidden = features + w * d;
        if (key->is_dense) {
            dense(stream, key, 1, features + w * d, areas->deviations + w * d,
                  key->constants + w * dp, areas->hidden);
            hidden = areas->hidden;
        }
        memcpy(planes + w * dp, hidden, d * sizeof(float));
    }
}

static void store_area_values(struct stream *stream, const struct attention *attention,
                              const struct past *past, float *planes)
{
    size_t d = attention->head_width, n = value_planes(attention);
    n = n < past->length ? n : past->length;
    last_windows(&stream->areas, d, n, true, past);
    for (size_t w = 0; w < n; w++)
        memcpy(planes + w * kernel_padded(d), stream->areas.items + w * d, d * sizeof(float));
}

/* The new item's key and value, and what areas that end with it have of their own. */
static void store_item(struct stream *stream, const struct attention *attention, size_t head,
                       const int32_t *path, size_t length, float *cache, const float *qkv)
{
    size_t d = attention->head_width, dp = kernel_padded(d), c = attention->n_heads * d;
    size_t row_floats = cpu_areas_cache_row_floats(attention);
    float *part = cache + head * head_stride(attention);
    struct past keys = {part, row_floats, path, length};
    struct past values = {part + key_slices(attention) * dp, row_floats, path, length};
    float *key = at(&keys, length - 1), *value = at(&values, length - 1);
    memcpy(key, qkv + c + head * d, d * sizeof(float));
    memcpy(value, qkv + 2 * c + head * d, d * sizeof(float));
    if (key_planes(attention) > 0)
        store_area_keys(stream, attention, &keys, key + (1 + integral_slices(attention)) * dp);
    if (value_planes(attention) > 0)
        store_area_values(stream, attention, &values, value + dp);
}

/* Logits of all planes, or of the items where keys are means. */
static void step_logits(const struct stream *stream, const struct attention *attention,
                        const float *query, const float *part, const int32_t *path, size_t length)
{
    size_t dp = kernel_padded(attention->head_width), lp = kernel_padded(length);
    size_t row_floats = cpu_areas_cache_row_floats(attention), n = key_planes(attention);
    const float *planes = part + (1 + integral_slices(attention)) * dp;
    if (n == 0)
        stream->kernels->scores_rows(KERNEL_F32, length, dp, query, part, path, row_floats,
                                     stream->scores);
    for (size_t w = 0; w < n && w < length; w++)
        stream->kernels->scores_rows(KERNEL_F32, length - w, dp, query, planes + w * dp, path + w,
                                     row_floats, stream->scores + w * lp + w);
}

static void step_context(struct stream *stream, const struct attention *attention,
                         const float *part, const int32_t *path, size_t length, float *out)
{
    size_t d = attention->head_width, dp = kernel_padded(d), lp = kernel_padded(length);
    size_t row_floats = cpu_areas_cache_row_floats(attention), n = value_planes(attention);
    float *plane = stream->areas.hidden;
    if (n == 0) {
        stream->kernels->context_rows(KERNEL_F32, length, dp, stream->scores, part, path,
                                      row_floats, plane);
        memcpy(out, plane, d * sizeof(float));
        return;
    }
    memset(out, 0, d * sizeof(float));
    for (size_t w = 0; w < n && w < length; w++) {
        stream->kernels->context_rows(KERNEL_F32, length - w, dp, stream->scores + w * lp + w,
                                      part + (1 + w) * dp, path + w, row_floats, plane);
        for (size_t c = 0; c < d; c++)
            out[c] += plane[c];
    }
}

void cpu_areas_attend_step(struct stream *stream, const struct attention *attention,
                           const int32_t *path, size_t length, float *cache, const float *qkv,
                           float *context)
{
    size_t d = attention->head_width, dp = kernel_padded(d);
    float *query = stream->query;
    for (size_t h = 0; h < attention->n_heads; h++) {
        const float *part = cache + h * head_stride(attention);
        size_t stride = d;
        store_item(stream, attention, h, path, length, cache, qkv);
        const float *turned = turn_query(stream, attention->key, 1, qkv + h * d, &stride);
        memset(query, 0, dp * sizeof(float));
        memcpy(query, turned, d * sizeof(float));
        step_logits(stream, attention, query, part, path, length);
        weigh_row(stream, attention, length, length, qkv + h * d, stream->scores);
        cover_row(stream, attention, length, stream->scores);
        step_context(stream, attention, part + key_slices(attention) * dp, path, length,
                     context + h * d);
    }
}
