/* html_pairs.h - which start tag an end tag belongs to.
 *
 * Start tags are marks of a prose, and wait on a stack for their end tags. Those that get none, and
 * end tags without a start, are a PROSE_TAG; so are pairs that are not one within the other. No
 * memory: prose->no_memory.
 */
#ifndef SERVER_CONTENT_HTML_PAIRS_H
#define SERVER_CONTENT_HTML_PAIRS_H

#include "content/html_token.h"
#include "content/prose.h"

enum { HTML_PAIRS_BUCKETS = 256 };

struct html_open {
    uint32_t mark;
    uint8_t bucket;
};

struct html_pairs {
    struct prose *prose;    /* all else begins as 0 */
    struct html_open *open; /* owned */
    size_t n_open, capacity;
    uint32_t n_in_bucket[HTML_PAIRS_BUCKETS]; /* of `open`, by a hash of their names */
    size_t n_outer; /* of `open`: outside the section, no tag in it is their partner */
};

/* Adds a mark for a start tag, or for an end tag. */
void html_pairs_start(struct html_pairs *pairs, const struct html_reader *reader,
                      const struct html_token *start);
void html_pairs_end(struct html_pairs *pairs, const struct html_reader *reader,
                    const struct html_token *end);

/* A section, whose tags belong to each other alone; to leave it, what entering it returned. */
size_t html_pairs_enter(struct html_pairs *pairs);
void html_pairs_leave(struct html_pairs *pairs, size_t n_outer);

/* The document ends. */
void html_pairs_fini(struct html_pairs *pairs);

#endif
