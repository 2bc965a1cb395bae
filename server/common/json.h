/* json.h - JSON as we print it everywhere: keys sorted, compact, UTF-8 as it is. No state. */
#ifndef SERVER_COMMON_JSON_H
#define SERVER_COMMON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Nine digits hold any float. */
#define JSON_FLAGS (JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9))

/* Appends `item`, which it takes, and returns the list; or frees both and returns NULL, without
 * memory. A NULL list or item stays NULL: what is printed is whole or it is not printed. */
json_t *json_list_append(json_t *list, json_t *item);

/* An object that is written member by member, for what would be large as a tree. After a member
 * that there was no memory for, nothing more is written. */
struct json_object {
    FILE *out;
    bool has_members, has_failed;
};
void json_object_begin(struct json_object *object, FILE *out);
void json_object_member(struct json_object *object, const char *key, json_t *value); /* takes it */
void json_object_key(struct json_object *object, const char *key); /* the caller writes the value */
bool json_object_end(struct json_object *object);                  /* false: it is not whole */

/* These take the value. */
bool json_put(FILE *out, json_t *value);       /* false: no memory */
char *json_text(json_t *value);                /* from malloc; NULL: no memory, or no value */
char *json_line(json_t *value, size_t *bytes); /* likewise: a newline where text would end in NUL */

#endif
