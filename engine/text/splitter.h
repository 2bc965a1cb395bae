/* splitter.h - finds the sentences of a text for the document that holds it.
 *
 * Sentences are found with ICU. One longer than the model can read is cut at the best place: after
 * sentence-like or clause punctuation, else at a space, else between characters. A language code
 * that one begins with (">>de<<", see tokenizer.h) holds for those behind it, until another one.
 * A text may take long: it is split in parts, linear in time, and others have their turn between
 * them. Used by one thread at a time.
 */
#ifndef TEXT_SPLITTER_H
#define TEXT_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"
#include "text/document.h"
#include "text/tokenizer.h"

/* Owned by the caller; its document must outlive it. */
struct splitter;

/* Begins to split a copy of `text`, as document_init() makes it, into sentences of at most
 * max_tokens ids each. `language` is the source language code for ICU, "" if unknown. After a
 * failure there is no splitter and the document is empty. */
int splitter_open(struct document *document, const char *text, size_t text_bytes,
                  const struct tokenizer *tokenizer, const char *language, size_t max_tokens,
                  enum acre_split split, struct splitter **splitter, struct acre_err *err);

/* Splits about max_bytes more. Before *is_done, nothing of the document is to be looked at; after a
 * failure it is to be freed as it is. */
int splitter_continue(struct splitter *splitter, size_t max_bytes, bool *is_done,
                      struct acre_err *err);
void splitter_close(struct splitter *splitter); /* NULL is allowed */

#endif
