/* lines.h - a text file or stdin, line by line, each checked to be translatable.
 *
 * One reader per file, one thread per reader.
 */
#ifndef SERVER_CLI_LINES_H
#define SERVER_CLI_LINES_H

#include <stdio.h>

#include "acre.h"

struct lines {
    FILE *file;
    const char *name; /* for messages */
    size_t n_lines;   /* read so far */
};

/* "" and "-" are stdin. */
int lines_open(struct lines *lines, const char *path, struct acre_err *err);
void lines_close(struct lines *lines);

/* Reads the next line without its end ("\n" or "\r\n"; the last line may lack it). 1 and *text,
 * which the caller frees; 0 at the end; negative if it cannot be read, or is not UTF-8 without
 * NULs. */
int lines_next(struct lines *lines, char **text, size_t *bytes, struct acre_err *err);

#endif
