/* fields.h - the parameters of a request, whichever way they came.
 *
 * A JSON body gives its members, numbers and booleans as such. Any other request gives its query
 * string and its urlencoded or multipart body merged, all values strings: the query wins, and the
 * first of a repeated key; a form's shape may name fields of which all are wanted, as an array, and
 * one that is an array of objects. CRLF becomes LF in all but repeated ones, as browsers send it
 * for a newline. Urlencoded bodies are read as
 * Flask reads them; multipart bodies strictly (form.h). Reading may take long for a large body, and
 * may be done by any thread; the rest on the loop's.
 */
#ifndef SERVER_API_FIELDS_H
#define SERVER_API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/form.h"
#include "common/error.h"
#include "http/http.h"
#include "serve/decoding.h"

struct fields {
    json_t *object; /* owned; strings handed out live as long */
    bool is_json;
    size_t held_bytes; /* of strings and the file in them: copies of what the body had */
    struct {
        char *data; /* owned: bytes as they came; NULL: none came */
        size_t bytes;
        char *name; /* owned, as it came; or NULL */
    } file;
};

/* Reads a request that is complete. Fields that are not among `names`, which NULL ends, are left
 * out. In a form, `shape` (NULL: none) says which of them are more than one text: repeated ones are
 * arrays, however often they come, and the file is apart. */
int fields_read(struct fields *fields, const struct http_request *request, const char *const *names,
                const struct form_shape *shape, struct srv_error *error);
void fields_fini(struct fields *fields);

/* Leaves out members, of an object in a field, that are not among `names`, likewise. */
void fields_drop_unknown(json_t *object, const char *const *names);

/* For calls that read no more than texts and arrays of at most `most` texts: of anything else keeps
 * what errors tell, its type and the number of its items. So it is little larger than the body. */
void fields_flatten(struct fields *fields, size_t most);

/* NULL if the field is absent, null or an empty string: forms send those for what is not given. */
json_t *fields_find(const struct fields *fields, const char *name);

/* These leave *value alone if the field is not there, and refuse a wrong type or range. */
int fields_text(const struct fields *fields, const char *name, const char **value,
                struct srv_error *error);
int fields_required(const struct fields *fields, const char *name, const char **value,
                    struct srv_error *error); /* but: NULL, and refused, if it is not there */
int fields_int(const struct fields *fields, const char *name, int64_t min, int64_t max, int *value,
               struct srv_error *error);
int fields_real(const struct fields *fields, const char *name, double min, double max,
                double *value, struct srv_error *error);
int fields_flag(const struct fields *fields, const char *name, bool *value,
                struct srv_error *error);

/* The decoding options among the fields; none may be above `most`. */
int fields_decoding(const struct fields *fields, const struct acre_decoding *most,
                    struct decoding_wish *wish, struct srv_error *error);

/* Refuses a field: "q[2]", "expected a string, found null". */
int fields_refuse(struct srv_error *error, const char *name, const char *expected,
                  const json_t *found);

#endif
