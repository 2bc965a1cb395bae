/* openapi.h - what this server's interface is, as an OpenAPI 3.1 document.
 *
 * server/assets/openapi.json has all but the numbers and names that settings and models decide;
 * where a schema has "x-acre": "NAME", openapi.c puts what belongs there. Loop thread only.
 */
#ifndef SERVER_API_OPENAPI_H
#define SERVER_API_OPENAPI_H

#include <jansson.h>

#include "api/server.h"

/* The whole document. NULL: no memory. The caller owns it. */
json_t *openapi_make(const struct server *server);

#endif
