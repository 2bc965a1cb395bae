/* Happy path: paragraphs and charts into a stream in memory, one below the other -> the page, as
 * high as they came out.
 * Failure modes: no memory: -1 before anything is written. */
#include "attention/svg.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attention/chart.h"
#include "common/markup.h"

enum { MARGIN = 24, LEAST_WIDTH = 780, MOST_LINE = 1000, SENTENCE_FONT = 17, NOTE_FONT = 12 };

static const char style[] = ".page{font-family:" MARKUP_FONT ";fill:#1c2733}"
                            ".name{font-size:20px;font-weight:bold}"
                            ".source{font-size:17px;font-weight:bold}"
                            ".target{font-size:17px;fill:#0b4a8f}"
                            ".note{font-size:12px;fill:#55606e}"
                            ".rule{stroke:#d5dae1}";

/* A page on its way: what is drawn, and how far down. */
struct page {
    FILE *out;
    int width, y;
};

/* Bytes of the longest beginning of a text that fits in `width`, cut between words if it can be. */
static size_t fitting(const char *text, size_t bytes, int width, int font)
{
    const int most = width * 1000 / font;
    size_t end = 0, word = 0;
    uint32_t code;
    int used = 0;

    while (end < bytes) {
        const size_t n = markup_character(text + end, &code);

        used += markup_width(text + end, n);
        if (used > most && end > 0)
            return word > 0 ? word : end;
        end += n;
        if (code == ' ')
            word = end;
    }
    return bytes;
}

/* Lines of a length that reads well, and with room for letters that are bold. */
static int line_width(const struct page *page)
{
    const int width = page->width - 2 * MARGIN;

    return (width < MOST_LINE ? width : MOST_LINE) * 12 / 13;
}

static void draw_paragraph(struct page *page, const char *css_class, const char *language, int font,
                           const char *text, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = fitting(text + at, bytes - at, line_width(page), font);
        page->y += font * 3 / 2;
        fprintf(page->out, "<text class=\"%s\"", css_class);
        markup_attribute(page->out, "xml:lang", language);
        fprintf(page->out, " x=\"%d\" y=\"%d\">", MARGIN, page->y);
        markup_text(page->out, text + at, n);
        fputs("</text>\n", page->out);
    }
}

static void draw_head(struct page *page, const struct attention_picture *picture)
{
    const char *name = picture->model->name;

    page->y += MARGIN + 14;
    fprintf(page->out, "<text class=\"name\" x=\"%d\" y=\"%d\">Attention of ", MARGIN, page->y);
    markup_text(page->out, name, strlen(name));
    fputs("</text>\n", page->out);
    page->y += 4;
    draw_paragraph(page, "note", "", NOTE_FONT, picture->facts, strlen(picture->facts));
    draw_paragraph(page, "note", "", NOTE_FONT, picture->legend, strlen(picture->legend));
    attention_chart_scale(MARGIN, page->y + 12, page->out);
    page->y += 12 + 16;
}

static void draw_layer(struct page *page, const struct attention_layout *layout, size_t layer)
{
    const size_t across = layout->across;

    for (size_t head = 0; head < layout->attention->n_heads; head++) {
        const int column = (int)(head % across);

        fprintf(page->out, "<g transform=\"translate(%d %d)\">\n",
                MARGIN + column * (layout->width + ATTENTION_LAYOUT_GAP), page->y);
        attention_chart_draw(layout, layer, head, page->out);
        fputs("</g>\n", page->out);
        if (head % across == across - 1)
            page->y += attention_layout_height(layout, layer, head) + ATTENTION_LAYOUT_GAP;
    }
}

static void draw_section(struct page *page, const struct attention_picture *picture,
                         const struct attention_layout *layout)
{
    const struct attention_labels *source = &layout->source, *target = &layout->target;

    page->y += MARGIN;
    fprintf(page->out, "<path class=\"rule\" d=\"M%d %d.5H%d\"/>\n", MARGIN, page->y,
            page->width - MARGIN);
    page->y += MARGIN / 2;
    draw_paragraph(page, "source", picture->model->source, SENTENCE_FONT, source->sentence,
                   source->sentence_bytes);
    draw_paragraph(page, "target", picture->model->target, SENTENCE_FONT, target->sentence,
                   target->sentence_bytes);
    page->y += MARGIN;
    for (size_t layer = 0; layer < layout->attention->n_layers; layer++)
        draw_layer(page, layout, layer);
}

static int page_width(const struct attention_picture *picture)
{
    int most = LEAST_WIDTH;

    for (size_t i = 0; i < picture->n; i++) {
        const struct attention_layout *layout = &picture->layouts[i];
        const int across = (int)layout->across;
        const int width =
            across * (layout->width + ATTENTION_LAYOUT_GAP) - ATTENTION_LAYOUT_GAP + 2 * MARGIN;

        most = width > most ? width : most;
    }
    return most;
}

static void write_page(const struct attention_picture *picture, const struct page *page,
                       const char *body, FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:lang=\"en\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>Attention of ",
            page->width, page->y, page->width, page->y);
    markup_text(out, picture->model->name, strlen(picture->model->name));
    fputs("</title>\n<desc>", out);
    markup_text(out, picture->facts, strlen(picture->facts));
    fprintf(out,
            "</desc>\n<style>%s%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<g class=\"page\">\n",
            style, attention_chart_style);
    fputs(body, out);
    fputs("</g>\n</svg>\n", out);
}

int attention_svg_write(const struct attention_picture *picture, FILE *out)
{
    char *body = NULL;
    size_t bytes;
    struct page page = {.out = open_memstream(&body, &bytes), .width = page_width(picture)};
    int rc = -1;

    if (!page.out)
        return -1;
    draw_head(&page, picture);
    for (size_t i = 0; i < picture->n; i++)
        draw_section(&page, picture, &picture->layouts[i]);
    if (fclose(page.out) == 0) {
        write_page(picture, &page, body, out);
        rc = 0;
    }
    free(body);
    return rc;
}
