/*
 * The two passes of area.py on a CPU, a row of scores at a time, so that all its areas stay in the
 * cache; and those of areas.py, where areas have logits of their own. Compiled by native.py, called
 * by coverage.py alone.
 *
 * A row has the scores of L items, padded to P; areas are of up to A adjacent ones. e_w(j), the
 * exponential of the area of w items that starts at j, stands at areas[w - 1][A - 1 + j], after
 * A - 1 zeros. Logits of areas, [A][L] in a row, stand at the areas' last items: from
 * areas[w - 1][A - w] on, so that the areas that would begin before the line fall on zeros.
 */
#include "exponential.h"
#include "rows.h"
#include <math.h>
#include <stdlib.h>

static const float masked = -1e4f; /* MASKED of area.py; `lowest` is its LOWEST */
enum { vector = 16 };              /* floats of the widest vectors there are */

/* What the rows of one pass have in common; data are bfloat16 or float. */
typedef struct {
    int64_t length;
    int64_t padded; /* length to whole vectors; the items more than that are masked */
    int width;
    bool means, is_bf16;
    const uint8_t *shown; /* [rows][L] where scores are the logits of areas, [rows][A][L] */
} Shape;

/* What one thread works in; `scores` begins the allocation. */
typedef struct {
    float *scores;   /* [P + A - 1], masked from L on; of areas, only that */
    float *gradient; /* [P + A - 1], zero from L on */
    float *sums;     /* [P] */
    float *products; /* [A][P], areas' exponentials times their gradients */
    float *areas;    /* [A][A - 1 + P] */
} Room;

static bool make_room(Room *room, const Shape *shape)
{
    size_t padded = (size_t)shape->padded, width = (size_t)shape->width, row = padded + width - 1;
    float *scores = calloc(2 * row + padded + width * (padded + row), sizeof *scores);
    if (!scores)
        return false;
    float *gradient = scores + row, *sums = gradient + row, *products = sums + padded;
    *room = (Room){scores, gradient, sums, products, products + width * padded};
    for (size_t j = (size_t)shape->length; j < row; j++)
        scores[j] = shape->shown ? -INFINITY : masked;
    return true;
}

static float *area_row(const Room *room, const Shape *shape, int w)
{
    int before = shape->width - 1;
    return room->areas + (size_t)(w - 1) * (size_t)(shape->padded + before) + before;
}

/* Fills the areas with their logits, all from `lowest` to 0. Compilers would make branches of it if
   the loop that takes the exponentials saw to the lowest. */
static void logits_of_items(Room *room, const Shape *shape, const void *scores, int64_t row)
{
    float *items = room->scores, largest = -INFINITY; /* through `room` they would be gathered */
    load(items, scores, row * shape->length, shape->length, shape->is_bf16);
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < shape->length; j++)
        largest = items[j] > largest ? items[j] : largest;
    for (int64_t j = 0; j < shape->length; j++)
        items[j] -= largest;
    memset(room->sums, 0, (size_t)shape->padded * sizeof *room->sums);
    for (int w = 1; w <= shape->width; w++) {
        const float *last = items + w - 1;
        float *area = area_row(room, shape, w), part = 1.0f / (float)w;
        for (int64_t j = 0; j < shape->padded; j++) {
            room->sums[j] += last[j];
            float logit = room->sums[j] * part;
            area[j] = logit < lowest ? lowest : logit; /* a NaN stays */
        }
    }
}

/* Likewise; the lowest where an item is not shown. */
static void load_logits(Room *room, const Shape *shape, const void *logits, int64_t row)
{
    int64_t length = shape->length, padded = shape->padded;
    float *sums = room->sums, largest = -INFINITY;
    for (int64_t j = 0; j < length; j++)
        room->scores[j] = shape->shown[row * length + j] ? 0 : -INFINITY;
    memset(room->sums, 0, (size_t)padded * sizeof *room->sums);
    for (int w = 1; w <= shape->width; w++) {
        const float *last = room->scores + w - 1;
        float *area = area_row(room, shape, w), *begin = area - (w - 1);
        load(begin, logits, (row * shape->width + w - 1) * length, length, shape->is_bf16);
        memset(begin, 0, (size_t)(w - 1) * sizeof *begin);
        memset(begin + length, 0, (size_t)(padded - length + w - 1) * sizeof *begin);
#pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < padded; j++) {
            sums[j] += last[j];
            area[j] += sums[j];
            largest = area[j] > largest ? area[j] : largest;
        }
    }
    for (int w = 1; w <= shape->width; w++) {
        float *area = area_row(room, shape, w);
        for (int64_t j = 0; j < padded; j++) {
            float logit = area[j] - largest;
            area[j] = logit < lowest ? lowest : logit; /* a NaN stays */
        }
    }
}

/* Makes the areas' logits their exponentials; returns the sum of those. */
static float take_exponentials(Room *room, const Shape *shape)
{
    float total = 0;
    for (int w = 1; w <= shape->width; w++) {
        float *area = area_row(room, shape, w);
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < shape->padded; j++) {
            area[j] = exponential(area[j]);
            total += area[j];
        }
    }
    return total;
}

/* sums[j]: of all areas that contain item j, times `factor`. Item j + t is in the areas from j that
   are wider than t: those are summed first, in place. */
static void spread_over_items(Room *room, const Shape *shape, float factor)
{
    int64_t padded = shape->padded;
    for (int w = shape->width - 1; w >= 1; w--) {
        float *area = area_row(room, shape, w);
        const float *longer = area_row(room, shape, w + 1);
        for (int64_t j = 0; j < padded; j++)
            area[j] += longer[j];
    }
    memset(room->sums, 0, (size_t)padded * sizeof *room->sums);
    for (int w = 1; w <= shape->width; w++) {
        const float *area = area_row(room, shape, w) - (w - 1);
        for (int64_t j = 0; j < padded; j++)
            room->sums[j] += area[j] * factor;
    }
}

static void row_coverage(Room *room, const Shape *shape)
{
    float total = take_exponentials(room, shape);
    for (int w = 2; shape->means && w <= shape->width; w++) {
        float *area = area_row(room, shape, w);
        for (int64_t j = 0; j < shape->padded; j++)
            area[j] /= (float)w;
    }
    spread_over_items(room, shape, 1 / total);
}

/* Makes the areas' exponentials the gradients of their logits. As in softmax, an area's probability
   moves with its gradient less the mean gradient. */
static void area_gradients(Room *room, const Shape *shape)
{
    int64_t padded = shape->padded;
    float *sums = room->sums, total = take_exponentials(room, shape), mean = 0;
    memset(room->sums, 0, (size_t)padded * sizeof *room->sums);
    for (int w = 1; w <= shape->width; w++) {
        const float *last = room->gradient + w - 1, *area = area_row(room, shape, w);
        float *product = room->products + (w - 1) * padded,
              share = shape->means ? 1.0f / (float)w : 1;
#pragma omp simd reduction(+ : mean)
        for (int64_t j = 0; j < padded; j++) {
            sums[j] += last[j];
            product[j] = area[j] * sums[j] * share;
            mean += product[j];
        }
    }
    float part = 1 / total;
    mean *= part;
    for (int w = 1; w <= shape->width; w++) {
        const float *product = room->products + (w - 1) * padded;
        float *area = area_row(room, shape, w);
        for (int64_t j = 0; j < padded; j++)
            area[j] = (product[j] - mean * area[j]) * part;
    }
}

/* An item's score is an equal part of the logits of the areas that contain it. */
static void store_gradient(Room *room, const Shape *shape, void *made, int64_t row)
{
    for (int w = 1; w <= shape->width; w++) {
        float *area = area_row(room, shape, w);
        for (int64_t j = 0; j < shape->padded; j++)
            area[j] /= (float)w;
    }
    spread_over_items(room, shape, 1);
    store(made, row * shape->length, room->sums, shape->length, shape->is_bf16);
}

static void store_gradients(Room *room, const Shape *shape, void *made, int64_t row)
{
    for (int w = 1; w <= shape->width; w++)
        store(made, (row * shape->width + w - 1) * shape->length,
              area_row(room, shape, w) - (w - 1), shape->length, shape->is_bf16);
}

static void one_row(Room *room, const Shape *shape, const void *scores, const void *gradient,
                    void *made, int64_t row)
{
    int64_t length = shape->length;
    (shape->shown ? load_logits : logits_of_items)(room, shape, scores, row);
    if (gradient) {
        load(room->gradient, gradient, row * length, length, shape->is_bf16);
        area_gradients(room, shape);
        (shape->shown ? store_gradients : store_gradient)(room, shape, made, row);
    } else {
        row_coverage(room, shape);
        store(made, row * length, room->sums, length, shape->is_bf16);
    }
}

/*
 * From scores [rows, L] makes coverage [rows, L], or with a gradient [rows, L] of the coverage that
 * of the scores, in `made`. With `shown`, scores and their gradient are those of areas [rows, A, L]
 * all of whose items are shown. All are bfloat16, or all float. Returns whether there was memory.
 */
bool pass_rows(const void *scores, const uint8_t *shown, const void *gradient, void *made,
               int64_t rows, int64_t length, int width, bool means, bool is_bf16, int threads)
{
    int64_t padded = (length + vector - 1) / vector * vector;
    const Shape shape = {length, padded, width, means, is_bf16, shown};
    bool has_room = true;
#pragma omp parallel num_threads(threads) reduction(&& : has_room)
    {
        Room room;
        has_room = make_room(&room, &shape);
#pragma omp for
        for (int64_t row = 0; row < rows; row++)
            if (has_room)
                one_row(&room, &shape, scores, gradient, made, row);
        if (has_room)
            free(room.scores);
    }
    return has_room;
}
