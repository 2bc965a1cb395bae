/* dictionary.h - what a glossary says for one pair of languages: terms, and what each is called in
 * the other language; with an automaton that finds all of them in a text at once.
 *
 * The automaton is Aho's and Corasick's over the words of the terms, from their last word to their
 * first: read backwards, a text tells at each of its words the longest term that begins there. Time
 * and memory grow with the bytes of the terms alone, whatever they have in common, and the time of
 * a search with those of the text. What is sealed is constant; then any thread.
 */
#ifndef SERVER_CONTENT_DICTIONARY_H
#define SERVER_CONTENT_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* DeepL's limits. */
enum { DICTIONARY_MAX_BYTES = 10485760, DICTIONARY_TERM_BYTES = 1024 };

enum { DICTIONARY_NONE = 0 }; /* of words and entries, which count from 1 */

struct dictionary;

/* For entries of up to so many bytes. It is the caller's, with one reference; NULL: no memory. */
struct dictionary *dictionary_open(size_t max_bytes);

/* References are counted on one thread. The last one to be dropped frees it. NULL is allowed. */
void dictionary_hold(struct dictionary *dictionary);
void dictionary_drop(struct dictionary *dictionary);

/* Adds an entry; white space at the ends of terms does not count. Refuses a term that is empty,
 * longer than DICTIONARY_TERM_BYTES or has control characters in it; the error names the entry.
 * Texts are valid UTF-8. */
int dictionary_add(struct dictionary *dictionary, const char *source, size_t source_bytes,
                   const char *target, size_t target_bytes, struct acre_err *err);

/* After the last entry. Refuses a term that is there twice, and a dictionary without entries. */
int dictionary_seal(struct dictionary *dictionary, struct acre_err *err);

size_t dictionary_entries(const struct dictionary *dictionary);
size_t dictionary_memory(const struct dictionary *dictionary); /* bytes */

/* All entries, as lines of term, tab and translation; the last one without its end. */
const char *dictionary_text(const struct dictionary *dictionary, size_t *bytes);

/* Term and translation of an entry. */
struct dictionary_entry {
    const char *source, *target;
    uint32_t source_bytes, target_bytes;
};
struct dictionary_entry dictionary_entry(const struct dictionary *dictionary, uint32_t entry);

/* The entry whose term is the text, or DICTIONARY_NONE. */
uint32_t dictionary_find(const struct dictionary *dictionary, const char *source, size_t bytes);

/* ---- For searching a text, backwards --------------------------------------------------------- */

/* The number of a segment (segment.h), here always called a word; or DICTIONARY_NONE if no term has
 * it. */
uint32_t dictionary_word(const struct dictionary *dictionary, const char *text, size_t bytes,
                         bool is_blank);

/* What has been read, 0: nothing; one word more. */
uint32_t dictionary_step(const struct dictionary *dictionary, uint32_t state, uint32_t word);

/* Like dictionary_step(), for one look aside: the caller keeps reading from `state`. A step may
 * follow any number of fallbacks, as each shortens the state for good; a look shortens nothing, so
 * it follows at most PEEKS and then tries the word alone. */
uint32_t dictionary_peek(const struct dictionary *dictionary, uint32_t state, uint32_t word);

/* The entry of the longest term that begins with the word read last, and how many words it has. */
uint32_t dictionary_longest(const struct dictionary *dictionary, uint32_t state, uint32_t *n_words);

#endif
