/* draft.h - a file that appears whole or not at all: it is written under another name beside its
 * place and renamed at the end.
 *
 * One thread per draft.
 */
#ifndef SERVER_COMMON_DRAFT_H
#define SERVER_COMMON_DRAFT_H

#include <stdio.h>

#include "acre.h"

struct draft {
    FILE *file;
    const char *name; /* for messages; borrowed */
    char *path;       /* owned, of the file so far; NULL if it is stdout */
};

/* "" is stdout, where nothing can be taken back. */
int draft_open(struct draft *draft, const char *path, struct acre_err *err);

/* Ends it and puts it in its place. On failure nothing is left on disk. */
int draft_keep(struct draft *draft, struct acre_err *err);

void draft_drop(struct draft *draft);

#endif
