/* libre.h - what the files of LibreTranslate's dialect share. Loop thread. */
#ifndef SERVER_API_LIBRE_H
#define SERVER_API_LIBRE_H

#include "api/call.h"

/* Fills request.texts from `q`, a text or an array of texts. */
int libre_parse_texts(struct call *call, struct srv_error *error);

/* Puts an error into LibreTranslate's words. */
void libre_word(const struct call *call, struct srv_error *error);

#endif
