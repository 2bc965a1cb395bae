/* entries.h - the entries of a dictionary as people write them.
 *
 * TSV: a line for each, term, tab, translation; empty lines do not count. CSV: the same with a
 * comma, and fields in double quotes as in RFC 4180; two further fields may name the languages, and
 * lines of another pair are left out. Errors name the entry. Any thread.
 */
#ifndef SERVER_CONTENT_ENTRIES_H
#define SERVER_CONTENT_ENTRIES_H

#include "content/dictionary.h"

int entries_read_tsv(struct dictionary *dictionary, const char *text, size_t bytes,
                     struct acre_err *err);

/* `source` and `target` are codes of languages. */
int entries_read_csv(struct dictionary *dictionary, const char *text, size_t bytes,
                     const char *source, const char *target, struct acre_err *err);

#endif
