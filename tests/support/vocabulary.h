/* vocabulary.h - random sentences of a model's own tokens, as acre_submit() takes them with
 * is_tokens. */
#ifndef TESTS_VOCABULARY_H
#define TESTS_VOCABULARY_H

#include <stddef.h>

struct vocabulary {
    char **tokens; /* owned, [n] */
    size_t n;
};

/* Reads vocab.json of a model directory; without one the tokens are those of a byte vocabulary,
 * valid UTF-8 as a text. Ends the program if the file cannot be read. */
void vocabulary_init(struct vocabulary *vocabulary, const char *directory);
void vocabulary_fini(struct vocabulary *vocabulary);

/* n_tokens random tokens separated by spaces; the caller frees. */
char *vocabulary_line(const struct vocabulary *vocabulary, size_t n_tokens);

#endif
