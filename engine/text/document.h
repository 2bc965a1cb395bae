/* document.h - a text as the sentences to translate and what stands between them, and the text
 * again with their translations.
 *
 * Everything that is not translated (whitespace before, between and after sentences, line ends,
 * blank lines, spans without a letter or digit, spans of which the vocabulary knows no word) is
 * kept as it was; nothing is dropped. Used by one thread at a time.
 */
#ifndef TEXT_DOCUMENT_H
#define TEXT_DOCUMENT_H

#include "acre.h"
#include "text/tokenizer.h"

struct document_sentence {
    size_t first, n_bytes; /* span of the text, without whitespace around it */
    struct tokens source;  /* ids without end token */
    size_t n_before;       /* of these, those of a language code that an earlier one begins with */
};

struct document {
    char *text; /* owned copy */
    size_t text_bytes;
    struct document_sentence *sentences; /* owned, [n_sentences] */
    size_t n_sentences;
};

/* A copy of `text`, without sentences yet: a splitter finds them, see splitter.h. ACRE_EINPUT, with
 * the byte offset, where it is no valid UTF-8. */
int document_init(struct document *document, const char *text, size_t text_bytes,
                  struct acre_err *err);

/* The whole line of vocabulary tokens as one sentence (see tokenizer_encode_tokens), or none if it
 * is empty; longer than max_tokens is ACRE_EINPUT. */
int document_init_tokens(struct document *document, const char *line, size_t line_bytes,
                         const struct tokenizer *tokenizer, size_t max_tokens,
                         struct acre_err *err);

/* All of a text, or of a line of tokens, as one sentence, also if there is nothing in it. */
int document_init_whole(struct document *document, const char *text, size_t text_bytes,
                        const struct tokenizer *tokenizer, bool is_tokens, size_t max_tokens,
                        struct acre_err *err);

/* How far a script spaces out its text. */
enum spacing { SPACED_WORDS, SPACED_SENTENCES, SPACED_NOTHING };

/* Whether a space belongs before the translation of a sentence: nothing stands between it and the
 * one before, as Chinese has it, and the translation is in a script with more spaces. *before says
 * how the translation before this one ends, and is updated; ignored for the first. */
bool document_is_apart(const struct document *document, size_t sentence, const char *translation,
                       enum spacing *before);

/* Puts translations[n_sentences] in the places of the sentences, with a space before each that is
 * apart, and says where they are then: places[n_sentences]. *text is owned by the caller,
 * NUL-terminated. */
int document_join(const struct document *document, const char *const *translations, char **text,
                  struct acre_range *places, struct acre_err *err);

void document_fini(struct document *document);

#endif
