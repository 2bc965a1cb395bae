/* weight_file.h - one safetensors file: its header, read as hostile input, and its numbers.
 *
 * A file is 8 bytes of header length, a JSON header, and the data. Used by safetensors.c alone.
 */
#ifndef MODEL_WEIGHT_FILE_H
#define MODEL_WEIGHT_FILE_H

#include <jansson.h>
#include <stddef.h>

#include "acre.h"
#include "tensor/tensor.h"

struct weight_file {
    char *name;       /* owned: what messages call it */
    int descriptor;   /* owned; negative: it is in memory */
    const char *data; /* borrowed: there */
    size_t bytes;
    size_t section, section_bytes; /* the data behind the header */
    json_t *header;                /* owned */
};

/* A tensor as a header describes it. Types that Acre does not compute with may stand in a file:
 * they are checked and remembered, so that asking for one says why it is refused. */
struct weight_entry {
    const char *name;  /* borrowed from the header */
    const char *other; /* borrowed: the type's name if it is none of ours, else NULL */
    size_t file;       /* its number */
    size_t begin, end; /* in the file's section */
    struct tensor tensor;
    void *data; /* what has been read of it, or NULL; safetensors.c's */
};

struct weight_entries {
    struct weight_entry *items; /* owned */
    size_t n, capacity;
};

/* Opens directory/name, or the path `name` if directory is NULL. Whether it fails or not, the file
 * is for weight_file_close(). */
int weight_file_open(struct weight_file *file, const char *directory, const char *name,
                     struct acre_err *err);
/* The same of bytes in memory, borrowed until the close. */
int weight_file_borrow(struct weight_file *file, const char *name, const void *data, size_t bytes,
                       struct acre_err *err);
void weight_file_close(struct weight_file *file);

/* Appends what the header has, as entries of file `number`. */
int weight_file_list(struct weight_file *file, size_t number, struct weight_entries *entries,
                     struct acre_err *err);

/* Reads the bytes of an entry's numbers; one that is infinite or none is an error. */
int weight_file_read(const struct weight_file *file, const struct weight_entry *entry,
                     void *numbers, struct acre_err *err);

#endif
