/*
 * The passes of areas.py over a line's features on a CPU, item by item, so that what is summed over
 * areas stays in the cache. Compiled by native.py, called by features.py alone.
 *
 * A row is one head's memory: items [L][d], and planes [A][L][d] of areas of 1 ... A items, each at
 * its last item. As in areas.py, areas that would begin before the line have zeros there.
 */
#include "rows.h"
#include <math.h>
#include <stdlib.h>

static const float epsilon = 1e-6f; /* EPSILON of areas.py */

/* Data are bfloat16 or float, except those of sizes. A pass uses what it needs. */
typedef struct {
    const void *items;    /* [rows][L][d] */
    const void *planes;   /* [rows][A][L][d] */
    const void *gradient; /* [rows][A][L][d], of what the pass made forwards */
    const float *sizes;   /* [A][d] */
    void *made_items;     /* [rows][L][d] */
    void *made_planes;    /* [rows][A][L][d] */
    float *made_sizes;    /* [rows][A][d], zero */
    int64_t rows, length, depth;
    int width, threads;
    bool is_bf16;
} Task;

/* What one thread works in; `lead` begins the allocation. */
typedef struct {
    float *lead;   /* [A - 1][d], zero, before: */
    float *items;  /* [L][d] */
    float *spill;  /* [A - 1][d], what the items before the line are given, before: */
    float *given;  /* [L][d], gradients of the items */
    float *sum;    /* [d], here and below of the areas that end with one item */
    float *square; /* [d] */
    float *area;   /* [d] */
    float *hidden; /* [d] */
    float *pull;   /* [A][d] */
    float *turn;   /* [A][d] */
} Room;

typedef void Pass(const Task *task, const Room *room, int64_t row);

static bool make_room(Room *room, const Task *task)
{
    size_t depth = (size_t)task->depth, width = (size_t)task->width;
    size_t before = (width - 1) * depth, line = (size_t)task->length * depth;
    float *lead = calloc(2 * (before + line) + (4 + 2 * width) * depth, sizeof *lead);
    if (!lead)
        return false;
    float *items = lead + before, *spill = items + line, *given = spill + before;
    float *sum = given + line, *pull = sum + 4 * depth;
    *room = (Room){lead,        items,           spill,           given, sum,
                   sum + depth, sum + 2 * depth, sum + 3 * depth, pull,  pull + width * depth};
    return true;
}

static int64_t place(const Task *task, int64_t row, int w, int64_t last)
{
    return ((row * task->width + w - 1) * task->length + last) * task->depth;
}

static void load_items(const Task *task, const Room *room, int64_t row)
{
    int64_t line = task->length * task->depth;
    load(room->items, task->items, row * line, line, task->is_bf16);
}

static void begin_sums(const Task *task, const Room *room)
{
    memset(room->sum, 0, 2 * (size_t)task->depth * sizeof *room->sum); /* and the squares */
}

/* Takes the first item of the area of w items into the sums; what each item is off the last one
   is summed, so that of equal items the variance is exactly 0. */
static inline void add_offsets(const Task *task, const Room *room, const float *last, int w)
{
    const float *item = last - (w - 1) * task->depth;
    float *sum = room->sum, *square = room->square;
#pragma omp simd
    for (int64_t c = 0; c < task->depth; c++) {
        float offset = item[c] - last[c];
        sum[c] += offset;
        square[c] += offset * offset;
    }
}

static inline float deviation(float mean, float square)
{
    return sqrtf(fabsf(square - mean * mean) + epsilon);
}

static void row_deviations(const Task *task, const Room *room, int64_t row)
{
    float *sum = room->sum, *square = room->square, *area = room->area;
    load_items(task, room, row);
    for (int64_t j = 0; j < task->length; j++) {
        begin_sums(task, room);
        for (int w = 1; w <= task->width; w++) {
            float part = 1.0f / (float)w;
            add_offsets(task, room, room->items + j * task->depth, w);
#pragma omp simd
            for (int64_t c = 0; c < task->depth; c++)
                area[c] = deviation(sum[c] * part, square[c] * part);
            store(task->made_planes, place(task, row, w, j), area, task->depth, task->is_bf16);
        }
    }
}

/* An area's deviation moves with each item by (item - mean) / (w * deviation). Item j - t is in the
   areas up to j that are wider than t: from the widest on, what those pull is summed. */
static void give_pulls(const Task *task, const Room *room, int64_t j)
{
    int64_t depth = task->depth;
    const float *last = room->items + j * depth;
    float *sum = room->sum, *turns = room->square;
    begin_sums(task, room);
    for (int w = task->width; w >= 1; w--) {
        const float *pull = room->pull + (w - 1) * depth, *turn = room->turn + (w - 1) * depth;
        const float *item = last - (w - 1) * depth;
        float *given = room->given + (j - w + 1) * depth;
#pragma omp simd
        for (int64_t c = 0; c < depth; c++) {
            sum[c] += pull[c];
            turns[c] += turn[c];
            given[c] += (item[c] - last[c]) * sum[c] - turns[c];
        }
    }
}

static void begin_given(const Task *task, const Room *room)
{
    size_t items = (size_t)(task->width - 1 + task->length);
    memset(room->spill, 0, items * (size_t)task->depth * sizeof *room->spill);
}

static void store_given(const Task *task, const Room *room, int64_t row)
{
    int64_t line = task->length * task->depth;
    store(task->made_items, row * line, room->given, line, task->is_bf16);
}

static void row_deviations_back(const Task *task, const Room *room, int64_t row)
{
    int64_t depth = task->depth;
    float *sum = room->sum, *square = room->square, *area = room->area;
    load_items(task, room, row);
    begin_given(task, room);
    for (int64_t j = 0; j < task->length; j++) {
        begin_sums(task, room);
        for (int w = 1; w <= task->width; w++) {
            float *pull = room->pull + (w - 1) * depth, *turn = room->turn + (w - 1) * depth;
            float part = 1.0f / (float)w;
            load(area, task->gradient, place(task, row, w, j), depth, task->is_bf16);
            add_offsets(task, room, room->items + j * depth, w);
#pragma omp simd
            for (int64_t c = 0; c < depth; c++) {
                float mean = sum[c] * part;
                pull[c] = area[c] * part / deviation(mean, square[c] * part);
                turn[c] = pull[c] * mean;
            }
        }
        give_pulls(task, room, j);
    }
    store_given(task, room, row);
}

/* relu of the mean of the items, the area's own plane and what its size adds. */
static void row_hidden(const Task *task, const Room *room, int64_t row)
{
    int64_t depth = task->depth;
    float *sum = room->sum, *area = room->area;
    load_items(task, room, row);
    for (int64_t j = 0; j < task->length; j++) {
        begin_sums(task, room);
        for (int w = 1; w <= task->width; w++) {
            const float *item = room->items + (j - w + 1) * depth;
            const float *size = task->sizes + (w - 1) * depth;
            float part = 1.0f / (float)w;
            load(area, task->planes, place(task, row, w, j), depth, task->is_bf16);
#pragma omp simd
            for (int64_t c = 0; c < depth; c++) {
                sum[c] += item[c];
                float x = sum[c] * part + area[c] + size[c];
                area[c] = x < 0 ? 0 : x; /* a NaN stays */
            }
            store(task->made_planes, place(task, row, w, j), area, depth, task->is_bf16);
        }
    }
}

/* `planes` are those that row_hidden() made. */
static void row_hidden_back(const Task *task, const Room *room, int64_t row)
{
    int64_t depth = task->depth;
    float *sum = room->sum, *area = room->area, *hidden = room->hidden;
    begin_given(task, room);
    for (int64_t j = 0; j < task->length; j++) {
        begin_sums(task, room);
        for (int w = task->width; w >= 1; w--) { /* as in give_pulls() */
            float *given = room->given + (j - w + 1) * depth;
            float *size = task->made_sizes + (row * task->width + w - 1) * depth;
            float part = 1.0f / (float)w;
            load(hidden, task->planes, place(task, row, w, j), depth, task->is_bf16);
            load(area, task->gradient, place(task, row, w, j), depth, task->is_bf16);
#pragma omp simd
            for (int64_t c = 0; c < depth; c++) {
                area[c] = hidden[c] <= 0 ? 0 : area[c];
                size[c] += area[c];
                sum[c] += area[c] * part;
                given[c] += sum[c];
            }
            store(task->made_planes, place(task, row, w, j), area, depth, task->is_bf16);
        }
    }
    store_given(task, room, row);
}

/* Returns whether there was memory. */
static bool each_row(const Task *task, Pass *pass)
{
    bool has_room = true;
#pragma omp parallel num_threads(task->threads) reduction(&& : has_room)
    {
        Room room;
        has_room = make_room(&room, task);
#pragma omp for
        for (int64_t row = 0; row < task->rows; row++)
            if (has_room)
                pass(task, &room, row);
        if (has_room)
            free(room.lead);
    }
    return has_room;
}

bool deviations(const Task *task)
{
    return each_row(task, row_deviations);
}

bool deviations_back(const Task *task)
{
    return each_row(task, row_deviations_back);
}

bool hidden(const Task *task)
{
    return each_row(task, row_hidden);
}

bool hidden_back(const Task *task)
{
    return each_row(task, row_hidden_back);
}
