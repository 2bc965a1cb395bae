/* texts.h - the texts of a call: those of a field, or that of its file. For parse() of a dialect;
 * on the loop.
 */
#ifndef SERVER_API_TEXTS_H
#define SERVER_API_TEXTS_H

#include "common/error.h"

struct call;

/* One text or an array of them, into call->request and call->is_array. */
int texts_parse(struct call *call, const char *field, struct srv_error *error);

/* The text of the file. */
int texts_parse_file(struct call *call, struct srv_error *error);

#endif
