/* choice.h - which model answers a call, with which decoding and glossaries. On the loop.
 *
 * A model is chosen by its name, or by languages and level; "auto" becomes the language that is
 * found. What decoding may ask for, and which part of a glossary counts, is the model's to say.
 */
#ifndef SERVER_API_CHOICE_H
#define SERVER_API_CHOICE_H

#include "common/error.h"

struct acre_model;
struct call;

/* Completes call->request. */
int choice_make(struct call *call, struct acre_model **model, struct srv_error *error);

#endif
