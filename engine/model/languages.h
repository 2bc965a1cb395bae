/* languages.h - which languages a model is for. Any thread.
 */
#ifndef MODEL_LANGUAGES_H
#define MODEL_LANGUAGES_H

#include "base/json.h"
#include "model/config.h"

/* Each from tokenizer_config.json (NULL: there is none), or else from the model's name. */
int languages_read(const struct json_object *tokenizer, const char *name, struct config *config,
                   struct acre_err *err);

#endif
