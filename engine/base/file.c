#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/room.h"

char *file_path(const char *directory, const char *name)
{
    if (!directory)
        return mem_copy_text(name, strlen(name));
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

static int cannot(const char *name, const char *what, int error, struct acre_err *err)
{
    char reason[128];
    return err_set(err, ACRE_EIO, "%s: cannot be %s: %s", name, what,
                   strerror_r(error, reason, sizeof(reason)));
}

/* Whether it is what git leaves in a file's place until Git LFS has fetched that. */
static bool is_pointer(int descriptor)
{
    static const char begin[] = "version https://git-lfs";
    char found[sizeof(begin) - 1];
    return pread(descriptor, found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
           memcmp(found, begin, sizeof(found)) == 0;
}

int file_open(const char *path, const char *name, size_t *bytes, struct acre_err *err)
{
    /* O_NONBLOCK: a FIFO in place of a file must not make us wait. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return cannot(name, "opened", errno, err);
    struct stat found;
    int status = 0;
    if (fstat(descriptor, &found) != 0)
        status = cannot(name, "opened", errno, err);
    else if (!S_ISREG(found.st_mode))
        status = err_set(err, ACRE_EIO, "%s: expected a regular file, found %s", name,
                         S_ISDIR(found.st_mode) ? "a directory" : "something else");
    else if (is_pointer(descriptor))
        status = err_set(err, ACRE_EIO,
                         "%s: expected the file itself, found a pointer of Git LFS; fetch the file "
                         "with git lfs pull",
                         name);
    if (status) {
        close(descriptor);
        return status;
    }
    *bytes = (size_t)found.st_size;
    return descriptor;
}

/* Reads until `n` bytes or the end of the file. */
static int read_some(int descriptor, const char *name, size_t first, size_t n, char *out,
                     size_t *n_read, struct acre_err *err)
{
    *n_read = 0;
    while (*n_read < n) {
        ssize_t got = pread(descriptor, out + *n_read, n - *n_read, (off_t)(first + *n_read));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot(name, "read", errno, err);
        if (got == 0)
            break;
        *n_read += (size_t)got;
    }
    return 0;
}

int file_read_part(int descriptor, const char *name, size_t first, size_t n, void *out,
                   struct acre_err *err)
{
    size_t n_read;
    int status = read_some(descriptor, name, first, n, out, &n_read, err);
    if (!status && n_read < n)
        status = err_set(err, ACRE_EIO, "%s: expected %zu bytes, found %zu: it became shorter",
                         name, first + n, first + n_read);
    return status;
}

/* Reads until `bytes` or the end of the file, which may have become shorter since. */
static int read_all(int descriptor, const char *name, size_t bytes, struct text *text,
                    struct acre_err *err)
{
    text->bytes = mem_alloc(bytes + 1);
    if (!text->bytes)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
    int status = room_take(name, bytes, err);
    if (!status) {
        status = read_some(descriptor, name, 0, bytes, text->bytes, &text->n, err);
        room_filled(bytes);
    }
    if (status)
        text_fini(text);
    else
        text->bytes[text->n] = '\0';
    return status;
}

static int read_path(const char *path, const char *name, size_t max_bytes, struct text *text,
                     struct acre_err *err)
{
    size_t bytes;
    int descriptor = file_open(path, name, &bytes, err);
    if (descriptor < 0)
        return descriptor;
    int status;
    if (bytes > max_bytes)
        status = err_set(err, ACRE_EIO, "%s: expected a file of at most %zu bytes, found %zu", name,
                         max_bytes, bytes);
    else
        status = read_all(descriptor, name, bytes, text, err);
    close(descriptor);
    return status;
}

int file_read(const char *directory, const char *name, size_t max_bytes, struct text *text,
              struct acre_err *err)
{
    *text = (struct text){0};
    char *path = file_path(directory, name);
    if (!path)
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", name);
    int status = read_path(path, name, max_bytes, text, err);
    mem_free(path);
    return status;
}

int file_read_optional(const char *directory, const char *name, size_t max_bytes, struct text *text,
                       struct acre_err *err)
{
    *text = (struct text){0};
    return file_exists(directory, name) ? file_read(directory, name, max_bytes, text, err) : 0;
}

void text_fini(struct text *text)
{
    mem_free(text->bytes);
    *text = (struct text){0};
}

bool file_exists(const char *directory, const char *name)
{
    char *path = file_path(directory, name);
    struct stat found;
    /* Where it is a link to nothing, or cannot be told: the reading that follows fails and says
     * why. */
    bool exists = !path || lstat(path, &found) == 0 || errno != ENOENT;
    mem_free(path);
    return exists;
}
