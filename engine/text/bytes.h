/* bytes.h - the vocabulary of UTF-8 bytes: 0 pad, 1 end, 2 + byte.
 *
 * Any text is a sequence of its tokens, so nothing is ever unknown. Text is composed first (Unicode
 * NFC): a model has learnt one spelling of each character. As tokens for people, printable ASCII
 * stands for itself and every other byte, the space included, is <0xHH>.
 */
#ifndef TEXT_BYTES_H
#define TEXT_BYTES_H

#include "acre.h"
#include "text/tokenizer.h"

enum { BYTES_PAD, BYTES_END, BYTES_FIRST, BYTES_VOCAB = BYTES_FIRST + 256 };

struct byte_names {
    char of[BYTES_VOCAB][8];
};

void bytes_name(struct byte_names *names);

/* Receives a part of the text, a character with its marks, and its bytes in NFC; not 0 stops and
 * becomes the result. */
typedef int bytes_part_fn(void *user, struct acre_range source, const char *composed, size_t bytes);
int bytes_compose(const char *text, size_t text_bytes, bytes_part_fn *part, void *user);

int bytes_encode(const char *text, size_t text_bytes, struct tokens *out);

/* The byte that "<0xHH>" names, or -1. */
int bytes_named(const char *token, size_t token_bytes);

/* One token as people write it: a character or <0xHH>. ACRE_EINPUT if it is neither. */
int bytes_encode_token(const char *token, size_t token_bytes, struct tokens *out);

/* *text is owned by the caller; NULL if out of memory. See tokenizer_decode(). */
char *bytes_decode(const int32_t *ids, size_t n);

#endif
