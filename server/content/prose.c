/* Happy path: a reader of one format (html.c, text.c) adds texts, marks and breaks in the order of
 * the document; a mask is a short name, X1, that the text has nowhere else. Which name it has not
 * is known when all of it is read: seldom a document is read again.
 *
 * Failure modes: no memory: prose->no_memory, which is looked at once, at the end. */
#include "content/prose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/unicode.h"
#include "content/word.h"

/* Makes room for `wanted` items. */
static bool make_room(struct prose *prose, void *items, size_t item_bytes, size_t wanted,
                      size_t *capacity)
{
    if (grow(items, item_bytes, wanted, capacity))
        return true;
    prose->no_memory = true;
    return false;
}

/* An empty text is no NULL, either. */
static void append(struct prose *prose, const char *text, size_t bytes)
{
    if (!make_room(prose, &prose->text, 1, prose->text_bytes + bytes + 1, &prose->text_capacity))
        return;
    memcpy(prose->text + prose->text_bytes, text, bytes);
    prose->text_bytes += bytes;
}

/* A letter behind a mask stands apart from it, and so do marks between them. */
static void leave_mask(struct prose *prose, const char *text, size_t bytes)
{
    struct prose_mark *mask = prose->n_masked > 0 ? &prose->marks[prose->n_masked - 1] : NULL;
    size_t at = 0;

    if (!mask || bytes == 0 || mask->at + mask->n != prose->text_bytes ||
        !word_is_spaced(unicode_next(text, bytes, &at)))
        return;
    append(prose, " ", 1);
    mask->glue |= PROSE_GLUED_AFTER;
    mask->n++;
    for (size_t m = prose->n_masked; m < prose->n_marks; m++)
        prose->marks[m].at++;
}

void prose_add_text(struct prose *prose, const char *text, size_t bytes)
{
    leave_mask(prose, text, bytes);
    append(prose, text, bytes);
}

size_t prose_add_mark(struct prose *prose, enum prose_kind kind, size_t raw, size_t n_raw)
{
    struct prose_mark *last = prose->n_marks > 0 ? &prose->marks[prose->n_marks - 1] : NULL;

    if (last && kind == PROSE_POINT && last->kind == PROSE_POINT && last->at == prose->text_bytes &&
        last->raw + last->n_raw == raw) {
        last->n_raw += (uint32_t)n_raw;
        return prose->n_marks - 1;
    }
    if (!make_room(prose, &prose->marks, sizeof(prose->marks[0]), prose->n_marks + 1,
                   &prose->marks_capacity))
        return 0;
    prose->marks[prose->n_marks] = (struct prose_mark){.at = (uint32_t)prose->text_bytes,
                                                       .raw = (uint32_t)raw,
                                                       .n_raw = (uint32_t)n_raw,
                                                       .partner = (uint32_t)prose->n_marks,
                                                       .kind = (uint8_t)kind};
    return prose->n_marks++;
}

/* A mark that a short text stands for. */
static void add_standing(struct prose *prose, enum prose_kind kind, size_t raw, size_t n_raw,
                         const char *text)
{
    const size_t mark = prose_add_mark(prose, kind, raw, n_raw), n = strlen(text);

    if (prose->no_memory)
        return;
    prose->marks[mark].n = (uint16_t)n;
    append(prose, text, n);
}

void prose_add_apart(struct prose *prose, size_t raw, size_t n_raw)
{
    add_standing(prose, PROSE_APART, raw, n_raw, "\n");
}

void prose_add_spelling(struct prose *prose, size_t raw, size_t n_raw, const char *text)
{
    add_standing(prose, PROSE_SPELLING, raw, n_raw, text);
}

void prose_add_value(struct prose *prose, size_t raw, size_t n_raw)
{
    if (make_room(prose, &prose->values, sizeof(prose->values[0]), prose->n_values + 1,
                  &prose->values_capacity))
        prose->values[prose->n_values++] =
            (struct prose_value){.raw = (uint32_t)raw, .n_raw = (uint32_t)n_raw};
}

/* How many marks stand before a place of the text; at the place itself if `with_equal`. */
static size_t marks_before(const struct prose *prose, size_t at, bool with_equal)
{
    size_t low = 0, high = prose->n_marks;

    while (low < high) {
        const size_t middle = low + (high - low) / 2, there = prose->marks[middle].at;

        if (there < at || (with_equal && there == at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct acre_range prose_in_document(const struct prose *prose, struct acre_range in_text)
{
    const size_t at = in_text.first, end_at = at + in_text.n_bytes;
    const size_t n_begin = marks_before(prose, at, true),
                 n_end = marks_before(prose, end_at, false);
    size_t begin = at, end = end_at;

    if (n_begin > 0) {
        const struct prose_mark *mark = &prose->marks[n_begin - 1];

        begin = mark->raw;
        if (at >= mark->at + mark->n)
            begin += mark->n_raw + (at - mark->at - mark->n);
    }
    if (n_end > 0) {
        const struct prose_mark *mark = &prose->marks[n_end - 1];

        end = mark->raw + mark->n_raw;
        if (end_at > mark->at + mark->n)
            end += end_at - mark->at - mark->n;
    }
    return (struct acre_range){begin, in_text.n_bytes > 0 ? end - begin : 0};
}

void prose_add_break(struct prose *prose)
{
    if (make_room(prose, &prose->breaks, sizeof(prose->breaks[0]), prose->n_breaks + 1,
                  &prose->breaks_capacity))
        prose->breaks[prose->n_breaks++] = (uint32_t)prose->text_bytes;
}

void prose_fini(struct prose *prose)
{
    free(prose->breaks);
    free(prose->text);
    free(prose->marks);
    free(prose->values);
    free(prose->terms);
    *prose = (struct prose){.text = NULL};
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Of what was tried, models copy "X1" best: see tests/http/test_http_placeholders.py. */
static const char *const prefixes[] = {"X", "XQ", "PH", "XKV", ""};

/* What looks like a mask, and is where none stands. */
static bool has_false_mask(const struct prose *prose)
{
    const char *end = prose->text + prose->text_bytes, *at = prose->text;
    const size_t n = strlen(prose->mask);

    for (size_t m = 0; (at = memmem(at, (size_t)(end - at), prose->mask, n)); at += n) {
        const size_t there = (size_t)(at - prose->text);

        while (m < prose->n_masked &&
               (prose->marks[m].kind != PROSE_MASK || prose_mask(&prose->marks[m]).first < there))
            m++;
        if ((m == prose->n_masked || prose_mask(&prose->marks[m]).first != there) && at + n < end &&
            at[n] >= '0' && at[n] <= '9')
            return true;
    }
    return false;
}

bool prose_masks_fail(struct prose *prose, struct prose_masks *masks)
{
    if (prose->no_memory || prose->n_masked == 0 || !has_false_mask(prose))
        return false;
    prose->text_bytes = prose->n_marks = prose->n_masked = 0;
    prose->n_values = prose->n_breaks = 0;
    prose->mask[0] = '\0';
    *masks = (struct prose_masks){.prefix = masks->prefix + 1};
    return true;
}

static bool ends_with_letter(const struct prose *prose, size_t end)
{
    size_t at = unicode_before(prose->text, end);

    return end > 0 && word_is_spaced(unicode_next(prose->text, end, &at));
}

/* How many bytes of letters end the text that end at `raw` in the document, too, behind all marks.
 */
static size_t letters_before(const struct prose *prose, size_t raw)
{
    const struct prose_mark *last = prose->n_marks > 0 ? &prose->marks[prose->n_marks - 1] : NULL;
    const size_t least = last ? last->at + last->n : 0;
    size_t begin = prose->text_bytes;

    while (begin > least && ends_with_letter(prose, begin)) {
        const size_t before = unicode_before(prose->text, begin), n = prose->text_bytes - before;

        if (before < least || n > raw ||
            memcmp(prose->text + before, prose->document + raw - n, begin - before) != 0)
            break;
        begin = before;
    }
    return prose->text_bytes - begin;
}

/* The mask that ends both text and, at `raw`, document; NULL: none does. */
static struct prose_mark *mask_before(const struct prose *prose, size_t raw)
{
    struct prose_mark *last = prose->n_marks > 0 ? &prose->marks[prose->n_marks - 1] : NULL;

    return last && last->kind == PROSE_MASK && last->raw + last->n_raw == raw &&
                   last->at + last->n == prose->text_bytes
               ? last
               : NULL;
}

size_t prose_extend_mask(struct prose *prose, size_t raw, size_t end)
{
    struct prose_mark *mask = mask_before(prose, raw);
    size_t next = raw;

    if (!mask || !word_is_spaced(unicode_next(prose->document, end, &next)))
        return 0;
    mask->n_raw += (uint32_t)(next - raw);
    return next - raw;
}

void prose_add_mask(struct prose *prose, struct prose_masks *masks, size_t raw, size_t n_raw)
{
    struct prose_mark *before = mask_before(prose, raw);
    const char *prefix = prefixes[masks->prefix];
    char mask[16];
    size_t mark, n, letters;
    uint8_t glue;

    if (before) { /* those side by side are one */
        before->n_raw += (uint32_t)n_raw;
        return;
    }
    if (!prefix[0]) {
        prose_add_mark(prose, PROSE_POINT, raw, n_raw);
        return;
    }
    letters = letters_before(prose, raw);
    prose->text_bytes -= letters;
    snprintf(prose->mask, sizeof(prose->mask), "%s", prefix);
    glue = ends_with_letter(prose, prose->text_bytes) ? PROSE_GLUED_BEFORE : 0;
    n = (size_t)snprintf(mask, sizeof(mask), "%s%s%u", glue ? " " : "", prefix, ++masks->n);
    mark = prose_add_mark(prose, PROSE_MASK, raw - letters, n_raw + letters);
    if (prose->no_memory)
        return;
    prose->marks[mark].n = (uint16_t)n;
    prose->marks[mark].glue = glue;
    append(prose, mask, n);
    prose->n_masked = mark + 1;
}

struct acre_range prose_mask(const struct prose_mark *mark)
{
    const size_t before = (mark->glue & PROSE_GLUED_BEFORE) != 0;

    return (struct acre_range){mark->at + before,
                               mark->n - before - ((mark->glue & PROSE_GLUED_AFTER) != 0)};
}
