/* sentencepiece.h - libsentencepiece as C functions.
 *
 * The library is C++; this is the only place that knows. Its exceptions and statuses stay inside:
 * every function returns 0 or ACRE_E... An open model is immutable, so any thread may use it.
 */
#ifndef TEXT_SENTENCEPIECE_H
#define TEXT_SENTENCEPIECE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spm;

/* Its pieces by their numbers, 0 ... spm_size() - 1. They live as long as the model. */
int spm_size(const struct spm *spm);
const char *spm_piece(const struct spm *spm, int number);

/* The number of a piece; that of the unknown piece if there is none. */
int spm_find(const struct spm *spm, const char *piece, size_t piece_bytes);

/* Receives one piece; not 0 stops and becomes the result. */
typedef int spm_piece_fn(void *user, const char *piece, size_t piece_bytes);

/* From the contents of a .spm file, which are copied. ACRE_EMODEL if they are no model. *spm is
 * owned by the caller. */
int spm_open(const char *data, size_t bytes, struct spm **spm);
void spm_close(struct spm *spm); /* NULL is allowed */

/* Normalises and splits text; calls `piece` for each piece in order. */
int spm_encode(const struct spm *spm, const char *text, size_t text_bytes, spm_piece_fn *piece,
               void *user);

/* The same pieces; calls `range` with the bytes of the text that each stands for, whitespace before
 * a word included. */
typedef int spm_range_fn(void *user, size_t first, size_t n_bytes);
int spm_encode_ranges(const struct spm *spm, const char *text, size_t text_bytes,
                      spm_range_fn *range, void *user);

/* Joins pieces to text. *text is owned by the caller (mem_free), NUL-terminated. */
int spm_decode(const struct spm *spm, const char *const *pieces, size_t n, char **text,
               size_t *text_bytes);

#ifdef __cplusplus
}
#endif

#endif
