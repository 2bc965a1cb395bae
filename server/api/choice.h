/* choice.h - which models answer a call, with which decoding and glossaries. On the loop.
 *
 * A model is chosen by its name, or by languages and level; under "auto" by the language that is
 * found, so that texts of several take several routes. What decoding may ask for, and which part of
 * a glossary counts, is the model's to say.
 */
#ifndef SERVER_API_CHOICE_H
#define SERVER_API_CHOICE_H

#include "common/error.h"

struct call;

/* Completes call->request. */
int choice_make(struct call *call, struct srv_error *error);

#endif
