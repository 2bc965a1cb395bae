/* Happy path: html_pairs_start() puts a mark on the stack -> html_pairs_end() finds it there, and
 * those above it have no partner.
 *
 * Time is linear: an end tag is looked for among few, and only if one of its bucket is open. */
#include "content/html_pairs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/grow.h"

enum { MAX_SEARCHED = 256 };

static uint8_t bucket_of(const struct html_reader *reader, const struct html_token *token)
{
    unsigned hash = 5381;

    for (size_t i = 0; i < token->n_name; i++) {
        const unsigned char c = (unsigned char)reader->text[token->name + i];

        hash = hash * 33 + (unsigned)(html_has_names(reader->syntax) ? tolower(c) : c);
    }
    return (uint8_t)(hash ^ hash >> 8);
}

void html_pairs_start(struct html_pairs *pairs, const struct html_reader *reader,
                      const struct html_token *start)
{
    struct prose *p = pairs->prose;
    const size_t mark = prose_add_mark(p, PROSE_OPEN, start->at, start->n);
    const struct html_open element = {(uint32_t)mark, bucket_of(reader, start)};

    p->no_memory = p->no_memory ||
                   !grow(&pairs->open, sizeof(pairs->open[0]), pairs->n_open + 1, &pairs->capacity);
    if (p->no_memory)
        return;
    pairs->open[pairs->n_open++] = element;
    pairs->n_in_bucket[element.bucket]++;
}

static bool is_start_of(const struct html_reader *reader, const struct prose_mark *mark,
                        const struct html_token *end)
{
    const char *name = reader->text + end->name, *other = reader->text + mark->raw + 1;

    if (mark->n_raw < end->n_name + 2 || !strchr(" \t\n\f\r/>", other[end->n_name]))
        return false;
    return (html_has_names(reader->syntax) ? strncasecmp(name, other, end->n_name)
                                           : memcmp(name, other, end->n_name)) == 0;
}

/* Those above `keep` have no partner. */
static void drop_open(struct html_pairs *pairs, size_t keep)
{
    while (pairs->n_open > keep) {
        const struct html_open *top = &pairs->open[--pairs->n_open];

        pairs->n_in_bucket[top->bucket]--;
        pairs->prose->marks[top->mark].kind = PROSE_TAG;
    }
}

/* Looks for its partner among the innermost elements; farther out it would be none in a tree. */
void html_pairs_end(struct html_pairs *pairs, const struct html_reader *reader,
                    const struct html_token *end)
{
    const size_t mark = prose_add_mark(pairs->prose, PROSE_TAG, end->at, end->n);
    struct prose_mark *marks = pairs->prose->marks;
    const size_t farthest = pairs->n_open > MAX_SEARCHED ? pairs->n_open - MAX_SEARCHED : 0,
                 lowest = farthest > pairs->n_outer ? farthest : pairs->n_outer;

    if (pairs->prose->no_memory || pairs->n_in_bucket[bucket_of(reader, end)] == 0)
        return;
    for (size_t i = pairs->n_open; i > lowest; i--) {
        const uint32_t start = pairs->open[i - 1].mark;

        if (!is_start_of(reader, &marks[start], end))
            continue;
        drop_open(pairs, i - 1);
        marks[start].kind = PROSE_OPEN;
        marks[start].partner = (uint32_t)mark;
        marks[mark].kind = PROSE_CLOSE;
        marks[mark].partner = start;
        return;
    }
}

size_t html_pairs_enter(struct html_pairs *pairs)
{
    const size_t n_outer = pairs->n_outer;

    pairs->n_outer = pairs->n_open;
    return n_outer;
}

void html_pairs_leave(struct html_pairs *pairs, size_t n_outer)
{
    drop_open(pairs, pairs->n_outer);
    pairs->n_outer = n_outer;
}

void html_pairs_fini(struct html_pairs *pairs)
{
    drop_open(pairs, 0);
    free(pairs->open);
}
