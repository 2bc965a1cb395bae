#include "attention/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/unicode.h"

/* What the charts know of: of even attention to a sentence the heaviest range is so light. */
#define KNOWN_LEAST 0.005F

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool is_of_bytes(const struct acre_model_info *model)
{
    return strcmp(model->level, "char") == 0;
}

static bool is_any_grid(const struct attention_picture *picture)
{
    for (size_t i = 0; i < picture->n; i++)
        if (picture->layouts[i].is_grid)
            return true;
    return false;
}

static void write_facts(const struct attention_picture *picture, FILE *out)
{
    const struct acre_model_info *model = picture->model;
    const struct acre_attention *attention = picture->sentences[0];
    const char *units = is_of_bytes(model) ? "bytes" : "tokens";

    if (model->source[0] && model->target[0])
        fprintf(out, "%s → %s, ", model->source, model->target);
    fprintf(out, "%s. Cross-attention of %zu decoder layer%s with %zu head%s each, ", units,
            attention->n_layers, attention->n_layers > 1 ? "s" : "", attention->n_heads,
            attention->n_heads > 1 ? "s" : "");
    if (model->max_area_width > 1)
        fprintf(out, "in a model with areas of up to %d adjacent %s.", model->max_area_width,
                units);
    else
        fprintf(out, "in a model that attends to single %s.", units);
}

static void write_legend(const struct attention_picture *picture, FILE *out)
{
    const char *unit = is_of_bytes(picture->model) ? "byte" : "token";

    fprintf(out,
            "A row is an output %s, a column an input %s. A bar is a range of the input that was "
            "attended to; its shade and its number are the weight. The heaviest of a row is "
            "outlined; others below %.2f are not drawn, and what they weigh together stands at the "
            "right. ",
            unit, unit, (double)ATTENTION_LAYOUT_LEAST);
    if (is_any_grid(picture))
        fputs("The input is a grid and is drawn as one in each row; there weights are shades and "
              "tooltips only. ",
              out);
    if (is_of_bytes(picture->model))
        fputs("␣ is a space. A character of several bytes stands above all of them, and in the "
              "output it has a row for each. ",
              out);
    else
        fputs("▁ begins a word. ", out);
    fputs("</s> is the end of the sentence.", out);
}

/* What a writer writes; NULL without memory. */
static char *written(void (*write)(const struct attention_picture *picture, FILE *out),
                     const struct attention_picture *picture)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return NULL;
    write(picture, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_sentence(struct attention_picture *picture, const struct acre_job *job,
                         struct acre_err *err)
{
    const size_t i = picture->n;
    const char *unit = is_of_bytes(picture->model) ? "byte" : "token";

    if (acre_attention_open(job, i, KNOWN_LEAST, &picture->sentences[i], err) != 0)
        return err->code;
    picture->n++;
    if (!attention_layout_open(&picture->layouts[i], picture->sentences[i], unit))
        return error_set_no_memory(err);
    return 0;
}

static int fill(struct attention_picture *picture, const struct acre_job *job, size_t n,
                struct acre_err *err)
{
    picture->sentences = calloc(n, sizeof(picture->sentences[0]));
    picture->layouts = calloc(n, sizeof(picture->layouts[0]));
    if (!picture->sentences || !picture->layouts)
        return error_set_no_memory(err);
    while (picture->n < n)
        if (open_sentence(picture, job, err) != 0)
            return err->code;
    picture->facts = written(write_facts, picture);
    picture->legend = written(write_legend, picture);
    if (!picture->facts || !picture->legend)
        return error_set_no_memory(err);
    unicode_scrub(picture->facts); /* languages may be parts of a directory's name */
    return 0;
}

int attention_picture_open(struct attention_picture *picture, const struct acre_model_info *model,
                           const struct acre_job *job, struct acre_err *err)
{
    int rc;

    *picture = (struct attention_picture){.model = model};
    rc = fill(picture, job, acre_job_result(job)->n_sentences, err);
    if (rc != 0)
        attention_picture_close(picture);
    return rc;
}

void attention_picture_close(struct attention_picture *picture)
{
    for (size_t i = 0; i < picture->n; i++) {
        attention_layout_close(&picture->layouts[i]);
        acre_attention_close(picture->sentences[i]);
    }
    free(picture->layouts);
    free(picture->sentences);
    free(picture->facts);
    free(picture->legend);
    *picture = (struct attention_picture){.n = 0};
}
