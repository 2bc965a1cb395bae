/* temp.h - files in a temporary directory, for tests. Failures end the test program. */
#ifndef TESTS_TEMP_H
#define TESTS_TEMP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_TEMPLATE "/tmp/acre-test-XXXXXX"

static inline void temp_check(int good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

static inline void temp_make(char directory[sizeof(TEMP_TEMPLATE)])
{
    memcpy(directory, TEMP_TEMPLATE, sizeof(TEMP_TEMPLATE));
    temp_check(mkdtemp(directory) != NULL, "mkdtemp");
}

static inline void temp_write(const char *directory, const char *name, const void *data,
                              size_t bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    temp_check(file != NULL, path);
    temp_check(fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, path);
}

static inline void temp_write_text(const char *directory, const char *name, const char *text)
{
    temp_write(directory, name, text, strlen(text));
}

/* A file with the folders that its path, which begins with '/', needs. */
static inline void temp_write_below(const char *directory, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", directory, path);
    for (char *slash = full + strlen(directory) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    temp_write_text(directory, path + 1, text);
}

/* Copies a file of the tree, e.g. of tests/golden/tokenizer. */
static inline void temp_copy(const char *directory, const char *name, const char *from)
{
    static char data[4 << 20];
    FILE *file = fopen(from, "rb");
    temp_check(file != NULL, from);
    size_t bytes = fread(data, 1, sizeof(data), file);
    fclose(file);
    temp_write(directory, name, data, bytes);
}

/* Removes the directory and the files in it. */
static inline void temp_remove(const char *directory)
{
    DIR *list = opendir(directory);
    temp_check(list != NULL, directory);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%.255s", directory, entry->d_name);
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            temp_check(remove(path) == 0, path);
    }
    closedir(list);
    temp_check(rmdir(directory) == 0, directory);
}

#endif
