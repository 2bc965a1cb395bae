/* split.h - all of a text split in one call, for tests. */
#ifndef TESTS_SPLIT_H
#define TESTS_SPLIT_H

#include "text/splitter.h"

/* At line ends too, see splitter_open(). After a failure the document is empty. */
int split_text(struct document *document, const char *text, size_t text_bytes,
               const struct tokenizer *tokenizer, const char *language, size_t max_tokens,
               struct acre_err *err);

#endif
