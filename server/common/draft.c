#include "common/draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

/* A new file gets the mode of any other, which mkstemp() does not give it. */
static int create(const char *path)
{
    const mode_t mask = umask(0);
    const int file = mkstemp((char *)path);

    umask(mask);
    if (file >= 0)
        fchmod(file, 0666 & ~mask);
    return file;
}

static int refuse(const struct draft *draft, struct acre_err *err)
{
    return error_set(err, ACRE_EIO, "%s: expected a file that can be written, found: %s",
                     draft->name, strerror(errno));
}

static void forget(struct draft *draft)
{
    free(draft->path);
    *draft = (struct draft){.file = NULL};
}

int draft_open(struct draft *draft, const char *path, struct acre_err *err)
{
    int file;

    *draft = (struct draft){.file = stdout, .name = path[0] ? path : "standard output"};
    if (!path[0])
        return 0;
    if (asprintf(&draft->path, "%s.XXXXXX", path) < 0) {
        draft->path = NULL;
        return error_set_no_memory(err);
    }
    file = create(draft->path);
    draft->file = file < 0 ? NULL : fdopen(file, "w");
    if (draft->file)
        return 0;
    refuse(draft, err);
    if (file >= 0) {
        close(file);
        unlink(draft->path);
    }
    forget(draft);
    return err->code;
}

int draft_keep(struct draft *draft, struct acre_err *err)
{
    int rc;

    if (!draft->path) {
        rc = ferror(stdout) || fflush(stdout) != 0 ? refuse(draft, err) : 0;
        forget(draft);
        return rc;
    }
    rc = ferror(draft->file) ? -1 : 0;
    if (fclose(draft->file) != 0 || rc != 0 || rename(draft->path, draft->name) != 0) {
        rc = refuse(draft, err);
        unlink(draft->path);
    }
    forget(draft);
    return rc;
}

void draft_drop(struct draft *draft)
{
    if (draft->path) {
        fclose(draft->file);
        unlink(draft->path);
    }
    forget(draft);
}
