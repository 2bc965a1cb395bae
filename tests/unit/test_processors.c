/* How many processors there are to use: affinity of large machines, quotas of made-up groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../support/temp.h"
#include "base/cpu.h" /* cpu_count() */
#include "base/processors.h"

/* ---- Affinity -------------------------------------------------------------------------------- */

static int kernel_cpus, allowed_cpus;

/* As sched_getaffinity() of a kernel for so many processors. */
static int get_affinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    if (bytes * 8 < (size_t)kernel_cpus) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < allowed_cpus; i++)
        CPU_SET_S((size_t)(kernel_cpus - 1 - i), bytes, set);
    return 0;
}

static int refuse(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid, (void)bytes, (void)set;
    errno = EPERM;
    return -1;
}

static void test_affinity(void **state)
{
    (void)state;
    static const int cases[][2] = {{64, 3}, {1024, 1024}, {1025, 1025}, {8192, 2000}, {65536, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kernel_cpus = cases[i][0];
        allowed_cpus = cases[i][1];
        assert_int_equal(processors_allowed(get_affinity), allowed_cpus);
    }
    assert_int_equal(processors_allowed(refuse), 1);
    assert_in_range(cpu_count(), 1, processors_allowed(sched_getaffinity));
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

struct file {
    const char *path, *text;
};

struct tree {
    const char *what;
    int quota;
    struct file files[8];
};

#define SELF "/proc/self/cgroup"
#define GROUPS "/sys/fs/cgroup"

static const struct tree trees[] = {
    {"nothing", 0, {{"/proc/none", ""}}},
    {"no quota", 0, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "max 100000\n"}}},
    {"the root's", 3, {{SELF, "0::/\n"}, {GROUPS "/cpu.max", "250000 100000\n"}}},
    {"a service's",
     2,
     {{SELF, "0::/system.slice/acre.service\n"},
      {GROUPS "/system.slice/acre.service/cpu.max", "200000 100000\n"},
      {GROUPS "/system.slice/cpu.max", "max 100000\n"}}},
    {"the one around a service's",
     1,
     {{SELF, "0::/system.slice/acre.service/worker\n"},
      {GROUPS "/system.slice/acre.service/worker/cpu.max", "max 100000\n"},
      {GROUPS "/system.slice/acre.service/cpu.max", "400000 100000\n"},
      {GROUPS "/system.slice/cpu.max", "50000 100000\n"}}},
    {"of others", 0, {{SELF, "0::/a\n"}, {GROUPS "/b/cpu.max", "100000 100000\n"}}},
    {"a path that is not there",
     4,
     {{SELF, "0::/kubepods/pod1/box\n"}, {GROUPS "/cpu.max", "400000 100000\n"}}},
    {"a path outside",
     5,
     {{SELF, "0::/../../other\n"},
      {GROUPS "/cpu.max", "500000 100000\n"},
      {"/sys/other/cpu.max", "100000 100000\n"}}},
    {"version 1",
     2,
     {{SELF, "5:memory:/docker/1\n4:cpuset:/docker/1\n3:cpu,cpuacct:/docker/1\n0::/docker/1\n"},
      {GROUPS "/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "150000\n"},
      {GROUPS "/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n"},
      {GROUPS "/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n"},
      {GROUPS "/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n"}}},
    {"version 1 under one name, the group around",
     6,
     {{SELF, "2:cpuacct,cpu:/a/b\n"},
      {GROUPS "/cpu/a/b/cpu.cfs_quota_us", "-1\n"},
      {GROUPS "/cpu/a/b/cpu.cfs_period_us", "100000\n"},
      {GROUPS "/cpu/a/cpu.cfs_quota_us", "300000\n"},
      {GROUPS "/cpu/a/cpu.cfs_period_us", "50000\n"}}},
    {"numbers that are none", 0, {{SELF, "garbage\n::\n0::\n"}, {GROUPS "/cpu.max", "0 0\n"}}},
};

static void test_quotas(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
        char root[sizeof(TEMP_TEMPLATE)], command[64];
        temp_make(root);
        for (const struct file *file = trees[i].files; file->path; file++)
            temp_write_below(root, file->path, file->text);
        if (processors_quota(root) != trees[i].quota)
            fail_msg("%s: expected %d, found %d", trees[i].what, trees[i].quota,
                     processors_quota(root));
        snprintf(command, sizeof(command), "rm -r %s", root);
        assert_int_equal(system(command), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_quotas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
