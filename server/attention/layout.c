/* Happy path: columns from the widths of labels, rows from how many areas overlap, then the charts
 * of a layer side by side.
 * Failure modes: no memory: false. Sizes are bounded by ATTENTION_LAYOUT_MOST areas a row. */
#include "attention/layout.h"

#include <stdlib.h>

#include "common/markup.h" /* markup_width() */

enum {
    TITLE = 26,  /* the height of the line that names layer and head */
    HEADER = 18, /* of labels that are not turned */
    GUTTER = 36, /* at the right, for the weight of what is not drawn */
    TALL = 24,   /* rows from which on there is a footer */
    WIDE = 1150, /* columns that would be wider together get narrow */
    NARROW = 19, /* a column whose label is turned */
    LEAST_WIDTH = 130,
    MOST_WIDTH = 1700 /* of charts side by side */
};

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- Areas ----------------------------------------------------------------------------------- */

const struct acre_area *attention_layout_areas(const struct acre_attention *attention, size_t layer,
                                               size_t head, size_t row, size_t *n)
{
    const size_t place = (layer * attention->n_heads + head) * attention->n_target + row;
    const struct acre_area *areas = attention->areas + attention->first[place];
    const size_t n_areas = attention->first[place + 1] - attention->first[place];

    for (*n = 0; *n < n_areas && *n < ATTENTION_LAYOUT_MOST; ++*n)
        if (*n > 0 && areas[*n].weight < ATTENTION_LAYOUT_LEAST)
            break;
    return areas;
}

static bool are_apart(const struct acre_area *a, const struct acre_area *b)
{
    return a->first + a->width <= b->first || b->first + b->width <= a->first;
}

/* Whether area i can stand in a lane beside those before it. */
static bool is_free(const struct acre_area *areas, const int *lanes, size_t i, int lane)
{
    for (size_t k = 0; k < i; k++)
        if (lanes[k] == lane && !are_apart(&areas[k], &areas[i]))
            return false;
    return true;
}

int attention_layout_lanes(const struct acre_area *areas, size_t n,
                           int lanes[ATTENTION_LAYOUT_MOST])
{
    int n_lanes = 0;

    for (size_t i = 0; i < n; i++) {
        lanes[i] = 0;
        while (!is_free(areas, lanes, i, lanes[i]))
            lanes[i]++;
        n_lanes = larger(n_lanes, lanes[i] + 1);
    }
    return n_lanes;
}

/* ---- Columns --------------------------------------------------------------------------------- */

static bool is_of_bytes(const struct attention_layout *layout)
{
    return layout->unit[0] == 'b';
}

static int label_width(const struct attention_label *label)
{
    return (markup_width(label->text, label->text_bytes) * ATTENTION_LAYOUT_FONT + 999) / 1000;
}

static int widest_label(const struct attention_labels *labels)
{
    int widest = 0;

    for (size_t i = 0; i < labels->n; i++)
        widest = larger(widest, label_width(&labels->items[i]));
    return widest;
}

/* The width of the columns below a label. */
static int wide_column(const struct attention_layout *layout, const struct attention_label *label)
{
    if (is_of_bytes(layout))
        return larger(larger(label_width(label) + 4, 15), 7 * (int)label->n_tokens);
    return larger(label_width(label) + 10, 24);
}

static int narrow_column(const struct attention_layout *layout, const struct attention_label *label)
{
    if (is_of_bytes(layout))
        return larger(larger(label_width(label) + 2, 10), 6 * (int)label->n_tokens);
    return NARROW;
}

static void lay_columns(struct attention_layout *layout)
{
    const struct attention_labels *labels = &layout->source;
    int total = 0, edge = 0;

    for (size_t i = 0; i < labels->n; i++)
        total += wide_column(layout, &labels->items[i]);
    layout->is_turned = total > WIDE && !is_of_bytes(layout);
    for (size_t i = 0; i < labels->n; i++) {
        const struct attention_label *label = &labels->items[i];
        const int width = total > WIDE ? narrow_column(layout, label) : wide_column(layout, label);
        const int n = (int)label->n_tokens;

        for (int k = 0; k < n; k++)
            layout->columns[(int)label->first + k] = edge + width * k / n;
        edge += width;
    }
    layout->columns[layout->attention->n_source] = edge;
}

/* As wide as the widest label in them. */
static void lay_grid_columns(struct attention_layout *layout)
{
    const struct acre_attention *a = layout->attention;
    const struct attention_labels *labels = &layout->source;

    for (size_t i = 0; i < a->n_columns; i++) {
        int width = 0;

        for (size_t k = i; k < a->n_source; k += a->n_columns)
            width = larger(width, wide_column(layout, &labels->items[labels->of_token[k]]));
        layout->columns[i + 1] = layout->columns[i] + width;
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int *rows_of(const struct attention_layout *layout, size_t layer, size_t head)
{
    const struct acre_attention *a = layout->attention;

    return layout->rows + (layer * a->n_heads + head) * (a->n_target + 1);
}

const int *attention_layout_rows(const struct attention_layout *layout, size_t layer, size_t head)
{
    return rows_of(layout, layer, head);
}

static int row_height(const struct attention_layout *layout, size_t layer, size_t head, size_t row)
{
    const struct acre_attention *a = layout->attention;
    int lanes[ATTENTION_LAYOUT_MOST], n_lanes;
    const struct acre_area *areas;
    size_t n;

    if (layout->is_grid)
        return (int)(a->n_source / a->n_columns) * ATTENTION_LAYOUT_CELL +
               2 * ATTENTION_LAYOUT_ROW_GAP;
    areas = attention_layout_areas(a, layer, head, row, &n);
    n_lanes = attention_layout_lanes(areas, n, lanes);
    return larger(n_lanes, 1) * ATTENTION_LAYOUT_LANE + ATTENTION_LAYOUT_ROW_GAP;
}

/* The same rows in all heads of a layer. */
static int aligned_height(const struct attention_layout *layout, size_t layer, size_t row)
{
    int most = 0;

    for (size_t head = 0; head < layout->attention->n_heads; head++)
        most = larger(most, row_height(layout, layer, head, row));
    return most;
}

static void lay_rows(struct attention_layout *layout, size_t layer, size_t head)
{
    int *rows = rows_of(layout, layer, head);

    for (size_t row = 0; row < layout->attention->n_target; row++)
        rows[row + 1] = rows[row] + (layout->across > 1 ? aligned_height(layout, layer, row)
                                                        : row_height(layout, layer, head, row));
}

/* ---- Charts ---------------------------------------------------------------------------------- */

/* As many as fit, so that there are as many in each line. */
static size_t charts_across(const struct attention_layout *layout)
{
    const size_t n_heads = layout->attention->n_heads;
    size_t across = n_heads;

    while (across > 1 && (n_heads % across > 0 ||
                          (int)across * (layout->width + ATTENTION_LAYOUT_GAP) > MOST_WIDTH))
        across--;
    return across;
}

static void lay_chart(struct attention_layout *layout)
{
    const struct acre_attention *a = layout->attention;
    const int numbers = a->n_target > layout->target.n ? 22 : 0; /* of a character's bytes */

    layout->is_grid = a->n_columns < a->n_source;
    if (layout->is_grid)
        lay_grid_columns(layout);
    else
        lay_columns(layout);
    layout->left = widest_label(&layout->target) + numbers + 10;
    layout->header = layout->is_turned ? widest_label(&layout->source) * 7 / 8 + HEADER / 2
                                       : HEADER; /* 7/8 is about the sine of 60 degrees */
    layout->top = TITLE + (layout->is_grid ? 0 : layout->header);
    layout->has_footer = a->n_target > TALL && !layout->is_grid;
    layout->width = larger(layout->left + layout->columns[a->n_columns] + GUTTER, LEAST_WIDTH);
    layout->across = charts_across(layout);
    for (size_t layer = 0; layer < a->n_layers; layer++)
        for (size_t head = 0; head < a->n_heads; head++)
            lay_rows(layout, layer, head);
}

bool attention_layout_open(struct attention_layout *layout, const struct acre_attention *attention,
                           const char *unit)
{
    const size_t n_charts = attention->n_layers * attention->n_heads;

    *layout = (struct attention_layout){.attention = attention, .unit = unit};
    layout->columns = calloc(attention->n_source + 1, sizeof(layout->columns[0]));
    layout->rows = calloc(n_charts * (attention->n_target + 1), sizeof(layout->rows[0]));
    if (!layout->columns || !layout->rows ||
        !attention_labels_open(&layout->source, attention->source, attention->n_source) ||
        !attention_labels_open(&layout->target, attention->target, attention->n_target)) {
        attention_layout_close(layout);
        return false;
    }
    lay_chart(layout);
    return true;
}

void attention_layout_close(struct attention_layout *layout)
{
    attention_labels_close(&layout->source);
    attention_labels_close(&layout->target);
    free(layout->columns);
    free(layout->rows);
    *layout = (struct attention_layout){.attention = NULL};
}

int attention_layout_height(const struct attention_layout *layout, size_t layer, size_t head)
{
    const int *rows = rows_of(layout, layer, head);

    return layout->top + rows[layout->attention->n_target] +
           (layout->has_footer ? layout->header : 2);
}
