/* align.h - alignments of tokens as ranges of text. Private to the files of this folder. */
#ifndef ENGINE_ALIGN_H
#define ENGINE_ALIGN_H

#include "acre.h"
#include "decode/sentence.h"
#include "text/tokenizer.h"

/* A sentence and one of its translations, both as parts of a text. */
struct aligned_sentence {
    const char *source, *target; /* the whole texts */
    struct acre_range in_source, in_target;
    bool is_tokens;              /* they are tokens separated by spaces */
    size_t n_source, first_item; /* source tokens, and those of them in front of the text's */
    const struct sentence_hypothesis *hypothesis; /* with its alignment */
};

/* Where its tokens stand: source[n_source], target[hypothesis->n_tokens]. */
int align_ranges(const struct tokenizer *tokenizer, const struct aligned_sentence *sentence,
                 struct acre_range *source, struct acre_range *target, struct acre_err *err);

/* alignments[hypothesis->n_tokens]. */
int align_sentence(const struct tokenizer *tokenizer, const struct aligned_sentence *sentence,
                   struct acre_alignment *alignments, struct acre_err *err);

#endif
