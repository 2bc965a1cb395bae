/* deepl.h - what the calls of the DeepL API have in common: its language codes and its words.
 *
 * DeepL writes codes in upper case, and calls some targets by their variant only: EN-US, PT-BR.
 * Clients refuse the bare code there, so that variants stand for the language where a model has
 * just that. No state; loop thread.
 */
#ifndef SERVER_API_DEEPL_H
#define SERVER_API_DEEPL_H

#include "common/error.h"
#include "common/json.h"
#include "serve/models.h"

enum { DEEPL_CODE_BYTES = 16 };

/* "de" -> "DE". */
const char *deepl_code(const char *code, char upper[DEEPL_CODE_BYTES]);

/* The code that a model has for a target of DeepL's, in `code`: "EN-US" -> "en" where no model
 * translates to "en-US". What is none stays as it is; NULL if it is too long. */
const char *deepl_target(const struct models *models, const char *target,
                         char code[DEEPL_CODE_BYTES]);

/* Puts the names of DeepL's fields, and its words, into an error. */
void deepl_word(struct srv_error *error);

#endif
