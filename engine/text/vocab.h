/* vocab.h - the pieces of a vocabulary and their ids, as the model numbers them.
 *
 * A table (vocab.json) has ids of its own. Other vocabularies count as a SentencePiece model does,
 * behind four tokens that fairseq puts in front: <s>, <pad>, </s>, <unk>. Tokens that neither of
 * them has (languages) are added. Immutable once made, so any thread may use it.
 */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "text/sentencepiece.h"

struct vocab {
    json_t *ids;           /* owned: of a table, and its pieces' text; NULL: counted by `spm` */
    const struct spm *spm; /* borrowed */
    bool is_shifted;       /* fairseq's tokens are in front of those of `spm`, not among them */
    const char **pieces;   /* owned, [size]; NULL where an id has no piece */
    int size;
    int unknown, end, pad; /* ids; pad is -1 if the vocabulary has none */
    int start;             /* <s>, if it is numbered as in M2M100; else -1: it is a piece */
    bool *is_special;      /* owned, [size]: tokens that are no text */
};

/* A map of pieces to ids below `size`, from directory/name. */
int vocab_open_table(struct vocab *vocab, const char *directory, const char *name, int size,
                     struct acre_err *err);

/* The pieces of `spm`, which must live longer. `file` is blamed if they are more than `size`. */
int vocab_open_spm(struct vocab *vocab, const struct spm *spm, bool is_shifted, int size,
                   const char *file, struct acre_err *err);
void vocab_close(struct vocab *vocab);

/* One more than the largest id. */
int vocab_end(const struct vocab *vocab);

/* The id of a piece, or -1. */
int32_t vocab_find(const struct vocab *vocab, const char *piece, size_t bytes);

/* The id that the model calls a piece of `spm` by; -1 if it does not know it. */
int32_t vocab_piece_id(const struct vocab *vocab, const char *piece, size_t bytes);

/* The piece, NULL if there is none. Lives as long as the vocabulary. */
const char *vocab_piece(const struct vocab *vocab, int32_t id);

/* Whether it stands for no text. */
bool vocab_is_special(const struct vocab *vocab, int32_t id);

#endif
