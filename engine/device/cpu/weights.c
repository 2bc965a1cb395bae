/* The CPU backend's weights: quantised and packed once, when a model is loaded. */
#include "device/cpu/weights.h"

#include "base/mem.h"
#include "base/room.h"
#include "device/positions.h"

void cpu_weight_close(struct weight *weight)
{
    if (!weight)
        return;
    arena_close(&weight->arena);
    mem_free(weight);
}

void cpu_weights_order(struct device *device, struct weight *const *weights, size_t n)
{
    (void)device;
    for (size_t i = 0; i < n; i++)
        weights[i]->next = weights[(i + 1) % n];
}

static void place_weight(struct weight *weight)
{
    struct packed *packed = &weight->packed;
    struct arena *arena = &weight->arena;
    size_t padded = kernel_padded(packed->n);
    bool is_int8 = packed->type == COMPUTE_INT8;
    packed->panels = arena_take(arena, 1, kernel_packed_bytes(packed->type, packed->n, packed->k));
    packed->bias = arena_take(arena, padded, sizeof(float));
    packed->scales = is_int8 ? arena_take(arena, padded, sizeof(float)) : NULL;
    packed->sums = is_int8 ? arena_take(arena, padded, sizeof(int32_t)) : NULL;
}

static void scale_row(size_t n, float scale, float *row)
{
    for (size_t i = 0; i < n && scale != 1.0f; i++)
        row[i] *= scale;
}

static size_t part_columns(const struct weight_part *part)
{
    return part->n_columns > 0 ? part->n_columns : part->weight.shape[1];
}

/* rows[n,k], of the columns that are meant. */
static void read_rows(const struct weight_part *part, size_t first, size_t n, size_t k, float *rows)
{
    size_t columns = part->weight.shape[1];
    if (k == columns)
        tensor_read(&part->weight, first * k, n * k, rows);
    else
        for (size_t row = 0; row < n; row++)
            tensor_read(&part->weight, (first + row) * columns + part->first_column, k,
                        rows + row * k);
}

/* Some rows of a tensor at a time, so that the float32 copy of a large matrix never exists.
 * `first` is the part's first column in the joined weight. */
static void pack_part(const struct weight_part *part, struct weight *weight, size_t first,
                      float *rows)
{
    const struct packed *packed = &weight->packed;
    size_t n = part->weight.shape[0], k = packed->k;
    char *panels = (char *)(uintptr_t)packed->panels; /* ours: packed is how kernels see it */
    for (size_t row = 0; row < n; row++) {
        size_t column = first + row, in_block = row % KERNEL_PANEL;
        size_t left = n - row < KERNEL_PANEL ? n - row : KERNEL_PANEL;
        if (in_block == 0) {
            read_rows(part, row, left, k, rows);
            scale_row(left * k, part->scale, rows);
        }
        char *panel = panels + column / KERNEL_PANEL * kernel_panel_bytes(packed->type, k);
        float *scale = packed->scales ? (float *)packed->scales + column : NULL;
        int32_t *sum = packed->sums ? (int32_t *)packed->sums + column : NULL;
        kernels_pack_column(packed->type, k, rows + in_block * k, column % KERNEL_PANEL, panel,
                            scale, sum);
    }
    if (part->bias.data) {
        tensor_read(&part->bias, 0, n, (float *)packed->bias + first);
        scale_row(n, part->scale, (float *)packed->bias + first);
    }
}

int cpu_weight_open(struct device *device, enum compute_type type, const struct weight_part *parts,
                    size_t n_parts, struct weight **out)
{
    (void)device;
    struct weight *weight = mem_calloc(1, sizeof(*weight));
    if (!weight)
        return ACRE_ENOMEM;
    weight->packed.type = type;
    weight->packed.k = part_columns(&parts[0]);
    for (size_t i = 0; i < n_parts; i++)
        weight->packed.n += parts[i].weight.shape[0];
    float *rows = mem_alloc(KERNEL_PANEL * weight->packed.k * sizeof(*rows));
    place_weight(weight);
    size_t bytes = weight->arena.used_bytes;
    if (!rows || arena_open(&weight->arena) != 0 || room_take("weight", bytes, NULL) != 0) {
        mem_free(rows);
        cpu_weight_close(weight);
        return ACRE_ENOMEM;
    }
    mem_will_write(weight->arena.memory, weight->arena.capacity_bytes);
    place_weight(weight);
    for (size_t i = 0, first = 0; i < n_parts; first += parts[i].weight.shape[0], i++)
        pack_part(&parts[i], weight, first, rows);
    room_filled(bytes);
    mem_free(rows);
    *out = weight;
    return 0;
}

void cpu_norm_close(struct norm *norm)
{
    if (norm)
        mem_free(norm->gain);
    mem_free(norm);
}

int cpu_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                  float epsilon, struct norm **out)
{
    (void)device;
    struct norm *norm = mem_calloc(1, sizeof(*norm));
    if (!norm)
        return ACRE_ENOMEM;
    norm->c = tensor_count(gain);
    norm->epsilon = epsilon;
    norm->gain = mem_alloc(2 * norm->c * sizeof(float));
    if (!norm->gain) {
        cpu_norm_close(norm);
        return ACRE_ENOMEM;
    }
    norm->bias = norm->gain + norm->c;
    tensor_read(gain, 0, norm->c, norm->gain);
    tensor_read(bias, 0, norm->c, norm->bias);
    *out = norm;
    return 0;
}

void cpu_embedding_close(struct embedding *embedding)
{
    if (!embedding)
        return;
    mem_free((void *)(uintptr_t)embedding->table.data);
    mem_free(embedding);
}

int cpu_embedding_open(struct device *device, const struct tensor *table, float scale,
                       struct embedding **out)
{
    (void)device;
    struct embedding *embedding = mem_calloc(1, sizeof(*embedding));
    if (!embedding) {
        mem_free((void *)(uintptr_t)table->data);
        return ACRE_ENOMEM;
    }
    embedding->table = *table;
    embedding->scale = scale;
    *out = embedding;
    return 0;
}

void cpu_position_embedding_close(struct position_embedding *embedding)
{
    if (embedding)
        mem_free(embedding->numbers);
    mem_free(embedding);
}

int cpu_position_embedding_open(struct device *device, const struct positions *positions, size_t c,
                                struct position_embedding **out)
{
    (void)device;
    struct position_embedding *embedding = mem_calloc(1, sizeof(*embedding));
    if (!embedding)
        return ACRE_ENOMEM;
    size_t bytes = positions->n * c * sizeof(float);
    embedding->numbers = mem_alloc(bytes);
    /* No file proves that there are so many. */
    if (!embedding->numbers || room_take("positions", bytes, NULL) != 0) {
        cpu_position_embedding_close(embedding);
        return ACRE_ENOMEM;
    }
    positions_fill(positions, c, embedding->numbers);
    room_filled(bytes);
    *out = embedding;
    return 0;
}
