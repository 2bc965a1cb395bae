/* Looks for the library where ACRE_CUDA says, else beside the program and in ../lib/acre from
 * there. What goes wrong is named: there is none, it is not one, it is another version's; and what
 * the library itself finds missing.
 *
 * A program that has the backend linked in, as the emulated one, does not get this file. */
#include "device/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

static const char *const folders[] = {"", "../lib/acre/"};
enum { N_FOLDERS = sizeof(folders) / sizeof(folders[0]) };

/* The program's folder with a slash behind; "" if nobody knows. */
static void find_folder(char *folder, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", folder, bytes - 1);
    folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = '\0';
}

static int find_library(char *path, size_t bytes, struct acre_err *err)
{
    const char *told = getenv("ACRE_CUDA");
    char folder[PATH_MAX];
    if (told && *told) {
        snprintf(path, bytes, "%s", told);
        return access(path, R_OK) == 0
                   ? 0
                   : err_set(err, ACRE_EUNSUPPORTED,
                             "cuda: ACRE_CUDA: expected a library, found no file %s", path);
    }
    find_folder(folder, sizeof(folder));
    for (size_t i = 0; i < N_FOLDERS; i++) {
        snprintf(path, bytes, "%s%s" CUDA_LIBRARY, folder, folders[i]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return err_set(err, ACRE_EUNSUPPORTED,
                   "cuda: expected " CUDA_LIBRARY " beside the program or in ../lib/acre from "
                   "there, found none");
}

int device_cuda_open(int ordinal, struct device **device, struct acre_err *err)
{
    static const struct cuda_host host = {CUDA_HOST_FACTS, mem_alloc, mem_calloc, mem_free,
                                          mem_note};
    char path[2 * PATH_MAX];
    int status = find_library(path, sizeof(path), err);
    if (status != 0)
        return status;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ACRE_EUNSUPPORTED, "cuda: %s", dlerror());
    cuda_open_fn *open = NULL;
    *(void **)&open = dlsym(library, "acre_cuda_open");
    if (!open)
        return err_set(err, ACRE_EUNSUPPORTED, "cuda: %s: expected acre_cuda_open() in it", path);
    return open(&host, ordinal, device, err);
}
