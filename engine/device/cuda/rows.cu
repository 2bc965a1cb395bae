#include "device/cuda/rows.h"

#include "device/cuda/attend.h"
#include "device/cuda/wait.h"

static const size_t LOGITS = 8192; /* ids whose logits are there at one time, at most */

/* ---- Opening --------------------------------------------------------------------------------- */

/* Parts of a table, 16 bytes apart. With base NULL it only counts. */
struct table_layout {
    char *base;
    size_t bytes;

    template <class T> void take(T **part, size_t n)
    {
        *part = base ? reinterpret_cast<T *>(base + bytes) : NULL;
        bytes += (n * sizeof(T) + 15) / 16 * 16;
    }
};

static size_t place(const struct rows *rows, char *base, struct row_table *table)
{
    struct table_layout layout = {base, 0};
    layout.take(&table->n_rows, 1);
    layout.take(&table->n_groups, 1);
    layout.take(&table->n_tiles, 1);
    layout.take(&table->first, rows->n_slots + 1);
    layout.take(&table->group_slots, rows->n_slots);
    layout.take(&table->groups, 3 * rows->n_slots);
    layout.take(&table->bases, rows->n_slots);
    layout.take(&table->states, rows->n_slots);
    layout.take(&table->entrants, rows->n_slots);
    layout.take(&table->tiles, 2 * rows->max_tiles);
    layout.take(&table->ids, rows->max_rows);
    layout.take(&table->places, rows->max_rows);
    layout.take(&table->sentences, rows->max_rows);
    layout.take(&table->slots, rows->max_rows);
    return layout.bytes;
}

static void take_table(struct rows *rows)
{
    struct gpu_memory *memory = &rows->memory;
    size_t step = (size_t)rows->shape.n_slots * (size_t)rows->shape.beam;
    rows->table_bytes = place(rows, NULL, &rows->table);
    char *bytes = static_cast<char *>(gpu_take(memory, rows->table_bytes, GPU_ZEROED));
    place(rows, bytes, &rows->table);
    for (struct row_page &page : rows->pages) {
        page.bytes = static_cast<char *>(gpu_take(memory, rows->table_bytes, GPU_PINNED));
        place(rows, page.bytes, &page.table);
        gpu_note(memory, cudaEventCreateWithFlags(&page.sent, cudaEventDisableTiming));
    }
    gpu_take(memory, &rows->beams, step);
    gpu_take(memory, &rows->lengths, step);
    gpu_take(memory, &rows->path_rows, step);
    gpu_take(memory, &rows->state_before, step);
    gpu_take(memory, &rows->state_after, step);
}

static void take_output(struct rows *rows, const struct constraint *constraint)
{
    struct gpu_memory *memory = &rows->memory;
    size_t step = (size_t)rows->shape.n_slots * (size_t)rows->shape.beam;
    size_t best = 2 * (size_t)rows->shape.beam, vocabulary = constraint->words * 32;
    rows->n_slices = (int)((vocabulary + SEARCH_SLICE - 1) / SEARCH_SLICE);
    rows->logits_stride = cuda_padded(vocabulary < LOGITS ? vocabulary : LOGITS, SEARCH_SLICE);
    gpu_take(memory, &rows->logits, rows->max_rows * (size_t)rows->logits_stride);
    gpu_take(memory, &rows->scans, step * (size_t)rows->n_slices);
    gpu_take(memory, &rows->best, step * (size_t)rows->n_slices * best);
    gpu_take(memory, &rows->merged, step * best);
    gpu_take(memory, &rows->merged_counts, step);
}

int cuda_rows_open(struct device *device, size_t max_rows, const struct store_shape *shape,
                   struct rows **out)
{
    if (shape->search.constraint->words * 32 > SEARCH_MAX_SLICES * SEARCH_SLICE)
        return ACRE_EUNSUPPORTED;
    struct rows *rows = cuda_new<struct rows>();
    if (!rows)
        return ACRE_ENOMEM;
    rows->device = cuda_device_of(device);
    rows->max_rows = max_rows;
    rows->n_slots = shape->n_slots;
    rows->shape = {(int)shape->n_slots, (int)shape->max_beam, (int)shape->positions};
    rows->max_tiles = max_rows / ATTEND_TILE + shape->n_slots;
    cuda_use(rows->device);
    take_table(rows);
    take_output(rows, shape->search.constraint);
    int status = cuda_status(rows->memory.error);
    if (status != 0) {
        cuda_rows_close(rows);
        return status;
    }
    *out = rows;
    return 0;
}

void cuda_rows_close(struct rows *rows)
{
    if (!rows)
        return;
    cuda_use(rows->device);
    for (struct row_page &page : rows->pages)
        if (page.sent)
            cudaEventDestroy(page.sent);
    gpu_release(&rows->memory);
    mem_free(rows);
}

/* ---- Filling --------------------------------------------------------------------------------- */

struct row_page *rows_page(struct rows *rows)
{
    struct row_page *page = &rows->pages[rows->next_page];
    rows->next_page ^= 1;
    /* or the device is lost, and what is read there of no use */
    gpu_wait(rows->device->ordinal, page->sent);
    return page;
}

void rows_send(struct rows *rows, struct row_page *page, cudaStream_t stream)
{
    const struct row_table *table = &page->table;
    *table->n_rows = rows->most_rows;
    *table->n_groups = rows->most_groups;
    *table->n_tiles = rows->most_tiles;
    cudaMemcpyAsync(rows->table.n_rows, page->bytes, rows->table_bytes, cudaMemcpyHostToDevice,
                    stream);
    cudaEventRecord(page->sent, stream);
    rows_widen(rows);
}

void rows_clear(struct rows *rows, struct row_page *page, enum rows_kind kind)
{
    *static_cast<struct pass_bounds *>(rows) = {};
    rows->kind = kind;
    page->table.first[0] = 0;
}

void rows_add(struct rows *rows, struct row_page *page, size_t slot, size_t n)
{
    const struct row_table *table = &page->table;
    int sentence = rows->most_groups++, first = rows->most_rows, length = (int)n;
    table->group_slots[sentence] = (int32_t)slot;
    table->groups[3 * sentence] = (int32_t)slot;
    table->groups[3 * sentence + 1] = first;
    table->groups[3 * sentence + 2] = length;
    table->bases[sentence] = (int32_t)slot * rows->shape.positions;
    table->states[sentence] = turn_row(rows->shape, (int)slot, 1, 0);
    for (int i = 0; i < length; i++) {
        table->sentences[first + i] = sentence;
        table->slots[first + i] = (int32_t)slot;
    }
    for (int query = 0; query < length; query += ATTEND_TILE) {
        table->tiles[2 * rows->most_tiles] = sentence;
        table->tiles[2 * rows->most_tiles++ + 1] = query;
    }
    rows->most_rows += length;
    table->first[sentence + 1] = rows->most_rows;
    rows->most_group_rows = length > rows->most_group_rows ? length : rows->most_group_rows;
    rows->longest = rows->most_group_rows;
}

/* ---- Classes --------------------------------------------------------------------------------- */

enum {
    LEAST_LENGTH = 8,    /* of sentences: an LSTM has launches for each token */
    LEAST_ATTENDED = 64, /* of sources and paths */
};

/* The next power of 2 from `least` on, but not more than there can be; 0 stays 0. */
static int class_of(int n, int least, size_t most)
{
    int rounded = least;
    while (rounded < n)
        rounded *= 2;
    return n == 0 ? 0 : rounded < (int)most ? rounded : (int)most;
}

void rows_widen(struct rows *rows)
{
    const struct slots_shape *shape = &rows->shape;
    size_t beams = (size_t)shape->n_slots * (size_t)shape->beam;
    size_t positions = (size_t)shape->positions;
    bool is_step = rows->kind == ROWS_STEP;
    rows->most_rows = class_of(rows->most_rows, 1, is_step ? beams : rows->max_rows);
    rows->most_groups = class_of(rows->most_groups, 1, rows->n_slots);
    rows->most_group_rows =
        class_of(rows->most_group_rows, 1, is_step ? (size_t)shape->beam : positions);
    rows->most_tiles = class_of(rows->most_tiles, 1, rows->max_tiles);
    rows->longest = class_of(rows->longest, LEAST_LENGTH, positions);
    rows->longest_source = class_of(rows->longest_source, LEAST_ATTENDED, positions);
    rows->longest_path = class_of(rows->longest_path, LEAST_ATTENDED, positions);
}
