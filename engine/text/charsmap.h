/* charsmap.h - whether a SentencePiece model's normalisation table stays within itself.
 *
 * libsentencepiece follows the offsets of this table (a double-array trie and the strings it leads
 * to, built when the model was trained) without looking whether they point inside, and notes as
 * many rules that fit a text as there are, in an array of 32. Any thread.
 */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include <stddef.h>

/* 0, ACRE_EMODEL if following it could leave it, or ACRE_ENOMEM. */
int charsmap_check(const unsigned char *map, size_t bytes);

#endif
