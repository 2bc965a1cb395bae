/* charsmap.h - whether a SentencePiece model's normalisation table stays within itself.
 *
 * libsentencepiece follows the offsets of this table (a double-array trie and the strings it leads
 * to, built when the model was trained) without looking whether they point inside, so that a
 * damaged file would crash the first request. Everything else in the file it checks itself.
 */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>

/* Looks at the tables in the contents of a .spm file; false also if they are no protocol buffer. */
bool charsmap_is_sound(const char *data, size_t bytes);

#endif
