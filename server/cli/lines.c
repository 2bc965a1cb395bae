#include "cli/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/unicode.h"

int lines_open(struct lines *lines, const char *path, struct acre_err *err)
{
    *lines = (struct lines){.file = stdin, .name = "standard input"};
    if (!path[0] || strcmp(path, "-") == 0)
        return 0;
    lines->name = path;
    lines->file = fopen(path, "re");
    if (!lines->file)
        return error_set(err, ACRE_EIO, "%s: expected a readable file, found: %s", path,
                         strerror(errno));
    return 0;
}

void lines_close(struct lines *lines)
{
    if (lines->file && lines->file != stdin)
        fclose(lines->file);
    lines->file = NULL;
}

static int check(const struct lines *lines, const char *text, size_t bytes, struct acre_err *err)
{
    const size_t valid = unicode_valid_bytes(text, bytes);
    const char *nul = memchr(text, '\0', bytes);

    if (valid < bytes)
        return error_set(err, ACRE_EINPUT, "%s: line %zu: expected UTF-8, found byte 0x%02x",
                         lines->name, lines->n_lines, (unsigned char)text[valid]);
    if (nul)
        return error_set(err, ACRE_EINPUT, "%s: line %zu: expected text, found a NUL byte",
                         lines->name, lines->n_lines);
    return 0;
}

int lines_next(struct lines *lines, char **text, size_t *bytes, struct acre_err *err)
{
    size_t capacity = 0;
    ssize_t n;
    int rc;

    *text = NULL;
    errno = 0;
    n = getline(text, &capacity, lines->file);
    if (n < 0) {
        rc = ferror(lines->file) || errno == ENOMEM || errno == EISDIR ? ACRE_EIO : 0;
        if (rc != 0)
            error_set(err, rc, "%s: line %zu: expected a line, found: %s", lines->name,
                      lines->n_lines + 1, strerror(errno));
        free(*text);
        *text = NULL;
        return rc;
    }
    lines->n_lines++;
    if (n > 0 && (*text)[n - 1] == '\n')
        n--;
    if (n > 0 && (*text)[n - 1] == '\r')
        n--;
    (*text)[n] = '\0';
    *bytes = (size_t)n;
    rc = check(lines, *text, *bytes, err);
    if (rc == 0)
        return 1;
    free(*text);
    *text = NULL;
    return rc;
}
