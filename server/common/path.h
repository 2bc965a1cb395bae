/* path.h - files that may not be there yet. No state; any thread. */
#ifndef SERVER_COMMON_PATH_H
#define SERVER_COMMON_PATH_H

#include <stddef.h>

/* The folder that a file of that name stands in, for the caller to free; NULL without memory. */
char *path_folder(const char *path);

/* 0 if this process may write the file, or make it; else what errno would be. Makes nothing. */
int path_writable(const char *path);

#endif
