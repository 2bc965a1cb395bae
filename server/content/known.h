/* known.h - what is known of a text when it is read: which characters its model can read, and which
 * words the glossaries have. NULL: all characters, and no words. Any thread.
 */
#ifndef SERVER_CONTENT_KNOWN_H
#define SERVER_CONTENT_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "content/dictionary.h"

struct known {
    const struct acre_model *model;
    struct dictionary *const *dictionaries; /* [n_dictionaries] */
    size_t n_dictionaries;
};

bool known_reads(const struct known *known, uint32_t character);

/* Whether terms have any of the words of a text. */
bool known_has_word(const struct known *known, const char *text, size_t bytes);

/* Whether terms have all of its words and signs, so that it may be one. */
bool known_is_term(const struct known *known, const char *text, size_t bytes);

#endif
