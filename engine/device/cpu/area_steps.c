/* The CPU backend's decoding with areas one by one: what areas that end with a new item have of
 * their own is appended to the cache, for all heads together.
 */
#include "device/cpu/area_steps.h"

#include <string.h>

#include "device/cpu/area_keys.h"
#include "kernels/areas.h"

/* ---- The cache ------------------------------------------------------------------------------- */

/* A cache row has for each head, whatever of these the attention needs: the item's key (after the
 * first dense layer where that is for means), the integral images there of keys and of their
 * squares, the keys of the areas that end here; the item's value, the values of those areas. What a
 * product reads is padded with zeros and of the attention's type; what only makes areas is float32.
 */
static size_t typed_floats(const struct attention *attention)
{
    return kernel_cache_floats(attention->type, attention->head_width);
}

static size_t item_floats(const struct attention *attention, size_t planes)
{
    return planes > 0 ? kernel_padded(attention->head_width) : typed_floats(attention);
}

/* Where the keys of areas begin. */
static size_t area_keys_offset(const struct attention *attention)
{
    size_t integrals = attention->key && attention->key->has_deviation ? 2 : 0;
    return item_floats(attention, cpu_key_planes(attention)) +
           integrals * kernel_padded(attention->head_width);
}

static size_t values_offset(const struct attention *attention)
{
    return area_keys_offset(attention) + cpu_key_planes(attention) * typed_floats(attention);
}

static size_t head_floats(const struct attention *attention)
{
    size_t planes = cpu_value_planes(attention);
    return values_offset(attention) + item_floats(attention, planes) +
           planes * typed_floats(attention);
}

size_t cpu_areas_cache_row_floats(const struct attention *attention)
{
    return attention->n_heads * head_floats(attention);
}

/* x[d] into a place of the cache that products read. */
static void store_typed(const struct stream *stream, const struct attention *attention,
                        const float *x, float *row)
{
    size_t d = attention->head_width, dp = kernel_cache_padded(attention->type, d);
    memcpy(stream->query, x, d * sizeof(*x));
    memset(stream->query + d, 0, (dp - d) * sizeof(*x));
    stream->kernels->store_row(attention->type, dp, stream->query, row);
}

static void store_item(const struct stream *stream, const struct attention *attention,
                       size_t planes, const float *x, float *row)
{
    if (planes > 0)
        memcpy(row, x, attention->head_width * sizeof(*x));
    else
        store_typed(stream, attention, x, row);
}

/* ---- Areas that end with the last item ------------------------------------------------------- */

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

/* Where the sum of the last `width` items is. Of an area that begins in the block before, the parts
 * are added up in `sum`, as area_sums() does. */
static struct area_ends last_ends(const struct past *integral, size_t d, size_t width, float *sum)
{
    size_t last = integral->length - 1, first = integral->length - width;
    size_t block = last / AREA_BLOCK * AREA_BLOCK;
    const float *before = first % AREA_BLOCK > 0 ? at(integral, first - 1) : NULL;
    if (first >= block)
        return (struct area_ends){at(integral, last), before};
    const float *part = at(integral, block - 1), *rest = at(integral, last);
    for (size_t c = 0; c < d; c++)
        sum[c] = part[c] - (before ? before[c] : 0.0f) + rest[c];
    return (struct area_ends){sum, NULL};
}

/* In what follows widths 1 ... n are rows of [n][C], of which a head has D columns. */

/* Deviations; x[D] is the new item's key, the images stand behind `items`. */
static void find_deviations(struct stream *stream, size_t d, size_t c, size_t n, const float *x,
                            const struct past *items, float *deviations)
{
    struct past sums = *items, squares = *items;
    sums.slice += kernel_padded(d);
    squares.slice += 2 * kernel_padded(d);
    extend_integral(&sums, d, x, false);
    extend_integral(&squares, d, x, true);
    for (size_t w = 0; w < n; w++) {
        struct area_ends of_x = last_ends(&sums, d, w + 1, stream->areas.windows[1]);
        struct area_ends of_squares = last_ends(&squares, d, w + 1, stream->areas.windows[2]);
        stream->kernels->area_deviations(d, (int)w + 1, &of_x, &of_squares, deviations + w * c);
    }
}

/* Sums, or maxima. */
static void find_windows(size_t d, size_t c, size_t n, bool largest, const struct past *past,
                         float *windows)
{
    for (size_t w = 0; w < n; w++, windows += c) {
        const float *x = at(past, past->length - 1 - w);
        const float *narrower = w > 0 ? windows - c : NULL;
        if (!narrower)
            memcpy(windows, x, d * sizeof(*x));
        for (size_t i = 0; i < d && narrower && largest; i++)
            windows[i] = x[i] > narrower[i] ? x[i] : narrower[i];
        for (size_t i = 0; i < d && narrower && !largest; i++)
            windows[i] = x[i] + narrower[i];
    }
}

/* ---- One row --------------------------------------------------------------------------------- */

/* A row of a step: its cache along its path, the last item of which is new. */
struct step {
    const struct attention *attention;
    const int32_t *path;
    size_t length;
    float *cache;
    size_t n_widths; /* of areas that end with the last item */
};

static struct past slice_of(const struct step *step, size_t head, size_t offset)
{
    return (struct past){
        .slice = step->cache + head * head_floats(step->attention) + offset,
        .row_floats = cpu_areas_cache_row_floats(step->attention),
        .path = step->path,
        .length = step->length,
    };
}

static float *new_slice(const struct step *step, size_t head, size_t offset)
{
    struct past past = slice_of(step, head, offset);
    return at(&past, past.length - 1);
}

/* Keys of areas, from those of the new items, x[C]: rows of windows or of hidden units. */
static const float *find_keys(struct stream *stream, const struct step *step, const float *x)
{
    const struct attention *attention = step->attention;
    const struct area_key *key = attention->key;
    size_t d = attention->head_width, h = attention->n_heads, c = h * d, n = step->n_widths;
    float *const *ends = stream->areas.ends;
    float *windows = ends[0], *deviations = ends[1], *hidden = ends[2];
    for (size_t head = 0; head < h; head++) {
        struct past items = slice_of(step, head, 0);
        find_windows(d, c, n, key->is_largest, &items, windows + head * d);
        if (key->has_deviation)
            find_deviations(stream, d, c, n, x + head * d, &items, deviations + head * d);
    }
    for (size_t w = 0; w < n && key->is_dense; w++)
        cpu_area_key_hidden(stream, key, w, h, windows + w * c, 1.0f / (float)(w + 1),
                            deviations + w * c, hidden + w * c);
    return key->is_dense ? hidden : windows;
}

/* What keys of areas are made of: the items' keys, means already after the first dense layer. */
static const float *key_items(struct stream *stream, const struct attention *attention,
                              const float *keys)
{
    const struct area_key *key = attention->key;
    if (!key || !key->is_dense || key->is_largest)
        return keys;
    cpu_area_key_base(stream, key, attention->n_heads, keys, attention->head_width,
                      stream->areas.ends[0]);
    return stream->areas.ends[0];
}

static void store_areas(const struct stream *stream, const struct step *step, const float *rows,
                        size_t offset)
{
    const struct attention *attention = step->attention;
    size_t d = attention->head_width, h = attention->n_heads, slice = typed_floats(attention);
    for (size_t head = 0; head < h; head++)
        for (size_t w = 0; w < step->n_widths; w++)
            store_typed(stream, attention, rows + (w * h + head) * d,
                        new_slice(step, head, offset + w * slice));
}

/* The new items' keys and values, and what areas that end with them have of their own. */
static void store_step(struct stream *stream, const struct step *step, const float *qkv)
{
    const struct attention *attention = step->attention;
    size_t d = attention->head_width, h = attention->n_heads, c = h * d;
    size_t key_planes = cpu_key_planes(attention), value_planes = cpu_value_planes(attention);
    size_t values = values_offset(attention);
    const float *items = key_items(stream, attention, qkv + c);
    float *maxima = stream->areas.ends[0];
    for (size_t head = 0; head < h; head++) {
        store_item(stream, attention, key_planes, items + head * d, new_slice(step, head, 0));
        store_item(stream, attention, value_planes, qkv + 2 * c + head * d,
                   new_slice(step, head, values));
    }
    if (key_planes > 0)
        store_areas(stream, step, find_keys(stream, step, qkv + c), area_keys_offset(attention));
    if (value_planes == 0)
        return;
    for (size_t head = 0; head < h; head++) {
        struct past past = slice_of(step, head, values);
        find_windows(d, c, step->n_widths, true, &past, maxima + head * d);
    }
    store_areas(stream, step, maxima, values + kernel_padded(d));
}

/* Logits of all planes, or of the items where keys are means. query[Dp]. */
static void step_logits(const struct stream *stream, const struct step *step, size_t head,
                        const float *query)
{
    const struct attention *attention = step->attention;
    enum compute_type type = attention->type;
    size_t dp = kernel_cache_padded(type, attention->head_width), l = step->length;
    struct past keys = slice_of(step, head, area_keys_offset(attention));
    if (cpu_key_planes(attention) == 0) {
        keys = slice_of(step, head, 0);
        stream->kernels->scores_rows(type, l, dp, query, keys.slice, step->path, keys.row_floats,
                                     stream->scores);
        return;
    }
    for (size_t w = 0; w < step->n_widths; w++)
        stream->kernels->scores_rows(type, l - w, dp, query,
                                     keys.slice + w * typed_floats(attention), step->path + w,
                                     keys.row_floats, stream->scores + w * kernel_padded(l) + w);
}

static void step_context(const struct stream *stream, const struct step *step, size_t head,
                         float *out)
{
    const struct attention *attention = step->attention;
    enum compute_type type = attention->type;
    size_t d = attention->head_width, dp = kernel_cache_padded(type, d), l = step->length;
    struct past values = slice_of(step, head, values_offset(attention));
    float *part = stream->query + dp;
    if (cpu_value_planes(attention) == 0) {
        stream->kernels->context_rows(type, l, dp, stream->scores, values.slice, step->path,
                                      values.row_floats, part);
        memcpy(out, part, d * sizeof(*out));
        return;
    }
    memset(out, 0, d * sizeof(*out));
    values.slice += kernel_padded(d);
    for (size_t w = 0; w < step->n_widths; w++, values.slice += typed_floats(attention)) {
        stream->kernels->context_rows(type, l - w, dp, stream->scores + w * kernel_padded(l) + w,
                                      values.slice, step->path + w, values.row_floats, part);
        for (size_t i = 0; i < d; i++)
            out[i] += part[i];
    }
}

void cpu_areas_attend_step(struct stream *stream, const struct attention *attention,
                           const int32_t *path, size_t length, float *cache, const float *qkv,
                           float *context)
{
    size_t d = attention->head_width, stride = d, width = (size_t)attention->area.width;
    size_t dp = kernel_cache_padded(attention->type, d);
    struct step step = {.attention = attention, .path = path, .length = length, .cache = cache};
    step.n_widths = width < length ? width : length;
    store_step(stream, &step, qkv);
    const float *for_keys =
        cpu_area_key_query(stream, attention->key, attention->n_heads, qkv, &stride);
    memset(stream->query, 0, dp * sizeof(*for_keys));
    for (size_t head = 0; head < attention->n_heads; head++) {
        memcpy(stream->query, for_keys + head * d, d * sizeof(*for_keys));
        step_logits(stream, &step, head, stream->query);
        cpu_areas_weigh(stream, attention, length, length, qkv + head * d, stream->scores);
        step_context(stream, &step, head, context + head * d);
    }
}
