#include "base/processors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel refuses a set that is smaller than its own, so that sets grow until it takes one. */
int processors_allowed(affinity_fn *get)
{
    enum { FIRST_CPUS = 1024, MAX_CPUS = 1 << 20 };
    for (size_t cpus = FIRST_CPUS; cpus <= MAX_CPUS; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int n = set && get(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        bool is_too_small = set && n == 0 && errno == EINVAL;
        CPU_FREE(set);
        if (!is_too_small)
            return n > 0 ? n : 1;
    }
    return 1;
}

/* The two numbers of a group, from one file or two, lower *least if they mean less. */
static void apply_quota(double quota, double period, double *least)
{
    if (quota > 0 && period > 0 && quota / period < *least)
        *least = quota / period;
}

static int read_numbers(const char *folder, const char *name, double *first, double *second)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_MAX)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int n = second ? fscanf(file, "%lf %lf", first, second) : fscanf(file, "%lf", first);
    fclose(file);
    return n;
}

/* "max 100000" in version 2, -1 in version 1: no quota. */
static void read_group(const char *folder, double *least)
{
    double quota, period;
    if (read_numbers(folder, "cpu.max", &quota, &period) == 2)
        apply_quota(quota, period, least);
    if (read_numbers(folder, "cpu.cfs_quota_us", &quota, NULL) == 1 &&
        read_numbers(folder, "cpu.cfs_period_us", &period, NULL) == 1)
        apply_quota(quota, period, least);
}

/* A group and all that it is in. In a container the path may be one of the host, of which nothing
 * is there but the last: the container's own group. */
static void read_groups(const char *mount, const char *path, double *least)
{
    char folder[PATH_MAX];
    size_t mount_bytes = strlen(mount);
    if (strstr(path, "/.."))
        path = "";
    if (mount_bytes + strlen(path) >= sizeof(folder))
        return;
    snprintf(folder, sizeof(folder), "%s%s", mount, path);
    for (;;) {
        read_group(folder, least);
        char *slash = strrchr(folder + mount_bytes, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += bytes)
        if ((at == list || at[-1] == ',') && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    return false;
}

/* A line of /proc/self/cgroup, "4:cpu,cpuacct:/path" or, of version 2, "0::/path". */
static void read_line(const char *root, char *line, double *least)
{
    char mount[PATH_MAX];
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : 0;
    if (!path)
        return;
    *path++ = '\0';
    controllers++;
    path[strcspn(path, "\n")] = '\0';
    if (*controllers && !has_word(controllers, "cpu"))
        return;
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", root, *controllers ? "/" : "",
             controllers);
    read_groups(mount, path, least);
    if (*controllers) { /* where version 1 is mounted under one name only */
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/cpu", root);
        read_groups(mount, path, least);
    }
}

int processors_quota(const char *root)
{
    double least = INT_MAX;
    char path[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &capacity, file) > 0)
        read_line(root, line, &least);
    free(line);
    if (file)
        fclose(file);
    return least < INT_MAX ? (int)ceil(least) : 0;
}
