#include "device/cpu/rows.h"

#include "base/mem.h"
#include "device/cpu/attention.h"

static void place(struct rows *rows, size_t max_rows, const struct store_shape *shape)
{
    struct arena *arena = &rows->arena;
    size_t n = shape->n_slots, step = n * shape->max_beam, best = step * 2 * shape->max_beam;
    rows->ids = arena_take(arena, max_rows, sizeof(*rows->ids));
    rows->positions = arena_take(arena, max_rows, sizeof(*rows->positions));
    rows->groups = arena_take(arena, n, sizeof(*rows->groups));
    rows->first = arena_take(arena, n + 1, sizeof(*rows->first));
    rows->memory = arena_take(arena, n, sizeof(*rows->memory));
    rows->scans = arena_take(arena, max_rows, sizeof(*rows->scans));
    rows->best = arena_take(arena, best > max_rows ? best : max_rows, sizeof(*rows->best));
    rows->paths = arena_take(arena, step, sizeof(*rows->paths));
    rows->lengths = arena_take(arena, step, sizeof(*rows->lengths));
}

int cpu_rows_open(struct device *device, size_t max_rows, const struct store_shape *shape,
                  struct rows **out)
{
    (void)device;
    struct rows *rows = mem_calloc(1, sizeof(*rows));
    if (!rows)
        return ACRE_ENOMEM;
    place(rows, max_rows, shape);
    if (arena_open(&rows->arena) != 0) {
        cpu_rows_close(rows);
        return ACRE_ENOMEM;
    }
    place(rows, max_rows, shape);
    *out = rows;
    return 0;
}

void cpu_rows_close(struct rows *rows)
{
    if (rows)
        arena_close(&rows->arena);
    mem_free(rows);
}
