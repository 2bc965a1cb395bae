/* json.h - JSON as we print it everywhere: keys sorted, compact, UTF-8 as it is. No state. */
#ifndef SERVER_COMMON_JSON_H
#define SERVER_COMMON_JSON_H

#include <jansson.h>

/* Nine digits hold any float. */
#define JSON_FLAGS (JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9))

/* Appends `item`, which it takes, and returns the list; or frees both and returns NULL, without
 * memory. A NULL list or item stays NULL: what is printed is whole or it is not printed. */
json_t *json_list_append(json_t *list, json_t *item);

#endif
