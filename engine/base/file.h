/* file.h - files in memory: whole small ones, with a size limit, and parts of large ones.
 *
 * Configuration, vocabularies and tokenizer models are read whole, weights in parts. A path is a
 * directory and a name, so that messages can say the name alone ("config.json: ...") and whoever
 * knows the directory puts it in front. Functions without state.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

/* Bytes with their number; a NUL that does not count stands behind them. */
struct text {
    char *bytes; /* owned; NULL if there is no such file */
    size_t n;
};

/* directory/name, or name alone if directory is NULL. Owned by the caller; NULL if out of memory.
 */
char *file_path(const char *directory, const char *name);

/* Reads a regular file of at most max_bytes. text_fini() frees it. */
int file_read(const char *directory, const char *name, size_t max_bytes, struct text *text,
              struct acre_err *err);
/* The same, but a file that is not there gives text->bytes == NULL and no error. */
int file_read_optional(const char *directory, const char *name, size_t max_bytes, struct text *text,
                       struct acre_err *err);
void text_fini(struct text *text);

/* Opens a regular file for reading and tells its size: a descriptor, or ACRE_EIO. `name` is what
 * messages call it. */
int file_open(const char *path, const char *name, size_t *bytes, struct acre_err *err);

/* Reads bytes [first, first + n) of an open file; ACRE_EIO if it ends before. */
int file_read_part(int descriptor, const char *name, size_t first, size_t n, void *out,
                   struct acre_err *err);

/* False only if nothing has that name; so a link to nothing is there, and cannot be opened. */
bool file_exists(const char *directory, const char *name);

#endif
