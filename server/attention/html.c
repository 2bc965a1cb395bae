#include "attention/html.h"

#include <string.h>

#include "attention/chart.h"
#include "common/markup.h"

static const char style[] =
    "body{margin:2rem;font-family:" MARKUP_FONT ";color:#1c2733;background:#fff;"
    "color-scheme:light}"
    "h1{font-size:1.3rem;margin:0 0 .4rem}"
    "h2{font-size:1.15rem;margin:0 0 .2rem;max-width:60rem}"
    ".note{font-size:.85rem;color:#55606e;max-width:60rem;margin:.3rem 0;line-height:1.5}"
    ".translation{font-size:1.15rem;margin:0 0 1.2rem;color:#0b4a8f;max-width:60rem}"
    "section{margin-top:2rem;padding-top:1.4rem;border-top:1px solid #d5dae1}"
    ".layer{display:flex;flex-wrap:wrap;gap:28px;margin-bottom:28px}"
    "figure{margin:0;max-width:100%;overflow-x:auto}"
    "svg{display:block}"
    "@media print{figure{break-inside:avoid}body{margin:0}}";

static void write_heading(const char *element, const char *css_class, const char *language,
                          const char *text, size_t bytes, FILE *out)
{
    fprintf(out, "<%s%s", element, css_class);
    markup_attribute(out, "lang", language);
    markup_attribute(out, "xml:lang", language);
    fputs(" dir=\"auto\">", out);
    markup_text(out, text, bytes);
    fprintf(out, "</%s>\n", element);
}

static void write_layer(const struct attention_layout *layout, size_t layer, FILE *out)
{
    fprintf(out,
            "<div class=\"layer\" role=\"group\" aria-label=\"Layer %zu\" "
            "style=\"max-width:%dpx\">\n",
            layer + 1, (int)layout->across * (layout->width + ATTENTION_LAYOUT_GAP));
    for (size_t head = 0; head < layout->attention->n_heads; head++) {
        const int width = layout->width;
        const int height = attention_layout_height(layout, layer, head);

        fprintf(out,
                "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "viewBox=\"0 0 %d %d\">\n",
                width, height, width, height);
        attention_chart_draw(layout, layer, head, out);
        fputs("</svg></figure>\n", out);
    }
    fputs("</div>\n", out);
}

static void write_section(const struct attention_picture *picture, size_t sentence, FILE *out)
{
    const struct attention_layout *layout = &picture->layouts[sentence];
    const struct attention_labels *source = &layout->source, *target = &layout->target;

    fputs("<section>\n", out);
    write_heading("h2", "", picture->model->source, source->sentence, source->sentence_bytes, out);
    write_heading("p", " class=\"translation\"", picture->model->target, target->sentence,
                  target->sentence_bytes, out);
    for (size_t layer = 0; layer < layout->attention->n_layers; layer++)
        write_layer(layout, layer, out);
    fputs("</section>\n", out);
}

static void write_head(const struct attention_picture *picture, FILE *out)
{
    const char *name = picture->model->name;

    fputs("<!DOCTYPE html>\n"
          "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\" xml:lang=\"en\">\n"
          "<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>Attention of ",
          out);
    markup_text(out, name, strlen(name));
    fprintf(out, "</title>\n<style>%s%s</style>\n</head>\n<body>\n<header>\n<h1>Attention of ",
            style, attention_chart_style);
    markup_text(out, name, strlen(name));
    fputs("</h1>\n<p class=\"note\">", out);
    markup_text(out, picture->facts, strlen(picture->facts));
    fputs("</p>\n<p class=\"note\">", out);
    markup_text(out, picture->legend, strlen(picture->legend));
    fprintf(out, "</p>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"16\">\n",
            ATTENTION_CHART_SCALE_WIDTH);
    attention_chart_scale(0, 0, out);
    fputs("</svg>\n</header>\n<main>\n", out);
}

void attention_html_write(const struct attention_picture *picture, FILE *out)
{
    write_head(picture, out);
    for (size_t i = 0; i < picture->n; i++)
        write_section(picture, i, out);
    fputs("</main>\n</body>\n</html>\n", out);
}
