#include <string.h>

#include "common/error.h"
#include "content/placeholder.h"
#include "content/prose.h"
#include "content/span.h"
#include "content/unread.h"

static bool ends_sentence(const char *text, size_t at)
{
    return text[at] == '\n' || text[at] == '\t' ||
           (strchr(".!?", text[at]) && (text[at + 1] == ' '));
}

/* Emoji and signs go with one of the blanks beside them, so that the words do not stand apart, nor
 * what ends a clause apart from them. */
static void add_point(struct prose *prose, size_t at, size_t n)
{
    const char *document = prose->document;
    const bool is_after_blank = at > 0 && document[at - 1] == ' ' && prose->text_bytes > 0 &&
                                prose->text[prose->text_bytes - 1] == ' ';
    const bool is_before_apart =
        at + n == prose->document_bytes || memchr(" .,;:!?", document[at + n], 7);

    if (is_after_blank && is_before_apart) {
        prose->text_bytes--;
        prose_add_mark(prose, PROSE_POINT, at - 1, n + 1);
    } else {
        prose_add_mark(prose, PROSE_POINT, at, n);
    }
}

/* Stars on a line that others may close. */
struct stars {
    size_t mark, n; /* 0: none are open */
};

/* Whether stars are beside what they would open or close: as in Markdown a word, or a sign if no
 * word is on the other side. */
static bool are_beside(char inside, char outside)
{
    return inside && !is_blank(inside) && (is_word(inside) || !is_word(outside));
}

/* The last mark, n stars at a place, closes those that are open, or opens. Pairs are an element, so
 * that each stays around its words: "*very* good". A mark may have become part of the one before.
 */
static void pair_stars(struct prose *prose, struct stars *open, size_t at, size_t n)
{
    const struct span document = {prose->document, prose->document_bytes};
    const char before = at > 0 ? document.at[at - 1] : '\0', next = peek(document, at + n);
    const size_t last = prose->n_marks - 1;
    struct prose_mark *marks = prose->marks;

    if (prose->no_memory || marks[last].n_raw != n)
        return;
    if (open->n == n && marks[open->mark].n_raw == n && are_beside(before, next)) {
        marks[open->mark].kind = PROSE_OPEN;
        marks[open->mark].partner = (uint32_t)last;
        marks[last].kind = PROSE_CLOSE;
        marks[last].partner = (uint32_t)open->mark;
        open->n = 0;
    } else if (are_beside(next, before)) {
        *open = (struct stars){last, n};
    }
}

static void add_placeholder(struct prose *prose, struct prose_masks *masks, struct stars *open,
                            size_t at, size_t n)
{
    switch (placeholder_kind(prose->document, prose->document_bytes, at, n)) {
    case PLACEHOLDER_NAME:
        prose_add_mask(prose, masks, at, n);
        break;
    case PLACEHOLDER_SIGN:
        add_point(prose, at, n);
        if (prose->document[at] == '*')
            pair_stars(prose, open, at, n);
        break;
    case PLACEHOLDER_SEPARATOR:
        prose_add_apart(prose, at, n);
        masks->n = 0;
        break;
    }
}

static void read_text(struct prose *prose, const struct known *known, struct prose_masks *masks)
{
    const char *document = prose->document;
    const size_t bytes = prose->document_bytes;
    struct stars open = {.n = 0};
    size_t begin = 0, n;

    for (size_t at = 0; at < bytes; at += n) {
        n = unread_apostrophe(document, bytes, at, known);
        if (n > 0) {
            prose_add_text(prose, document + begin, at - begin);
            prose_add_spelling(prose, at, n, "'");
            begin = at + n;
            continue;
        }
        n = placeholder_bytes(document, bytes, at, known);
        if (n == 0 && begin == at && (n = prose_extend_mask(prose, at, bytes)) > 0) {
            begin += n;
            continue;
        }
        if (n == 0) {
            if (at + 1 < bytes && ends_sentence(document, at))
                masks->n = 0;
            if (document[at] == '\n')
                open.n = 0;
            n = 1;
            continue;
        }
        prose_add_text(prose, document + begin, at - begin);
        add_placeholder(prose, masks, &open, at, n);
        begin = at + n;
    }
    if (prose->n_marks > 0)
        prose_add_text(prose, document + begin, bytes - begin);
}

int prose_read_text(const char *document, size_t bytes, const struct known *known,
                    struct prose *prose, struct acre_err *err)
{
    struct prose_masks masks = {0};

    *prose = (struct prose){.document = document, .document_bytes = bytes};
    if (bytes > UINT32_MAX / 2)
        return error_set(err, ACRE_EINPUT, "expected at most 2 GiB of text, found more");
    do {
        read_text(prose, known, &masks);
    } while (prose_masks_fail(prose, &masks));
    prose->body_bytes = prose->text_bytes;
    return prose->no_memory ? error_set_no_memory(err) : 0;
}
