/* libre.h - what the files of LibreTranslate's dialect share. Loop thread, unless it says so. */
#ifndef SERVER_API_LIBRE_H
#define SERVER_API_LIBRE_H

#include "api/call.h"

/* All of a request to translate. */
int libre_parse(struct call *call, struct srv_error *error);

/* What of it takes long; any thread. */
int libre_prepare(struct call *call, struct srv_error *error);

/* Of its parts: which model (model, source, target); how (level, timeout_ms). */
int libre_parse_languages(struct call *call, struct srv_error *error);
int libre_parse_limits(struct call *call, struct srv_error *error);

/* Puts an error into LibreTranslate's words. */
void libre_phrase(const struct call *call, struct srv_error *error);

/* The whole reply; false: no memory. */
bool libre_write_reply(const struct call *call, FILE *out, struct acre_err *err);
/* A sentence of text `index`, as streams have it: what stands between sentences is in `before`, and
 * behind the last one in `after`. */
bool libre_write_sentence(const struct call *call, size_t index,
                          const struct srv_sentence *sentence, FILE *out);

#endif
