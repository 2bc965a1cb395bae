#include <string.h>

#include "common/error.h"
#include "content/placeholder.h"
#include "content/prose.h"
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

static void add_placeholder(struct prose *prose, struct prose_masks *masks, size_t at, size_t n)
{
    switch (placeholder_kind(prose->document, prose->document_bytes, at, n)) {
    case PLACEHOLDER_NAME:
        prose_add_mask(prose, masks, at, n);
        break;
    case PLACEHOLDER_SIGN:
        add_point(prose, at, n);
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
            n = 1;
            continue;
        }
        prose_add_text(prose, document + begin, at - begin);
        add_placeholder(prose, masks, at, n);
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
