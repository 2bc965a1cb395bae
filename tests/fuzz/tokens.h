/* tokens.h - what every tokenizer must do that loads, whatever its file says. */
#ifndef FUZZ_TOKENS_H
#define FUZZ_TOKENS_H

#include "text/tokenizer.h"

enum { TOKENS_VOCAB = 1000 };

/* There is a piece for each id that it gives of a text, and for its languages; and it decodes any
 * ids. */
void tokens_check(const struct tokenizer *tokenizer, const char *text, size_t text_bytes);

#endif
