#include "device/cpu/stream.h"

#include "base/mem.h"

static void place_areas(struct area_scratch *areas, struct arena *arena,
                        const struct stream_limits *limits)
{
    size_t lp = kernel_padded(limits->max_memory), dp = kernel_padded(limits->max_head_width);
    size_t n = lp * dp, planes = limits->max_planes, c = kernel_padded(limits->max_width);
    size_t behind = kernel_packed_bytes(COMPUTE_BF16, 0, 0) / sizeof(float);
    float **const of_items[] = {&areas->items,      &areas->squares,      &areas->deviations,
                                &areas->columns,    &areas->integrals[0], &areas->integrals[1],
                                &areas->windows[0], &areas->windows[1],   &areas->windows[2]};
    for (size_t i = 0; i < sizeof(of_items) / sizeof(of_items[0]); i++)
        *of_items[i] = arena_take(arena, n, sizeof(float));
    areas->entries = arena_take(arena, planes * n, sizeof(float));
    areas->keys = arena_take(arena, planes * n + behind, sizeof(float));
    areas->values = arena_take(arena, planes * n + behind, sizeof(float));
    areas->weights = arena_take(arena, 2 * planes * lp + 2 * lp, sizeof(float));
    areas->query = arena_take(arena, CPU_QUERY_BLOCK * c, sizeof(float));
    for (size_t i = 0; i < sizeof(areas->ends) / sizeof(areas->ends[0]); i++)
        areas->ends[i] = arena_take(arena, planes * c, sizeof(float));
}

static void place(struct stream *stream, const struct stream_limits *limits, size_t row_bytes)
{
    size_t lp = kernel_padded(limits->max_memory);
    size_t dp = kernel_cache_padded(COMPUTE_BF16, limits->max_head_width);
    size_t planes = limits->max_planes, widest = planes * lp > dp ? planes * lp : dp;
    struct arena *arena = &stream->arena;
    stream->scores = arena_take(arena, CPU_QUERY_BLOCK * planes * lp + KERNEL_PAD, sizeof(float));
    stream->area = arena_take(arena, area_scratch(lp), sizeof(float));
    stream->query = arena_take(arena, 2 * (dp + 2 * KERNEL_PAD), sizeof(float));
    stream->logits = arena_take(arena, CPU_ROW_BLOCK * CPU_OUTPUT_BLOCK, sizeof(float));
    stream->rows = arena_take(arena, CPU_ROW_BLOCK, row_bytes);
    stream->row_scales = arena_take(arena, CPU_ROW_BLOCK, sizeof(float));
    stream->queries =
        arena_take(arena, CPU_QUERY_BLOCK, stream->kernels->row_bytes(COMPUTE_BF16, widest));
    place_areas(&stream->areas, arena, limits);
}

/* Of the type that takes most: models of any type share the size. */
static size_t widest_row(const struct kernels *kernels, size_t k)
{
    size_t most = 0;
    for (int type = 0; type < COMPUTE_EVERYWHERE; type++) {
        size_t bytes = kernels->row_bytes((enum compute_type)type, k);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int cpu_stream_open(struct device *device, const struct stream_limits *limits, struct stream **out)
{
    const struct kernels *kernels = cpu_device_of(device)->kernels;
    size_t row_bytes = widest_row(kernels, limits->max_width);
    struct stream *stream = mem_calloc(1, sizeof(*stream));
    if (!stream)
        return ACRE_ENOMEM;
    stream->kernels = kernels;
    place(stream, limits, row_bytes);
    if (arena_open(&stream->arena) != 0) {
        cpu_stream_close(stream);
        return ACRE_ENOMEM;
    }
    place(stream, limits, row_bytes);
    *out = stream;
    return 0;
}

void cpu_stream_close(struct stream *stream)
{
    if (stream)
        arena_close(&stream->arena);
    mem_free(stream);
}
