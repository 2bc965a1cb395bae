#include "base/processors.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/control_groups.h"

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
static void read_group(void *user, const char *folder)
{
    double *least = user, quota, period;
    if (read_numbers(folder, "cpu.max", &quota, &period) == 2)
        apply_quota(quota, period, least);
    if (read_numbers(folder, "cpu.cfs_quota_us", &quota, NULL) == 1 &&
        read_numbers(folder, "cpu.cfs_period_us", &period, NULL) == 1)
        apply_quota(quota, period, least);
}

int processors_quota(const char *root)
{
    double least = INT_MAX;
    control_groups_visit(root, "cpu", read_group, &least);
    return least < INT_MAX ? (int)ceil(least) : 0;
}
