/* alphabet.h - which characters of a source the model can read. A vocabulary has them, or spells
 * them in bytes that training has seldom met. Of models of bytes nothing tells what was in
 * training, and the language does: CLDR's letters of it, and the signs that European texts have.
 *
 * Any thread may ask; what a vocabulary said is remembered.
 */
#ifndef TEXT_ALPHABET_H
#define TEXT_ALPHABET_H

#include "text/tokenizer.h"

struct alphabet;

/* language: BCP 47; "", and one that CLDR has no letters of: models of bytes read all. Borrows the
 * tokenizer. 0 or ACRE_ENOMEM. */
int alphabet_open(const struct tokenizer *tokenizer, const char *language,
                  struct alphabet **alphabet);
void alphabet_close(struct alphabet *alphabet); /* NULL is allowed */

/* character: in UTF-8, [bytes]. */
bool alphabet_has(struct alphabet *alphabet, const char *character, size_t bytes);

#endif
