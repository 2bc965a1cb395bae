/* json.h - strict reading of JSON that comes from outside.
 *
 * A struct json_object is an object together with where it stands, so that every message has the
 * form "config.json: area.top_k: expected an integer from 0 to 0, found 3". A missing field is
 * "found nothing", a wrong type or a value out of range shows the value. Duplicate keys are
 * errors. json_get_...() wants the field; json_opt_...() leaves *value alone if the field is
 * missing or null. Functions without state.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

struct json_object {
    const json_t *value; /* borrowed */
    const char *file;    /* borrowed: what messages call the file */
    char path[128];      /* "" at the top, else "area.encoder_self." */
};

/* Parses one object, if there is room for all that the text may hold. *root is owned by the caller
 * (json_decref); *object borrows it and `file`. */
int json_parse(const char *file, const char *text, size_t bytes, json_t **root,
               struct json_object *object, struct acre_err *err);

/* ACRE_EMODEL with "FILE: FIELD: expected EXPECTED, found ..."; `found` NULL is "nothing". */
int json_fail(const struct json_object *object, const char *field, const char *expected,
              const json_t *found, struct acre_err *err);

/* The value of the field; NULL if it is missing or null. Borrowed. */
const json_t *json_find(const struct json_object *object, const char *field);

int json_get_int(const struct json_object *object, const char *field, int min, int max, int *value,
                 struct acre_err *err);
int json_opt_int(const struct json_object *object, const char *field, int min, int max, int *value,
                 struct acre_err *err);
int json_opt_bool(const struct json_object *object, const char *field, bool *value,
                  struct acre_err *err);
int json_opt_float(const struct json_object *object, const char *field, float min, float max,
                   float *value, struct acre_err *err);
/* Copies a string of 1 to max_bytes - 1 bytes to value[max_bytes]. */
int json_get_text(const struct json_object *object, const char *field, size_t max_bytes,
                  char *value, struct acre_err *err);
int json_opt_text(const struct json_object *object, const char *field, size_t max_bytes,
                  char *value, struct acre_err *err);
/* child->value is NULL if the field is missing. */
int json_opt_object(const struct json_object *object, const char *field, struct json_object *child,
                    struct acre_err *err);

/* One integer, as an element of an array is checked. */
bool json_int_in(const json_t *value, json_int_t min, json_int_t max);

#endif
