/* Happy path: for each row its label, then a bar per area (or a grid of cells), the rest that is
 * not drawn, and a tooltip that says it in words. Only what layout.c placed is drawn
 * here. Only writing can fail, which is noticed when the file is closed. */
#include "attention/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/markup.h"

enum {
    LANE = ATTENTION_LAYOUT_LANE,
    CELL = ATTENTION_LAYOUT_CELL,
    ROW_GAP = ATTENTION_LAYOUT_ROW_GAP,
    LABELLED = 15 /* the narrowest bar that has room for its weight */
};

const char attention_chart_style[] =
    ".chart text{font:12px " MARKUP_FONT ";fill:#1c2733;white-space:pre}"
    ".chart .t{font-size:13px;font-weight:bold}"
    ".chart .m{fill:#8b94a1}"
    ".chart .u{fill:#b9c1cb}"
    ".chart .e{fill:#8b94a1;font-style:italic}"
    ".chart .w{font-size:9px;text-anchor:middle;fill:#0b2341}"
    ".chart .p{fill:#fff}"
    ".chart .r{font-size:9px;fill:#8b94a1}"
    ".chart .n{text-anchor:end}"
    ".chart .c{text-anchor:middle}"
    ".chart .z{fill:#f5f7f9}"
    ".chart .v{stroke:#e9ecf0;fill:none}"
    ".chart .b{stroke:#c3cad3;fill:none}"
    ".chart .w,.chart .c{pointer-events:none}";

/* ---- Shades ---------------------------------------------------------------------------------- */

/* "Blues" of colorbrewer2.org, from light to dark. */
static const unsigned char shades[][3] = {{247, 251, 255}, {222, 235, 247}, {198, 219, 239},
                                          {158, 202, 225}, {107, 174, 214}, {66, 146, 198},
                                          {33, 113, 181},  {8, 81, 156},    {8, 48, 107}};

static unsigned shade_of(double weight)
{
    const int last = (int)(sizeof(shades) / sizeof(shades[0])) - 1;
    const double at = fmin(0.1 + 0.9 * weight, 1.0) * last; /* a light one is still to be seen */
    const int below = at < last ? (int)at : last - 1;
    unsigned shade = 0;

    for (int i = 0; i < 3; i++) {
        const double from = shades[below][i], to = shades[below + 1][i];

        shade = shade << 8 | (unsigned)lround(from + (to - from) * (at - below));
    }
    return shade;
}

static bool is_dark(double weight)
{
    return weight > 0.6;
}

static void write_weight(FILE *out, double weight)
{
    if (weight >= 0.995)
        fputs("1.0", out);
    else
        fprintf(out, ".%02ld", lround(weight * 100));
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* What a token is called in a sentence about it. */
static void write_name(FILE *out, const struct attention_labels *labels, size_t token)
{
    const struct attention_label *label = &labels->items[labels->of_token[token]];
    size_t bytes;
    const char *plain = attention_labels_plain(labels, token, 1, &bytes);
    const bool is_blank = bytes == 1 && plain[0] == ' ';

    fputs("“", out);
    markup_text(out, is_blank ? label->text : plain, is_blank ? label->text_bytes : bytes);
    fputs("”", out);
    if (label->n_tokens > 1)
        fprintf(out, " (byte %zu of %zu)", token - label->first + 1, label->n_tokens);
}

/* The text an area covers, row by row. */
static void write_covered(FILE *out, const struct attention_layout *layout,
                          const struct acre_area *area)
{
    fputs("“", out);
    for (int row = 0; row < area->height; row++) {
        const size_t first = (size_t)area->first + (size_t)row * layout->attention->n_columns;
        size_t bytes;
        const char *plain =
            attention_labels_plain(&layout->source, first, (size_t)area->width, &bytes);

        fputs(row > 0 ? " / " : "", out);
        markup_text(out, plain, bytes);
    }
    fputs("”", out);
}

static bool splits_character(const struct attention_layout *layout, const struct acre_area *area)
{
    const struct attention_labels *labels = &layout->source;
    const size_t first = (size_t)area->first, last = first + (size_t)area->width - 1;
    const struct attention_label *end = &labels->items[labels->of_token[last]];

    return labels->items[labels->of_token[first]].first != first ||
           end->first + end->n_tokens - 1 != last;
}

static void write_tooltip(FILE *out, const struct attention_layout *layout, size_t row,
                          const struct acre_area *area)
{
    const int last = area->first + area->width;

    fputs("<title>", out);
    write_name(out, &layout->target, row);
    fputs(" ← ", out);
    write_covered(out, layout, area);
    fprintf(out, " %.3f, %s%s %d", (double)area->weight, layout->unit, area->width > 1 ? "s" : "",
            area->first + 1);
    if (area->width > 1)
        fprintf(out, "–%d", last);
    fprintf(out, " of %zu", layout->attention->n_source);
    if (area->height > 1)
        fprintf(out, " and what is below in %d rows of %zu", area->height,
                layout->attention->n_columns);
    if (splits_character(layout, area))
        fputs(", not all bytes of a character", out);
    fputs("</title>", out);
}

static void write_description(FILE *out, const struct attention_layout *layout, size_t layer,
                              size_t head)
{
    fputs("<desc>The heaviest range of each output token. ", out);
    for (size_t row = 0; row < layout->attention->n_target; row++) {
        size_t n;
        const struct acre_area *areas =
            attention_layout_areas(layout->attention, layer, head, row, &n);

        write_name(out, &layout->target, row);
        if (n > 0) {
            fputs(": ", out);
            write_covered(out, layout, areas);
            fprintf(out, " %.2f. ", (double)areas[0].weight);
        } else {
            fputs(": none. ", out);
        }
    }
    fputs("</desc>", out);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static int columns_width(const struct attention_layout *layout)
{
    return layout->columns[layout->attention->n_columns];
}

static bool begins_word(const struct attention_label *label)
{
    return label->plain_bytes > 0 && label->plain[0] == ' ';
}

/* A pale mark, black text. */
static void draw_label_text(FILE *out, const struct attention_label *label)
{
    if (label->kind == LABEL_TEXT && begins_word(label)) {
        uint32_t code;
        const size_t mark = markup_character(label->text, &code);

        fputs("<tspan class=\"u\">", out);
        markup_text(out, label->text, mark);
        fputs("</tspan>", out);
        markup_text(out, label->text + mark, label->text_bytes - mark);
    } else {
        markup_text(out, label->text, label->text_bytes);
    }
}

static const char *label_class(const struct attention_label *label)
{
    if (label->kind == LABEL_END)
        return " e";
    return label->kind == LABEL_TEXT ? "" : " m";
}

static void draw_column_labels(const struct attention_layout *layout, int y, bool is_below,
                               FILE *out)
{
    for (size_t i = 0; i < layout->source.n; i++) {
        const struct attention_label *label = &layout->source.items[i];
        const int from = layout->columns[label->first];
        const int to = layout->columns[label->first + label->n_tokens];
        const int x = layout->left + (from + to) / 2;

        if (!layout->is_turned)
            fprintf(out, "<text class=\"c%s\" x=\"%d\" y=\"%d\">", label_class(label), x,
                    is_below ? y + 14 : y - 6);
        else
            fprintf(out, "<text class=\"d%s\" transform=\"translate(%d %d) rotate(%d)\">",
                    label_class(label), is_below ? x - 4 : x + 2, is_below ? y + 10 : y - 5,
                    is_below ? 60 : -60);
        draw_label_text(out, label);
        fputs("</text>\n", out);
    }
}

/* Lines between columns: all of them, or those where a word begins. */
static void draw_lines(const struct attention_layout *layout, int height, bool of_words, FILE *out)
{
    fprintf(out, "<path class=\"%s\" d=\"", of_words ? "b" : "v");
    for (size_t i = 0; i < layout->source.n; i++) {
        const struct attention_label *label = &layout->source.items[i];

        if ((i > 0 && begins_word(label)) == of_words)
            fprintf(out, "M%d.5 %dv%d", layout->left + layout->columns[label->first], layout->top,
                    height);
    }
    if (!of_words)
        fprintf(out, "M%d.5 %dv%d", layout->left + columns_width(layout), layout->top, height);
    fputs("\"/>\n", out);
}

static void draw_background(const struct attention_layout *layout, size_t layer, size_t head,
                            FILE *out)
{
    const int *rows = attention_layout_rows(layout, layer, head);
    const size_t n = layout->attention->n_target;

    for (size_t row = 0; row < n; row += 2)
        fprintf(out, "<rect class=\"z\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", 0,
                layout->top + rows[row], layout->left + columns_width(layout),
                rows[row + 1] - rows[row]);
    if (layout->is_grid)
        return;
    draw_lines(layout, rows[n], false, out);
    draw_lines(layout, rows[n], true, out);
    draw_column_labels(layout, layout->top, false, out);
    if (layout->has_footer)
        draw_column_labels(layout, layout->top + rows[n], true, out);
}

static void draw_row_label(const struct attention_layout *layout, size_t row, int y, FILE *out)
{
    const struct attention_label *label = &layout->target.items[layout->target.of_token[row]];

    fprintf(out, "<text class=\"n%s\" x=\"%d\" y=\"%d\">", label_class(label), layout->left - 6, y);
    draw_label_text(out, label);
    if (label->n_tokens > 1)
        fprintf(out, "<tspan class=\"r\"> %zu/%zu</tspan>", row - label->first + 1,
                label->n_tokens);
    fputs("</text>\n", out);
}

/* The weight of all areas of a row that are not drawn. */
static void draw_rest(const struct attention_layout *layout, const struct acre_area *areas,
                      size_t n, int y, FILE *out)
{
    double rest = 1.0;

    for (size_t i = 0; i < n; i++)
        rest -= (double)areas[i].weight;
    if (rest < 0.005)
        return;
    fprintf(out,
            "<text class=\"r\" x=\"%d\" y=\"%d\"><title>Together, what is not drawn: %.3f"
            "</title>+",
            layout->left + columns_width(layout) + 5, y - 1, rest);
    write_weight(out, rest);
    fputs("</text>\n", out);
}

/* The heaviest has an outline. */
static void draw_rect(int x, int y, int width, int height, double weight, bool is_heaviest,
                      FILE *out)
{
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#%06x\"", x, y,
            width, height, shade_of(weight));
    if (is_heaviest)
        fprintf(out, " stroke=\"#%06x\"", shade_of(weight + 0.35));
    fputs("/>", out);
}

static void draw_bar(const struct attention_layout *layout, size_t row,
                     const struct acre_area *area, bool is_heaviest, int y, FILE *out)
{
    const int left = layout->left + layout->columns[area->first];
    const int width = layout->columns[area->first + area->width] - layout->columns[area->first];
    const double weight = (double)area->weight;

    fputs("<g>", out);
    write_tooltip(out, layout, row, area);
    draw_rect(left + 1, y, width - 1, LANE - 2, weight, is_heaviest, out);
    if (width >= LABELLED) {
        fprintf(out, "<text class=\"w%s\" x=\"%g\" y=\"%d\">", is_dark(weight) ? " p" : "",
                left + (width + 1) / 2.0, y + 9);
        write_weight(out, weight);
        fputs("</text>", out);
    }
    fputs("</g>\n", out);
}

static void draw_bars(const struct attention_layout *layout, size_t row,
                      const struct acre_area *areas, size_t n, int top, FILE *out)
{
    int lanes[ATTENTION_LAYOUT_MOST];

    attention_layout_lanes(areas, n, lanes);
    for (size_t i = n; i-- > 0;) /* the outline of the heaviest over what is beside it */
        draw_bar(layout, row, &areas[i], i == 0, top + ROW_GAP / 2 + 1 + lanes[i] * LANE, out);
}

/* ---- A source that is a grid ----------------------------------------------------------------- */

static void draw_cells(const struct attention_layout *layout, int top, FILE *out)
{
    const struct acre_attention *a = layout->attention;

    for (size_t i = 0; i < a->n_source; i++) {
        const struct attention_label *label = &layout->source.items[layout->source.of_token[i]];
        const int *edges = layout->columns + i % a->n_columns;

        fprintf(out, "<text class=\"c%s\" x=\"%d\" y=\"%d\">", label_class(label),
                layout->left + (edges[0] + edges[1]) / 2,
                top + (int)(i / a->n_columns) * CELL + CELL - 5);
        draw_label_text(out, label);
        fputs("</text>\n", out);
    }
}

/* Rectangles lie on each other, so they are clear, also for the text below, and their weights are
 * only in their titles. */
static void draw_grid(const struct attention_layout *layout, size_t row,
                      const struct acre_area *areas, size_t n, int top, FILE *out)
{
    const int n_columns = (int)layout->attention->n_columns;

    for (size_t i = n; i-- > 0;) {
        const struct acre_area *area = &areas[i];
        const int *edges = layout->columns + area->first % n_columns;

        fputs("<g>", out);
        write_tooltip(out, layout, row, area);
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" "
                "fill=\"#2171b5\" fill-opacity=\"%.2f\" stroke=\"%s\"/></g>\n",
                layout->left + edges[0] + 1, top + area->first / n_columns * CELL + 1,
                edges[area->width] - edges[0] - 1, area->height * CELL - 2,
                0.8 * (double)area->weight, i == 0 ? "#08306b" : "#9ecae1");
    }
    draw_cells(layout, top, out);
}

static void draw_row(const struct attention_layout *layout, size_t layer, size_t head, size_t row,
                     FILE *out)
{
    const int *rows = attention_layout_rows(layout, layer, head);
    const int top = layout->top + rows[row];
    const int line = top + (layout->is_grid ? (rows[row + 1] - rows[row] + 9) / 2 : ROW_GAP + 9);
    size_t n;
    const struct acre_area *areas = attention_layout_areas(layout->attention, layer, head, row, &n);

    draw_row_label(layout, row, line, out);
    draw_rest(layout, areas, n, line, out);
    if (layout->is_grid)
        draw_grid(layout, row, areas, n, top + ROW_GAP, out);
    else
        draw_bars(layout, row, areas, n, top, out);
}

void attention_chart_draw(const struct attention_layout *layout, size_t layer, size_t head,
                          FILE *out)
{
    fprintf(out, "<g class=\"chart\" role=\"img\"><title>Layer %zu, head %zu</title>", layer + 1,
            head + 1);
    write_description(out, layout, layer, head);
    fprintf(out, "\n<text class=\"t\" x=\"0\" y=\"14\">Layer %zu · Head %zu</text>\n", layer + 1,
            head + 1);
    draw_background(layout, layer, head, out);
    for (size_t row = 0; row < layout->attention->n_target; row++)
        draw_row(layout, layer, head, row, out);
    fputs("</g>\n", out);
}

void attention_chart_scale(int x, int y, FILE *out)
{
    static const double weights[] = {0.05, 0.2, 0.4, 0.6, 0.8, 1.0};
    const int n = sizeof(weights) / sizeof(weights[0]), swatch = ATTENTION_CHART_SCALE_WIDTH / n;

    fprintf(out,
            "<g class=\"chart\" transform=\"translate(%d %d)\"><title>Shades of weights"
            "</title>\n",
            x, y);
    for (int i = 0; i < n; i++) {
        const double weight = weights[i];

        fprintf(out,
                "<rect x=\"%d\" y=\"0\" width=\"%d\" height=\"14\" rx=\"3\" fill=\"#%06x\"/>"
                "<text class=\"w%s\" x=\"%d\" y=\"10\">",
                i * swatch, swatch - 2, shade_of(weight), is_dark(weight) ? " p" : "",
                i * swatch + swatch / 2 - 1);
        write_weight(out, weight);
        fputs("</text>\n", out);
    }
    fputs("</g>\n", out);
}
