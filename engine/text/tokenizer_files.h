/* tokenizer_files.h - what a tokenizer is made of, read from the files of a model. Private to
 * tokenizer.c.
 */
#ifndef TEXT_TOKENIZER_FILES_H
#define TEXT_TOKENIZER_FILES_H

#include "text/bytes.h"
#include "text/sentencepiece.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

enum tokenizer_kind { KIND_BYTES, KIND_MARIAN, KIND_M2M, KIND_NLLB, KIND_MBART };

struct tokenizer {
    enum tokenizer_kind kind;
    struct byte_names byte_names;
    struct spm *source_spm, *target_spm; /* the same one if the files are the same */
    struct vocab source, separate;       /* separate: target_vocab.json, if there is one */
    struct vocab *target;                /* one of these two */
    struct language_tokens languages;
    bool is_language_last; /* a source ends with its language's token */
};

/* Of tokenizer_open(); the tokenizer is all 0. What it has by then is tokenizer_close()'s, also if
 * it fails. */
int tokenizer_read_files(struct tokenizer *tokenizer, const char *directory, int vocab_size,
                         const char *class_of_config, struct acre_err *err);

#endif
