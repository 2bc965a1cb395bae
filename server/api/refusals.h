/* refusals.h - a line in the log for every request that is refused for want of room, time or a
 * key, and not for what it says: as many as an operator can read, then only their number.
 *
 * A client that makes a server refuse must not fill its disk with that. Loop thread only.
 */
#ifndef SERVER_API_REFUSALS_H
#define SERVER_API_REFUSALS_H

#include "http/http.h"

/* `route` is a path of the table of routes: a request's own path may have its text in it. */
void refusals_note(const struct http_record *record, const char *route);

/* What was counted and not told. */
void refusals_flush(void);

#endif
