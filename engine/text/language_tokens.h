/* language_tokens.h - the tokens by which a model of several languages is told which are meant.
 *
 * The files of a directory tell their ids, or else their order is what transformers knows: that of
 * M2M100, NLLB-200 or mBART-50. Any thread.
 */
#ifndef TEXT_LANGUAGE_TOKENS_H
#define TEXT_LANGUAGE_TOKENS_H

#include "base/json.h"
#include "text/vocab.h"

enum language_family { LANGUAGES_M2M, LANGUAGES_NLLB, LANGUAGES_MBART };

struct language_token {
    char code[16]; /* "deu_Latn", "de", "de_DE" */
    char name[24]; /* of the token: "__de__" in M2M100, else the code */
    int32_t id;
};

struct language_tokens {
    struct language_token *items; /* owned, [n] */
    size_t n;
};

/* By tokenizer_config.json, whose object's value may be NULL. Those that the vocabulary has
 * already, as the files of a fast tokenizer do, keep their ids; others are added to it. */
int language_tokens_read(struct language_tokens *tokens, enum language_family family,
                         const struct json_object *config, struct vocab *vocab,
                         struct acre_err *err);
void language_tokens_fini(struct language_tokens *tokens);

#endif
