/* tokenizer.h - text to token ids and back, for the kinds of vocabulary that Acre knows.
 *
 *   Marian   source.spm, target.spm and vocab.json (piece -> id), as OPUS-MT has them; with
 *            target_vocab.json too if tokenizer_config.json says separate_vocabs
 *   M2M100   sentencepiece.bpe.model and vocab.json, with a token for each language
 *   NLLB     sentencepiece.bpe.model, or tokenizer.json, likewise; mBART-50 as well
 *   bytes    tokenizer_config.json says ByteTokenizer: 0 pad, 1 end, 2 + byte of text in NFC
 *
 * Immutable once open, so any thread may use it.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "text/language_tokens.h"

struct tokenizer;

struct tokens {
    int32_t *ids; /* owned, [n] */
    size_t n, capacity;
};

int tokens_append(struct tokens *tokens, int32_t id); /* 0 or ACRE_ENOMEM */
void tokens_fini(struct tokens *tokens);

/* vocab_size and the class are config.json's: an id at or above the one is an error, the other (""
 * if it says nothing) counts where tokenizer_config.json names none.
 * *tokenizer is owned by the caller. */
int tokenizer_open(const char *directory, int vocab_size, const char *class_of_config,
                   struct tokenizer **tokenizer, struct acre_err *err);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL is allowed */

bool tokenizer_is_bytes(const struct tokenizer *tokenizer);

/* The id that sources end with. */
int32_t tokenizer_end(const struct tokenizer *tokenizer);

/* None if the vocabulary has no tokens for languages. A source begins with its language's, or ends
 * with it, behind the end token; a translation begins with its own. */
const struct language_tokens *tokenizer_languages(const struct tokenizer *tokenizer);
bool tokenizer_is_language_last(const struct tokenizer *tokenizer);

/* The bytes of the language code that a text for Marian begins with (">>de<<"), and its id; 0 if
 * there is none that the vocabulary has. */
size_t tokenizer_code(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      int32_t *id);

/* Appends the ids of text (valid UTF-8) to `out`, without an end token. A language code in front is
 * one token. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                     struct tokens *out, struct acre_err *err);

/* Whether all of a text (valid UTF-8) becomes tokens, and none that is unknown or spells a byte;
 * true as well if there is no memory to tell. */
bool tokenizer_reads(const struct tokenizer *tokenizer, const char *text, size_t text_bytes);

/* Whether any of the source tokens is a known one with a letter or digit. Bytes are all known. */
bool tokenizer_knows(const struct tokenizer *tokenizer, const struct tokens *tokens);

/* Appends the ids of the vocabulary's own tokens, separated by spaces; an unknown token becomes
 * <unk>. For bytes a token is the character itself, or <0xHH> for any byte (space is <0x20>). */
int tokenizer_encode_tokens(const struct tokenizer *tokenizer, const char *line, size_t line_bytes,
                            struct tokens *out, struct acre_err *err);

/* Appends the ids of a translation: of its text, or of its tokens separated by spaces. */
int tokenizer_encode_target(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            bool is_tokens, struct tokens *out, struct acre_err *err);

/* Where each of the n tokens that tokenizer_encode() gives for the text stands in it, without
 * whitespace before it; of tokenizer_encode_tokens() if is_tokens. */
int tokenizer_source_ranges(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            bool is_tokens, size_t n, struct acre_range *ranges,
                            struct acre_err *err);

/* Likewise for ids that tokenizer_decode() has made `text` of. Tokens that share a character have
 * the whole of it. */
int tokenizer_target_ranges(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                            const char *text, size_t text_bytes, struct acre_range *ranges,
                            struct acre_err *err);

/* *text is owned by the caller, valid UTF-8, NUL-terminated. Special tokens and ids without a
 * token are left out, and so is U+0000; bytes that are no UTF-8 become U+FFFD. */
int tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t n, char **text,
                     struct acre_err *err);

/* The target token as the vocabulary spells it. Lives as long as the tokenizer; "<unk>"-like for
 * ids that no token has. */
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id);

#endif
