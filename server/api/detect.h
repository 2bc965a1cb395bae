/* detect.h - the language of a call's texts, where the call does not say it. Loop thread. */
#ifndef SERVER_API_DETECT_H
#define SERVER_API_DETECT_H

#include "api/call.h"
#include "content/detect.h"

/* Among the languages that models translate from, as one text. -1: no memory. */
int detect_texts(const struct call *call, struct detection *detection, struct srv_error *error);

/* Replaces `auto` in request.source by what was found, or refuses: an assumed language would be
 * shown to users as a finding. Texts without letters are any language's. */
int detect_source(struct call *call, struct srv_error *error);

/* Replaces `auto` by `source`, the one language of the model that the call names, and finds how
 * sure that is: 0 where the texts look like another. */
int detect_given(struct call *call, const char *source, struct srv_error *error);

#endif
