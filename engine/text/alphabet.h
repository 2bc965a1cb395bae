/* alphabet.h - which characters of a source the model can read: those of its vocabulary, which
 * spells others in bytes, and the letters of its language by CLDR, with those of loans ("café"),
 * which training has met either way. Models of bytes have no vocabulary that tells: they read the
 * language's scripts, too, and the signs that European texts have.
 *
 * Any thread may ask; what a vocabulary said is remembered.
 */
#ifndef TEXT_ALPHABET_H
#define TEXT_ALPHABET_H

#include "text/tokenizer.h"

struct alphabet;

/* language: BCP 47. Models of bytes read all if CLDR has no letters of it, or if it is "". Borrows
 * the tokenizer. 0 or ACRE_ENOMEM. */
int alphabet_open(const struct tokenizer *tokenizer, const char *language,
                  struct alphabet **alphabet);
void alphabet_close(struct alphabet *alphabet); /* NULL is allowed */

/* character: in UTF-8, [bytes]. */
bool alphabet_has(struct alphabet *alphabet, const char *character, size_t bytes);

#endif
