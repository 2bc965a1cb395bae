/* libre.h - what the files of LibreTranslate's dialect share. Loop thread. */
#ifndef SERVER_API_LIBRE_H
#define SERVER_API_LIBRE_H

#include "api/call.h"

/* All of a request to translate. */
int libre_parse(struct call *call, struct srv_error *error);

/* Puts an error into LibreTranslate's words. */
/* Of its parts: which model (model, source, target); how (level, timeout_ms). */
int libre_parse_languages(struct call *call, struct srv_error *error);
int libre_parse_limits(struct call *call, struct srv_error *error);
void libre_word(const struct call *call, struct srv_error *error);

#endif
