/* temp.h - files in a temporary directory, for tests. Failures end the test program. */
#ifndef TESTS_TEMP_H
#define TESTS_TEMP_H

#include <stddef.h>

#define TEMP_TEMPLATE "/tmp/acre-test-XXXXXX"

void temp_make(char directory[sizeof(TEMP_TEMPLATE)]);
void temp_write(const char *directory, const char *name, const void *data, size_t bytes);
void temp_write_text(const char *directory, const char *name, const char *text);

/* A file with the folders that its path, which begins with '/', needs. */
void temp_write_below(const char *directory, const char *path, const char *text);

/* Copies a file of the tree, e.g. of tests/golden/tokenizer. */
void temp_copy(const char *directory, const char *name, const char *from);

/* Removes the directory and the files in it. */
void temp_remove(const char *directory);

#endif
