/* form.h - the values of a form: of a query string, an urlencoded body, a multipart body.
 *
 * All values are bytes with a terminator; the first of a repeated key stands, but of one,
 * `repeated`, all. Urlencoded text is read as Flask reads it; a multipart body as RFC 7578 writes
 * it, to the letter. The time taken grows with the bytes alone. No state, any thread.
 */
#ifndef SERVER_API_FORM_H
#define SERVER_API_FORM_H

#include <stdbool.h>
#include <stddef.h>

enum { FORM_MAX_KEYS = 64, FORM_MAX_VALUES = 1024 };

struct form {
    const char *repeated; /* a key, or NULL */
    const char *file;     /* likewise: the one whose part may have the name of a file */
    char *file_name;      /* owned: that, as it came; NULL if there is none */
    struct form_entry {
        char *key, *value; /* owned */
        size_t value_bytes;
    } entries[FORM_MAX_VALUES];
    size_t n_entries;
    size_t n_keys;
    size_t n_values; /* ever added */
    bool has_too_many;
    bool no_memory;
};

void form_fini(struct form *form);

void form_add_urlencoded(struct form *form, const char *text, size_t bytes);

/* NULL, or what is wrong with the body or its Content-Type; static text. */
const char *form_add_multipart(struct form *form, const char *content_type, const char *body,
                               size_t bytes);

#endif
