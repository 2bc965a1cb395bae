/* deepl.h - what the calls of the DeepL API have in common: its language codes and its words.
 *
 * DeepL writes codes in upper case, and calls some targets by their variant only: EN-US, PT-BR.
 * Clients refuse the bare code there, so that variants stand for the language where a model has
 * just that. No state; loop thread.
 */
#ifndef SERVER_API_DEEPL_H
#define SERVER_API_DEEPL_H

#include "api/call.h"
#include "common/json.h"

enum { DEEPL_CODE_BYTES = 16 };

/* What DeepL calls a language of a model's: "no" -> "nb". */
const char *deepl_tag(const char *tag);

/* Likewise, in upper case: "de" -> "DE". */
const char *deepl_code(const char *code, char upper[DEEPL_CODE_BYTES]);

/* The code that a model has for a target of DeepL's, in `code`: "EN-US" -> "en" where no model
 * translates to "en-US". What is none stays as it is; NULL if it is too long. */
const char *deepl_target(const struct models *models, const char *target,
                         char code[DEEPL_CODE_BYTES]);

/* Of texts and documents: languages, formality, and what no model here can do. */
int deepl_parse_options(struct call *call, struct srv_error *error);

/* The value of one field of a request that has few and short ones, if its API key is good; *key is
 * NULL if it has none. Without a name there is no field. `fields` owns the value: fini it whatever
 * this returns. */
int deepl_read_field(struct server *server, struct http_request *request, struct fields *fields,
                     const char *name, const char **value, struct key **key,
                     struct srv_error *error);

/* 400, "Value for 'FIELD' not supported: WHY". */
int deepl_refuse_value(struct srv_error *error, const char *field, const char *why);

/* Puts the names of DeepL's fields, and its words, into an error. */
void deepl_phrase(struct srv_error *error);

#endif
