#include "content/prose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more item. */
static bool grow(struct prose *prose, void **items, size_t item_bytes, size_t n, size_t *capacity)
{
    size_t wanted = *capacity ? *capacity * 2 : 64;
    void *more;

    if (n < *capacity)
        return true;
    more = realloc(*items, wanted * item_bytes);
    if (!more) {
        prose->no_memory = true;
        return false;
    }
    *items = more;
    *capacity = wanted;
    return true;
}

void prose_add_text(struct prose *prose, const char *text, size_t bytes)
{
    size_t wanted = prose->text_capacity ? prose->text_capacity : 256;
    char *more;

    while (wanted < prose->text_bytes + bytes)
        wanted *= 2;
    if (wanted > prose->text_capacity) {
        more = realloc(prose->text, wanted);
        if (!more) {
            prose->no_memory = true;
            return;
        }
        prose->text = more;
        prose->text_capacity = wanted;
    }
    memcpy(prose->text + prose->text_bytes, text, bytes);
    prose->text_bytes += bytes;
}

size_t prose_add_mark(struct prose *prose, enum prose_kind kind, size_t raw, size_t n_raw)
{
    struct prose_mark *last = prose->n_marks > 0 ? &prose->marks[prose->n_marks - 1] : NULL;

    if (last && kind == PROSE_POINT && last->kind == PROSE_POINT && last->at == prose->text_bytes &&
        last->raw + last->n_raw == raw) {
        last->n_raw += (uint32_t)n_raw;
        return prose->n_marks - 1;
    }
    if (!grow(prose, (void **)&prose->marks, sizeof(prose->marks[0]), prose->n_marks,
              &prose->marks_capacity))
        return 0;
    prose->marks[prose->n_marks] = (struct prose_mark){.at = (uint32_t)prose->text_bytes,
                                                       .raw = (uint32_t)raw,
                                                       .n_raw = (uint32_t)n_raw,
                                                       .partner = (uint32_t)prose->n_marks,
                                                       .kind = (uint8_t)kind};
    return prose->n_marks++;
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
    if (grow(prose, (void **)&prose->breaks, sizeof(prose->breaks[0]), prose->n_breaks,
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

static bool has_digit_after(const char *text, size_t bytes, const char *prefix)
{
    const size_t n = strlen(prefix);
    const char *end = text + bytes, *at = text;

    while ((at = memmem(at, (size_t)(end - at), prefix, n))) {
        at += n;
        if (at < end && *at >= '0' && *at <= '9')
            return true;
    }
    return false;
}

/* Of what was tried, models copy "X1" best: see tests/http/test_http_placeholders.py. */
void prose_masks_init(struct prose_masks *masks, const char *document, size_t bytes)
{
    static const char *const prefixes[] = {"X", "XQ", "PH", "XKV"};

    *masks = (struct prose_masks){.n = 0};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (!has_digit_after(document, bytes, prefixes[i])) {
            snprintf(masks->prefix, sizeof(masks->prefix), "%s", prefixes[i]);
            return;
        }
}

void prose_add_mask(struct prose *prose, struct prose_masks *masks, size_t raw, size_t n_raw)
{
    struct prose_mark *last = prose->n_marks > 0 ? &prose->marks[prose->n_marks - 1] : NULL;
    char mask[16];
    size_t mark;

    if (last && last->kind == PROSE_MASK && last->raw + last->n_raw == raw &&
        last->at + last->n == prose->text_bytes) { /* those side by side are one */
        last->n_raw += (uint32_t)n_raw;
        return;
    }
    if (!masks->prefix[0]) {
        prose_add_mark(prose, PROSE_POINT, raw, n_raw);
        return;
    }
    snprintf(mask, sizeof(mask), "%s%u", masks->prefix, ++masks->n);
    mark = prose_add_mark(prose, PROSE_MASK, raw, n_raw);
    if (prose->no_memory)
        return;
    prose->marks[mark].n = (uint16_t)strlen(mask);
    prose_add_text(prose, mask, strlen(mask));
}
