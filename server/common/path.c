#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int path_writable(const char *path)
{
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *folder;
    int wrong;

    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno != ENOENT)
        return errno;
    folder = path_folder(path);
    if (!folder)
        return ENOMEM;
    wrong = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    return wrong;
}
