/* layout.h - where things stand in the charts of one sentence's attention.
 *
 * A chart is of one layer and head: columns are input tokens, rows are output tokens, and in a row
 * areas are bars; those that overlap stand in lanes below each other, the heaviest on top. Where
 * the charts of a layer fit side by side, a row is as high in all of them. A source that is a grid
 * is drawn as one in each row. Sizes are pixels. No state, any thread.
 */
#ifndef SERVER_ATTENTION_LAYOUT_H
#define SERVER_ATTENTION_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"
#include "attention/labels.h"

/* Areas that weigh less are not drawn, and so there are at most so many in a row. The heaviest of a
 * row is drawn where it is known. */
#define ATTENTION_LAYOUT_LEAST 0.05F
enum { ATTENTION_LAYOUT_MOST = 20 };

enum {
    ATTENTION_LAYOUT_FONT = 12,
    ATTENTION_LAYOUT_LANE = 14,   /* of bars, with the gap below them */
    ATTENTION_LAYOUT_CELL = 18,   /* a row of a source that is a grid */
    ATTENTION_LAYOUT_ROW_GAP = 4, /* between the bars of two rows */
    ATTENTION_LAYOUT_GAP = 28     /* between charts */
};

struct attention_layout {
    const struct acre_attention *attention;
    struct attention_labels source, target;
    const char *unit;      /* "token" or "byte" */
    bool is_grid;          /* the source is one */
    bool is_turned;        /* the labels of the columns are */
    bool has_footer;       /* they stand below the rows as well */
    int left, top, header; /* where columns and rows begin, and how high their labels are */
    int width;             /* of a chart */
    int *columns;          /* owned, [n_columns + 1], their edges from `left` on */
    int *rows;             /* owned, [n_layers, n_heads, n_target + 1], from `top` on */
    size_t across;         /* how many charts of a layer stand side by side */
};

/* `attention` is borrowed until it is closed. False without memory. */
bool attention_layout_open(struct attention_layout *layout, const struct acre_attention *attention,
                           const char *unit);
void attention_layout_close(struct attention_layout *layout);

/* The edges of a chart's rows. */
const int *attention_layout_rows(const struct attention_layout *layout, size_t layer, size_t head);

int attention_layout_height(const struct attention_layout *layout, size_t layer, size_t head);

/* The areas of a row that are drawn. */
const struct acre_area *attention_layout_areas(const struct acre_attention *attention, size_t layer,
                                               size_t head, size_t row, size_t *n);

/* Finds a lane for each area of a row; returns how many lanes there are. */
int attention_layout_lanes(const struct acre_area *areas, size_t n,
                           int lanes[ATTENTION_LAYOUT_MOST]);

#endif
