/* The CPU backend's attention over areas one by one: keys that are not means, values that are
 * maxima, grids, top-k, sigmoids. See kernels/areas.h for planes and windows, area_keys.c for keys
 * with dense layers, area_steps.c for decoding.
 */
#include "device/cpu/areas.h"

#include <math.h>
#include <string.h>

#include "device/cpu/area_keys.h"
#include "kernels/areas.h"

/* ---- Sizes ----------------------------------------------------------------------------------- */

size_t cpu_key_planes(const struct attention *attention)
{
    return attention->key ? area_planes(&attention->area) : 0;
}

size_t cpu_value_planes(const struct attention *attention)
{
    return attention->area.value == AREA_VALUE_MAX ? area_planes(&attention->area) : 0;
}

static size_t panel_floats(const struct attention *attention, size_t n, size_t k)
{
    return kernel_packed_bytes(attention->type, n, k) / sizeof(float);
}

/* Rows of keys, and of values: items, or the entries of all planes. */
static size_t n_entries(size_t planes, size_t length)
{
    return planes > 0 ? planes * kernel_padded(length) : length;
}

size_t cpu_areas_key_floats(const struct attention *attention, size_t length)
{
    return panel_floats(attention, n_entries(cpu_key_planes(attention), length),
                        attention->head_width);
}

size_t cpu_areas_value_floats(const struct attention *attention, size_t length)
{
    return panel_floats(attention, attention->head_width,
                        n_entries(cpu_value_planes(attention), length));
}

/* ---- Areas of a whole memory ----------------------------------------------------------------- */

/* The items after base, and the integral images of them and of their squares. */
static void prepare_items(struct stream *stream, const struct attention *attention, size_t length,
                          const float *x, size_t stride)
{
    const struct area_key *key = attention->key;
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width;
    if (!key->is_largest)
        cpu_area_key_base(stream, key, length, x, stride, areas->items);
    if (!key->has_deviation)
        return;
    for (size_t i = 0; i < length; i++)
        for (size_t c = 0; c < d; c++)
            areas->squares[i * d + c] = x[i * stride + c] * x[i * stride + c];
    area_integral(&attention->area, length, d, x, stride, areas->integrals[0]);
    area_integral(&attention->area, length, d, areas->squares, d, areas->integrals[1]);
}

/* Of the areas of the present size that end with one of the items first ... end - 1. in_block: each
 * of them begins and ends in the same block of the integral images, so that its sum is a difference
 * of two entries. Otherwise area_sums() adds up the parts that the blocks have of it. */
static void find_deviations(struct stream *stream, const struct area_walk *walk, size_t d,
                            size_t length, size_t first, size_t end, bool in_block)
{
    struct area_scratch *areas = &stream->areas;
    struct area_ends ends[2];
    for (int i = 0; i < 2; i++) {
        const float *integral = areas->integrals[i];
        float *sums = areas->windows[1 + i];
        ends[i] = (struct area_ends){
            integral + first * d, in_block ? integral + (first - (size_t)walk->width) * d : NULL};
        if (in_block)
            continue;
        area_sums(walk, length, first, end, d, integral, sums);
        ends[i].last = sums + first * d;
    }
    stream->kernels->area_deviations((end - first) * d, walk->width * walk->height, &ends[0],
                                     &ends[1], areas->deviations + first * d);
}

/* On a line most areas end in the block that they begin in. */
static void fill_deviations(struct stream *stream, const struct area_walk *walk, size_t d,
                            size_t length)
{
    if (walk->rule->memory_height > 1) {
        find_deviations(stream, walk, d, length, 0, length, false);
        return;
    }
    for (size_t block = 0; block < length; block += AREA_BLOCK) {
        size_t end = length - block < AREA_BLOCK ? length : block + AREA_BLOCK;
        size_t inner = block + (size_t)walk->width;
        find_deviations(stream, walk, d, length, block, inner < end ? inner : end, false);
        if (inner < end)
            find_deviations(stream, walk, d, length, inner, end, true);
    }
}

/* Takes areas->windows[0] to the present size. */
static void extend(struct area_scratch *areas, const struct area_walk *walk, size_t length,
                   size_t d, const float *x, size_t stride, bool largest)
{
    bool is_grid = walk->rule->memory_height > 1;
    area_extend(walk, length, d, x, stride, largest, is_grid ? areas->columns : areas->windows[0],
                areas->windows[0]);
}

/* Maxima of x[L,D], of all areas of all sizes, into the entries. */
static void fill_maxima(struct area_scratch *areas, const struct attention *attention,
                        size_t length, const float *x, size_t stride)
{
    size_t d = attention->head_width, plane_floats = kernel_padded(length) * d;
    struct area_walk walk = {.rule = &attention->area};
    while (area_next(&walk)) {
        extend(areas, &walk, length, d, x, stride, true);
        memcpy(areas->entries + walk.plane * plane_floats, areas->windows[0],
               length * d * sizeof(float));
    }
}

/* The hidden rows of all areas take the place of their maxima, if keys have them. */
static void fill_keys(struct stream *stream, const struct attention *attention, size_t length,
                      const float *x, size_t stride)
{
    const struct area_key *key = attention->key;
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width, plane_floats = kernel_padded(length) * d;
    struct area_walk walk = {.rule = &attention->area};
    if (key->is_largest)
        fill_maxima(areas, attention, length, x, stride);
    if (key->is_dense)
        prepare_items(stream, attention, length, x, stride);
    while (key->is_dense && area_next(&walk)) {
        float *entries = areas->entries + walk.plane * plane_floats, *windows = areas->windows[0];
        if (key->is_largest)
            memcpy(windows, entries, length * d * sizeof(float));
        else
            extend(areas, &walk, length, d, areas->items, d, false);
        if (key->has_deviation)
            fill_deviations(stream, &walk, d, length);
        cpu_area_key_hidden(stream, key, walk.plane, length, windows,
                            1.0f / (float)(walk.width * walk.height), areas->deviations, entries);
    }
}

/* Entries beyond the items of a memory. */
static void clear_padding(struct area_scratch *areas, size_t d, size_t length, size_t planes)
{
    size_t lp = kernel_padded(length);
    for (size_t plane = 0; plane < planes; plane++)
        memset(areas->entries + (plane * lp + length) * d, 0, (lp - length) * d * sizeof(float));
}

void cpu_areas_pack(struct stream *stream, const struct attention *attention, size_t length,
                    const struct head_rows *rows, float *packed_keys, float *packed_values)
{
    struct area_scratch *areas = &stream->areas;
    size_t d = attention->head_width, key_planes = cpu_key_planes(attention);
    size_t value_planes = cpu_value_planes(attention);
    const float *keys = rows->keys, *values = rows->values;
    if (key_planes > 0) {
        fill_keys(stream, attention, length, keys, rows->key_stride);
        clear_padding(areas, d, length, key_planes);
        keys = areas->entries;
    }
    kernels_pack(attention->type, n_entries(key_planes, length), d, keys,
                 key_planes > 0 ? d : rows->key_stride, packed_keys);
    if (value_planes > 0) {
        fill_maxima(areas, attention, length, values, rows->value_stride);
        clear_padding(areas, d, length, value_planes);
        values = areas->entries;
    }
    kernels_pack_transposed(attention->type, d, n_entries(value_planes, length), values,
                            value_planes > 0 ? d : rows->value_stride, packed_values);
}

/* ---- Weights of a row ------------------------------------------------------------------------ */

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
static void memory_logits(struct stream *stream, const struct attention *attention,
                          const struct head_queries *queries, const struct head_memory *memory,
                          float *logits)
{
    size_t row_floats = area_planes(&attention->area) * kernel_padded(memory->length);
    cpu_attention_product(stream, attention->type, queries->n,
                          n_entries(cpu_key_planes(attention), memory->length),
                          attention->head_width, queries->for_keys, queries->for_keys_stride,
                          memory->keys, logits, row_floats);
}

/* Such a row becomes the weights of all areas. */
static void weigh(struct stream *stream, const struct attention *attention, size_t length,
                  size_t seen, const float *query, float *planes)
{
    const struct area_rule *rule = &attention->area;
    if (!attention->key)
        area_mean_logits(rule, length, planes, stream->areas.weights);
    add_query_bias(attention, query, area_planes(rule) * kernel_padded(length), planes);
    area_weights(rule, length, seen, planes, stream->areas.weights);
}

void cpu_areas_weigh(struct stream *stream, const struct attention *attention, size_t length,
                     size_t seen, const float *query, float *planes)
{
    float *coverage = stream->areas.weights;
    if (attention->key && area_is_plain(&attention->area)) {
        stream->kernels->plane_coverage(length, seen, &attention->area, planes, coverage);
        return;
    }
    weigh(stream, attention, length, seen, query, planes);
    if (cpu_value_planes(attention) > 0)
        return;
    area_coverage_of(&attention->area, length, planes, coverage);
    memcpy(planes, coverage, kernel_padded(length) * sizeof(*planes));
}

void cpu_add_item_weights(const struct head_queries *queries, size_t row, size_t length,
                          const float *coverage)
{
    if (!queries->item_weights)
        return;
    float *sums = queries->item_weights + row * queries->item_stride;
    for (size_t i = 0; i < length; i++)
        sums[i] += coverage[i];
}

/* The same from the weights of areas, where these multiply values of their own. */
static void add_item_weights(struct stream *stream, const struct attention *attention,
                             const struct head_queries *queries, size_t row, size_t length,
                             const float *planes)
{
    const float *coverage = planes;
    if (!queries->item_weights)
        return;
    if (cpu_value_planes(attention) > 0) {
        area_coverage_of(&attention->area, length, planes, stream->areas.weights);
        coverage = stream->areas.weights;
    }
    cpu_add_item_weights(queries, row, length, coverage);
}

void cpu_areas_weights(struct stream *stream, const struct attention *attention,
                       const struct head_memory *memory, const float *query, float *weights)
{
    struct head_queries one = {.n = 1, .query = query, .for_keys_stride = attention->head_width};
    one.for_keys = cpu_area_key_query(stream, attention->key, 1, query, &one.for_keys_stride);
    memory_logits(stream, attention, &one, memory, weights);
    weigh(stream, attention, memory->length, memory->length, query, weights);
}

void cpu_areas_attend(struct stream *stream, const struct attention *attention,
                      const struct head_queries *queries, const struct head_memory *memory,
                      float *context, size_t stride)
{
    size_t length = memory->length;
    size_t row_floats = area_planes(&attention->area) * kernel_padded(length);
    memory_logits(stream, attention, queries, memory, stream->scores);
    for (size_t row = 0; row < queries->n; row++) {
        float *planes = stream->scores + row * row_floats;
        cpu_areas_weigh(stream, attention, length, seen_by(queries, row, length),
                        queries->query + row * queries->stride, planes);
        add_item_weights(stream, attention, queries, row, length, planes);
    }
    cpu_attention_product(stream, attention->type, queries->n, attention->head_width,
                          n_entries(cpu_value_planes(attention), length), stream->scores,
                          row_floats, memory->values, context, stride);
}
