/* word.h - which characters are of words. No state, any thread. */
#ifndef SERVER_CONTENT_WORD_H
#define SERVER_CONTENT_WORD_H

#include <stdbool.h>
#include <stdint.h>

/* Letters, digits and what belongs to them. */
bool word_has(uint32_t character);

/* Of Chinese, Japanese, Thai and their like, which have no blanks between words. */
bool word_is_unspaced(uint32_t character);

/* Of a word, and of a script that puts blanks between words, and few endings to a name. */
bool word_is_spaced(uint32_t character);

#endif
