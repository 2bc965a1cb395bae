/* terms.h - where in a document's words the terms of dictionaries stand: marks of prose, like those
 * of placeholders, but that the model is given the words, and render.c puts the translation that a
 * dictionary has in the place of what came out for them.
 *
 * At each place the longest term counts, of equal ones that of the first dictionary; none overlap.
 * Terms are compared as they are written, but that a sentence may begin with a capital, and blanks
 * are all alike. No term is found across a tag, a placeholder or the end of a line, or in the value
 * of an attribute. Time grows with the bytes of the text, whatever the terms are. Any thread.
 */
#ifndef SERVER_CONTENT_TERMS_H
#define SERVER_CONTENT_TERMS_H

#include "content/dictionary.h"
#include "content/prose.h"

/* After the document was read. The prose borrows from the dictionaries. 0 or ACRE_ENOMEM. */
int terms_mark(struct prose *prose, struct dictionary *const *dictionaries, size_t n_dictionaries,
               struct acre_err *err);

#endif
