#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[64];
static char written[8][128];
static size_t n_written;

static void clean(void)
{
    for (size_t i = 0; i < n_written; i++)
        unlink(written[i]);
    rmdir(directory);
}

const char *input_directory(void)
{
    if (!directory[0]) {
        const char *shared_memory = "/dev/shm";
        snprintf(directory, sizeof(directory), "%s/acre-fuzz-XXXXXX",
                 access(shared_memory, W_OK) == 0 ? shared_memory : ".");
        if (!mkdtemp(directory))
            abort();
        atexit(clean);
    }
    return directory;
}

static void remember(const char *path)
{
    for (size_t i = 0; i < n_written; i++)
        if (__builtin_strcmp(written[i], path) == 0)
            return;
    snprintf(written[n_written++], sizeof(written[0]), "%s", path);
}

void input_write(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", input_directory(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    remember(path);
}
