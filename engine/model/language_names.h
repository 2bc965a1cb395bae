/* language_names.h - what the languages of a model are called, by the model and by others.
 *
 * A model calls German "deu_Latn", "de_DE" or "de"; whoever asks for it says "de", "deu", "DE".
 * Two names mean the same language if they have the same language and script by CLDR's rules
 * ("zh-TW" is zh-Hant); regions make no difference but for Chinese, as models have none. Immutable
 * once made, any thread.
 */
#ifndef MODEL_LANGUAGE_NAMES_H
#define MODEL_LANGUAGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

struct language_name {
    char code[16], tag[24], form[16]; /* the model's; BCP 47; language and script */
};

struct language_names {
    struct language_name *names; /* owned, [n] */
    struct acre_language *list;  /* owned, [n]: they, for others */
    size_t n;
};

/* Of codes[n], "" for none, of at most 15 bytes. Those of a model of one pair are tags as they are.
 * 0 or ACRE_ENOMEM; language_names_fini() either way. */
int language_names_init(struct language_names *names, const char *const *codes, size_t n,
                        bool are_tags);
void language_names_fini(struct language_names *names);

/* Borrowed from names->list; NULL: none is called so. */
const struct acre_language *language_names_find(const struct language_names *names,
                                                const char *name);

#endif
