/* detect.h - the language of a call's texts, where the call does not say it. Loop thread. */
#ifndef SERVER_API_DETECT_H
#define SERVER_API_DETECT_H

#include "api/call.h"
#include "content/detect.h"

/* Among the languages that `model` reads (NULL: that any does), as one text. A text without letters
 * is any language's: it is in that of detect_take_default(). -1: no memory. */
int detect_texts(const struct call *call, const struct acre_model *model,
                 struct detection *detection, struct srv_error *error);

/* What is said of texts of which nothing is known, with confidence 0: English, if it is one of
 * those languages and can be translated into the call's target, else the first that can. */
void detect_take_default(const struct call *call, const struct acre_model *model,
                         struct detection *detection);

/* Replaces `auto` in request.source by what was found, or refuses: an assumed language would be
 * shown to users as a finding. */
int detect_source(struct call *call, const struct acre_model *model, struct srv_error *error);

/* Replaces `auto` by `source`, the one language of the model that the call names, and finds how
 * sure that is: 0 where the texts look like another. */
int detect_given(struct call *call, const char *source, struct srv_error *error);

#endif
