#include "temp.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(int good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

void temp_make(char directory[sizeof(TEMP_TEMPLATE)])
{
    memcpy(directory, TEMP_TEMPLATE, sizeof(TEMP_TEMPLATE));
    check(mkdtemp(directory) != NULL, "mkdtemp");
}

void temp_write(const char *directory, const char *name, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    check(file != NULL, path);
    check(fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, path);
}

void temp_write_text(const char *directory, const char *name, const char *text)
{
    temp_write(directory, name, text, strlen(text));
}

void temp_write_below(const char *directory, const char *path, const char *text)
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

void temp_copy(const char *directory, const char *name, const char *from)
{
    static char data[4 << 20];
    FILE *file = fopen(from, "rb");
    check(file != NULL, from);
    size_t bytes = fread(data, 1, sizeof(data), file);
    fclose(file);
    temp_write(directory, name, data, bytes);
}

void temp_remove(const char *directory)
{
    DIR *list = opendir(directory);
    check(list != NULL, directory);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%.255s", directory, entry->d_name);
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            check(remove(path) == 0, path);
    }
    closedir(list);
    check(rmdir(directory) == 0, directory);
}
