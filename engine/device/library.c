/* Looks for the library where ACRE_CUDA says, else beside the program and in ../lib/acre from
 * there. What goes wrong is named: there is none, it is not one or not all of one, it is another
 * version's; and what the library itself finds missing.
 *
 * A program that has the backend linked in, as the emulated one, does not get this file. */
#include "device/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
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

/* How many bytes the segments of a library reach over; 0 if that is no library. */
static size_t bytes_of_segments(int file)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    size_t most = 0;
    if (file_read_part(file, CUDA_LIBRARY, 0, sizeof(head), &head, NULL) != 0 ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    for (size_t i = 0; i < head.e_phnum; i++) {
        size_t at = head.e_phoff + i * sizeof(segment);
        if (file_read_part(file, CUDA_LIBRARY, at, sizeof(segment), &segment, NULL) != 0)
            break; /* the loader says it */
        size_t end = segment.p_offset + segment.p_filesz;
        most = end > most ? end : most;
    }
    return most;
}

/* The loader maps what a copy that was cut short lacks, too: who reads it dies of SIGBUS. */
static int check_length(const char *path, struct acre_err *err)
{
    size_t bytes = 0;
    int file = file_open(path, CUDA_LIBRARY, &bytes, NULL);
    if (file < 0)
        return 0; /* likewise */
    size_t expected = bytes_of_segments(file);
    close(file);
    return bytes >= expected ? 0
                             : err_set(err, ACRE_EUNSUPPORTED,
                                       "cuda: %s: expected a library of %zu bytes, found %zu", path,
                                       expected, bytes);
}

int device_cuda_open(int ordinal, struct device **device, struct acre_err *err)
{
    static const struct cuda_host host = {CUDA_HOST_FACTS, mem_alloc, mem_calloc, mem_free,
                                          mem_note};
    char path[2 * PATH_MAX];
    int status = find_library(path, sizeof(path), err);
    if (status == 0)
        status = check_length(path, err);
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
