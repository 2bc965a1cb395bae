/* form.h - the values of a form: of a query string, an urlencoded body, a multipart body.
 *
 * All values are bytes with a terminator; the first of a repeated key stands, but of some, its
 * shape says which, all. Urlencoded text is read as Flask reads it; a multipart body as RFC 7578
 * writes it, to the letter. The time taken grows with the bytes alone. No state, any thread.
 */
#ifndef SERVER_API_FORM_H
#define SERVER_API_FORM_H

#include <stdbool.h>
#include <stddef.h>

enum { FORM_MAX_KEYS = 64, FORM_MAX_VALUES = 1024 };

/* What of a form is no single value. Members may be NULL. */
struct form_shape {
    const char *const *repeated; /* keys of which all values are wanted; NULL ends them */
    const char *file;            /* the one whose part may have the name of a file */
    const char *list;            /* objects, whose members come as "LIST[0].MEMBER" */
};

struct form {
    struct form_shape shape;
    char *file_name; /* owned, as it was meant; NULL if there is none */
    struct form_entry {
        char *key, *value; /* owned */
        size_t value_bytes;
    } entries[FORM_MAX_VALUES];
    size_t n_entries;
    size_t n_keys;   /* but for repeated ones, and members */
    size_t n_values; /* ever added */
    bool has_too_many;
    bool no_memory;
};

void form_fini(struct form *form);

bool form_is_repeated(const struct form_shape *shape, const char *key);

/* The member that "LIST[12].MEMBER" names, and of which object, at most FORM_MAX_VALUES. NULL: the
 * key is none such. */
const char *form_member(const struct form_shape *shape, const char *key, size_t *object);

void form_add_urlencoded(struct form *form, const char *text, size_t bytes);

/* NULL, or what is wrong with the body or its Content-Type; static text. */
const char *form_add_multipart(struct form *form, const char *content_type, const char *body,
                               size_t bytes);

#endif
