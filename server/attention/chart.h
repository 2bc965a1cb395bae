/* chart.h - the picture of one layer and head, as SVG: a row for each output token, and in it a
 * bar over each range of input tokens that it attended to. Any thread.
 */
#ifndef SERVER_ATTENTION_CHART_H
#define SERVER_ATTENTION_CHART_H

#include <stddef.h>
#include <stdio.h>

#include "attention/layout.h"

/* What the classes in the SVG look like, for a style element. */
extern const char attention_chart_style[];

/* With its upper left corner at the origin. */
void attention_chart_draw(const struct attention_layout *layout, size_t layer, size_t head,
                          FILE *out);

/* What the shades of bars mean, of this size. */
enum { ATTENTION_CHART_SCALE_WIDTH = 204, ATTENTION_CHART_SCALE_HEIGHT = 14 };
void attention_chart_scale(int x, int y, FILE *out);

#endif
