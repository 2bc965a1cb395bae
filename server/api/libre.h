/* libre.h - what the files of LibreTranslate's dialect share. Loop thread. */
#ifndef SERVER_API_LIBRE_H
#define SERVER_API_LIBRE_H

#include "api/call.h"

/* All of a request to translate. */
int libre_parse(struct call *call, struct srv_error *error);

/* Puts an error into LibreTranslate's words. */
void libre_word(const struct call *call, struct srv_error *error);

#endif
